"""Each option of fairseq's commands, given once on a tiny model, does what its row in docs/fairseq.md says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from support.each_option import ROOT, rows

# Ten minutes of a core.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
# They do what they say, and nothing that is compared with a run without them changes.
UNSEEN: set[str] = set()
# fairseq's own, which its row tells.
TRACEBACKS: set[str] = set()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("options")
    command = [sys.executable, "-m", "support.each_option", str(folder)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)]),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads((folder / "seen.json").read_text("utf-8"))
    return found


def test_no_option_ends_in_a_traceback(runs: list[dict[str, Any]]) -> None:
    ended = [(run["line"], run["last"]) for run in runs if run["ended"] == "traceback"]
    assert [(line, last) for line, last in ended if not any(name in line for name in TRACEBACKS)] == []


def test_rows_say_how_each_option_ends(runs: list[dict[str, Any]]) -> None:
    wrong = []
    for names, state, _ in rows():
        own = [run for run in runs if run["option"] in names]
        ended = {run["ended"] for run in own}
        if names != ["--help"] and (
            not own or {"refused here": "line", "out of scope": ""}.get(state, "ran") not in {"", *ended}
        ):
            wrong.append((names, state, [(run["line"], run["last"]) for run in own]))
    assert wrong == []


def test_options_that_work_change_something(runs: list[dict[str, Any]]) -> None:
    changed = {run["option"] for run in runs if run["ended"] == "ran" and set(run["changed"]) - {"log"}}
    works = {name for names, state, _ in rows() if state in ("works", "fixed here") for name in names}
    given = {run["option"] for run in runs}
    assert sorted((works & given) - changed - UNSEEN - {"--help"}) == []
    assert sorted(UNSEEN & changed) == []
