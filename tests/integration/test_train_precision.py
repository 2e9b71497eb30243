"""train.sh takes the precision from recipe and command line together, on a made-up GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = "arch: dlcl_transformer_tiny\noptimizer: adam\nmax-tokens: 100\nlr: 0.001\nbf16: true\n"


@pytest.mark.parametrize(
    ("options", "status", "expected"),
    [
        ([], 0, ["--bf16"]),
        (["--amp"], 2, ["recipe.py: error: r.yaml:5: bf16 must be the only precision, but stands beside amp"]),
    ],
)
def test_precision(options: list[str], status: int, expected: list[str], tmp_path: Path) -> None:
    tools, recipe, data = tmp_path / "bin", tmp_path / "r.yaml", tmp_path / "data"
    tools.mkdir()
    data.mkdir()
    recipe.write_text(RECIPE, encoding="utf-8")
    # It has one GPU, and all data folders are right.
    made_up = 'case "$1" in -c) echo 1; exit ;; *check_data.py) exit ;; esac'
    (tools / "python3").write_text(f'#!/bin/sh\n{made_up}\nexec {sys.executable} "$@"\n')
    (tools / "fairseq-train").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    done = subprocess.run(
        [str(ROOT / "scripts" / "train.sh"), str(recipe), str(data), str(tmp_path / "save"), *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DEEPNMT_PYTHON_BIN": str(tools)},
    )
    assert done.returncode == status, done.stderr
    said = done.stdout if status == 0 else done.stderr
    lines = [line.replace(f"{tmp_path}/", "") for line in said.splitlines()]
    assert [line for line in lines if line.endswith(("fp16", "bf16", "amp", "--cpu"))] == expected
    assert (tmp_path / "save").exists() == (status == 0)
