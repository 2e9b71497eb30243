"""The GPU path, without a GPU: models, losses, fairseq's trainer and the search on a made-up device.

See `support.fake_cuda`. Each case runs on "cuda" and on the CPU; the results must agree, and Python must not wait for
the device more often than it may. Cases run in a process of their own, since the device must exist before torch does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_cuda import shim
from support.fake_cuda.cases import REPEATS, STOCK, Search, cases, is_slow
from support.processes import started
from support.slow import slow_but

ROOT = Path(__file__).resolve().parents[2]
NAMES = [name for name, _ in cases()]
SEARCHES = [name for name, case in cases() if isinstance(case, Search) and case.stock]
USUAL = [name for name in [name for name in NAMES if not is_slow(name)][::2] if name not in REPEATS]
Row = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def row(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Row]:
    """What a case came to, by its name; one process runs the selected cases, and each test waits for its own."""
    wanted = {item.nodeid.partition("::test_case")[2] for item in request.session.items}
    numbers = [number for number, name in enumerate(NAMES) if f"[{name}]" in wanted or name in SEARCHES]
    folder = tmp_path_factory.mktemp("shim")
    environment = {
        **os.environ,
        "FAKE_CUDA_SHIM": str(shim.build(folder)),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "support.fake_cuda", *numbers]
    rows: dict[str, dict[str, Any]] = {}
    errors = folder / "stderr"
    with (
        errors.open("w") as stderr,
        started(command, env=environment, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        assert process.stdout is not None
        lines = process.stdout

        def find(name: str) -> dict[str, Any]:
            while name not in rows:
                line = lines.readline()
                assert line, f"ended without a row of {name}: {errors.read_text('utf-8')[-3000:]}"
                if line.startswith("{"):
                    found = json.loads(line)
                    rows[found["name"]] = found
            return rows[name]

        yield find
        # Whatever else it may say or do, it must have ended well.
        if len(rows) == len(numbers):
            assert process.wait(timeout=60) == 0, errors.read_text("utf-8")[-3000:]


@pytest.mark.parametrize("name", slow_but(USUAL, NAMES))
def test_case(name: str, row: Row) -> None:
    result = row(name)
    assert result["faults"] == []
    assert result["kernels"] > 100, "the device was not used"


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_searches_wait_no_more_than_fairseqs(row: Row) -> None:
    assert len(SEARCHES) == len(STOCK)
    for name in SEARCHES:
        result = row(name)
        assert result["waits"] <= result["fairseq"]["waits"], result
