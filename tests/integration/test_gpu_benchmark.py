"""benchmarks/gpu.py on the made-up device of `support.fake_cuda`: every row is measured, and stands on the page."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from support.fake_cuda import shim
from support.models import ROOT
from support.processes import finish


@pytest.mark.slow
def test_every_row_is_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    environment = {
        **os.environ,
        "FAKE_CUDA_SHIM": str(shim.build(tmp_path)),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "OMP_NUM_THREADS": "1",
    }
    done = finish([sys.executable, "-m", "support.fake_cuda.gpu_benchmark", page], env=environment)
    assert done.returncode == 0, done.stderr
    lines = page.read_text("utf-8").splitlines()
    assert lines[0] == "# made up"
    assert lines[-1] == "Left out for want of time: 0 rows."
    number = r"\d+(\.\d+)?"
    row = re.compile(rf"\| (\w+) 1 \| (\w+) \| ([^|]+) \| {number} \| {number} \| \d+ MiB \| {number}, {number} \|")
    found = [row.fullmatch(line) for line in lines if re.match(r"\| \w+ 1 ", line)]
    assert all(found), done.stderr + "\n".join(lines)
    kinds = ("fairseq", "plain", "DLCL")
    trainings = {(kind, precision, "plain loss") for kind in kinds for precision in ("fp16", "bf16")}
    fused = {(kind, precision, "fused loss") for kind in kinds[1:] for precision in ("fp16", "bf16")}
    searches = {(kind, "fp16", f"search of {sentences}") for kind in kinds for sentences in (1, 3)}
    assert sorted(match.groups()[:3] for match in found if match) == sorted(trainings | fused | searches)
