"""benchmarks/run.sh, with a stand-in for Python."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.models import ROOT
from support.processes import finish

RUN = str(ROOT / "benchmarks" / "run.sh")
# Run by themselves.
ALONE = {"corpus_tools", "first_translation", "gpu", "plan", "serving", "text_to_data"}


def environment(folder: Path) -> dict[str, str]:
    """Return one in which python3 notes its command line."""
    python = folder / "bin" / "python3"
    python.parent.mkdir()
    python.write_text('#!/usr/bin/env bash\necho "$*" >>"$CALLS"\n', encoding="utf-8")
    python.chmod(0o755)
    return {**os.environ, "CALLS": str(folder / "calls"), "DEEPNMT_PYTHON_BIN": str(python.parent)}


@pytest.mark.parametrize("quick", [False, True])
def test_all_benchmarks_of_the_table_are_run(quick: bool, tmp_path: Path) -> None:
    done = finish([RUN, *(["--quick"] if quick else []), "--repetitions", "2"], env=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    _, *calls = (tmp_path / "calls").read_text("utf-8").splitlines()
    pattern = re.compile(
        rf"{ROOT}/benchmarks/(\w+)\.py --rows --threads 2{' --quick' if quick else ''} --repetitions 2"
    )
    found = [pattern.fullmatch(call) for call in calls]
    assert all(found), calls
    readme = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(\w+)\.py` \|", readme, re.MULTILINE))
    expected = {"cross_entropy", "engines", "tiny_step"} if quick else listed - ALONE
    assert sorted(match[1] for match in found if match) == sorted(expected)
    assert len(listed) > 5


@pytest.mark.parametrize("name", [*sorted(ALONE), "common", "no_such"])
def test_others_are_refused(name: str, tmp_path: Path) -> None:
    done = finish([RUN, name], env=environment(tmp_path))
    assert done.returncode == 2
    assert f"BENCHMARK must be the name of a script in benchmarks/ with --rows, but is '{name}'" in done.stderr
