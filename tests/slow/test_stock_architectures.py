"""With the plug-in, fairseq's own architectures train, average and translate as without it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fairseq_cli import preprocess
from support import stock_architectures
from support.trainings import binarised_text

FEWEST = 65  # runs


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_as_without_the_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(binarised_text(tmp_path), tmp_path / "text")
    files = [f"--{split}pref={tmp_path / split}.b" for split in ("train", "valid", "test")]
    monkeypatch.setattr(sys, "argv", ["preprocess", "--only-source", *files, f"--destdir={tmp_path / 'words'}"])
    preprocess.cli_main()
    found: dict[str, dict[str, Any]] = {}
    for side in ("stock", "plugin"):
        done = subprocess.run(
            [sys.executable, stock_architectures.__file__, side, str(tmp_path)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found[side] = json.loads((tmp_path / f"{side}.json").read_text(encoding="utf-8"))
    stock, plugin = found["stock"], found["plugin"]
    assert len(stock) >= FEWEST
    trained = {name for name, result in stock.items() if "error" not in result}
    # Cutoffs above the number of types, and a name that numpy 2 has no more, which the plug-in mends.
    assert {name.split("_lm_")[0] for name in set(stock) - trained} <= {"transformer", "nacrf_transformer"}
    assert "error" not in plugin["nacrf_transformer"]
    assert {name: plugin[name].get("error") for name in trained if "error" in plugin[name]} == {}
    for name in trained:
        for part in ("losses", "valid"):
            assert plugin[name][part] == pytest.approx(stock[name][part], rel=1e-4), f"{name}: {part}"
        assert stock[name]["used"], name
        if isinstance(stock[name]["used"], float):
            assert plugin[name]["used"] == pytest.approx(stock[name]["used"], rel=1e-4), name
            continue
        assert [each[:2] for each in plugin[name]["used"]] == [each[:2] for each in stock[name]["used"]], name
        scores = [[each[2] for each in side[name]["used"]] for side in (plugin, stock)]
        assert scores[0] == pytest.approx(scores[1], rel=1e-3), name
