"""A second run in a folder of results, or of work, leaves what the first has there as it is."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from support.script_runs import error_of, run_script


@pytest.mark.parametrize(("script", "plan"), [("bleu_per_depth.sh", "models.json")])
def test_a_folder_in_use_is_refused(script: str, plan: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / plan).write_text("the first one's")
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert error_of(run_script(script, tmp_path / "model", tmp_path / "data", out)) == (
            f"{script}: error: OUT must not be in use, but a command of an earlier run is still running in '{out}'"
        )
    assert (out / plan).read_text() == "the first one's"
    # What is refused for another reason gets no lock.
    (out / plan).unlink()
    (out / "lock").unlink()
    run_script(script, tmp_path / "model", tmp_path / "data", out)
    assert [*out.iterdir()] == []
