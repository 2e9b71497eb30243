"""A second run in a folder of results, or of work, leaves what the first has there as it is."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from support.script_runs import error_of, run_script


@pytest.mark.parametrize(("script", "plan"), [("sweep.sh", "sweep.json"), ("bleu_per_depth.sh", "models.json")])
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


@pytest.mark.parametrize("script", ["align.sh", "clean.sh", "ngram.sh"])
def test_a_second_run_leaves_the_work_of_the_first(script: str, tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"text.{language}").write_text("a b c d\na b\n" * 60)
    pair, languages = (tmp_path / "text", tmp_path / "out"), ("--source-lang", "de", "--target-lang", "en")
    model = tmp_path / "model.arpa"
    run_script("ngram.sh", "train", tmp_path / "text.de", model)
    words = {
        "align.sh": [*pair, *languages],
        "clean.sh": ["--input", pair[0], "--output", pair[1], *languages, "--ratio", "0.5:2"],
        "ngram.sh": ["score", model, tmp_path / "text.de", tmp_path / "out"],
    }
    parts = tmp_path / "out.parts"
    parts.mkdir()
    with (parts / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        out = "--output" if script == "clean.sh" else "OUT"
        assert error_of(run_script(script, *words[script])) == (
            f"{script}: error: {out} must not be in use, but a command of an earlier run is still running in '{parts}'"
        )
        assert [path.name for path in parts.iterdir()] == ["lock"]
    # When the other one is gone, it resumes.
    assert run_script(script, *words[script]).returncode == 0
    assert not parts.exists()
