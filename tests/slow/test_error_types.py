"""Errors of ours in the place of fairseq's are of its types too: the same misuse without and with the plug-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import misuse

pytestmark = pytest.mark.slow


def errors(folder: Path, *words: str) -> dict[str, list[str]]:
    """Names of the types of what each call raises, the closest first."""
    done = subprocess.run(
        [sys.executable, misuse.__file__, str(folder), *words],
        capture_output=True, text=True, timeout=550, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(misuse.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def test_each_error_is_of_fairseqs_type(tmp_path: Path) -> None:
    stock, plugin = errors(tmp_path / "stock"), errors(tmp_path / "plugin", "plugin")
    assert stock.keys() == plugin.keys()
    ours = {name for name, kinds in plugin.items() if "deepnmt.errors.UserError" in kinds}
    replaced = {name for name in ours if stock[name]}
    assert len(replaced) > 30
    assert {name: stock[name][0] for name in replaced if stock[name][0] not in plugin[name]} == {}
