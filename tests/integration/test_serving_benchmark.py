"""The benchmark of the server: all of its rows, with a small model and for seconds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from support.flow import GERMAN
from support.models import ROOT
from support.processes import finish
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines.engine import SearchSettings
from deepnmt.export.exporter import Export, export


@pytest.mark.slow
def test_the_whole_programme(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    search = SearchSettings(beam=3, max_len_b=12)
    checkpoint = write_checkpoint(tmp_path / "1.pt", data)
    export(Export([checkpoint], data, "onnx", "float32", check=0, search=search), tmp_path / "model")
    # Some readers end a line at U+2028; a blank line has no sentence, and the last two.
    lines = [*GERMAN, "Die Katze\u2028schläft.", "", " ".join(GERMAN[:2])]
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines * 9), "utf-8")
    command = [sys.executable, ROOT / "benchmarks" / "serving.py", tmp_path / "model", tmp_path / "text"]
    done = finish([*command, "--seconds", "1", "--hostile", "200"])
    assert done.returncode == 0, done.stderr
    assert f"for each of {9 * 6} sentences" in done.stdout
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][2:]
    assert [row[0] for row in rows] == [
        "1", "8", "64", "256", "1 beside hostile ones", "64 at the end", "64, killed and started again",
    ]  # fmt: skip
    # No other translation, and none that is lost; only the killed server has clients ask again.
    assert [(row[7], row[9]) for row in rows] == [("0", "0")] * 7
    assert [int(row[8]) > 0 for row in rows] == [False] * 6 + [True]
    assert "; wrong: none\n" in done.stdout
    assert "the server ended: 64 of 64\n" in done.stdout
    assert len(re.findall(r"^memory at the end / after .*: \d\.\d{3}$", done.stdout, re.MULTILINE)) == 4
