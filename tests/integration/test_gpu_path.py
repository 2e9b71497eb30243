"""The GPU path, without a GPU: models, losses, fairseq's trainer and the search on a made-up device.

See `support.fake_cuda`. Each case runs on "cuda" and on the CPU; the results must agree, and Python must not wait for
the device more often than it may. Cases run in processes of their own, since the device must exist before torch does.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.fake_cuda import shim
from support.fake_cuda.cases import STOCK, Search, cases

ROOT = Path(__file__).resolve().parents[2]
PARTS = 2
NAMES = [name for name, _ in cases()]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim.build(tmp_path_factory.mktemp("shim"))


@functools.cache
def results(library: Path, part: int) -> dict[str, dict[str, Any]]:
    """What the cases of a part came to."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-m", "support.fake_cuda", *map(str, range(part, len(NAMES), PARTS))],
        env={**os.environ, "FAKE_CUDA_SHIM": str(library), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=590,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["name"]: row for row in rows}


# In the order of the parts, so that each process is waited for once.
@pytest.mark.parametrize("number", sorted(range(len(NAMES)), key=lambda n: (n % PARTS, n)), ids=lambda n: NAMES[n])
def test_case(number: int, library: Path) -> None:
    row = results(library, number % PARTS)[NAMES[number]]
    assert row["faults"] == []
    assert row["kernels"] > 100, "the device was not used"


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_searches_wait_no_more_than_fairseqs(library: Path) -> None:
    searches = [number for number, (_, case) in enumerate(cases()) if isinstance(case, Search) and case.stock]
    assert len(searches) == len(STOCK)
    for number in searches:
        row = results(library, number % PARTS)[NAMES[number]]
        assert row["waits"] <= row["fairseq"]["waits"], row
