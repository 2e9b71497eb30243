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


# Those that are Python have the tests of jobs.
SCRIPTS_WITH_PARTS = ["clean.sh"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the seconds for which scripts wait for a lock."""
    monkeypatch.setenv("BASH_FUNC_flock%%", '() { command flock --nonblock "${@: -1}"; }')


def words_of(script: str, folder: Path) -> list[object]:
    """The command line of work on a small text in a folder, which will be in out.parts there."""
    for language in ("de", "en"):
        (folder / f"text.{language}").write_text("a b c d\na b\n" * 60)
    pair, languages = (folder / "text", folder / "out"), ("--source-lang", "de", "--target-lang", "en")
    return ["--input", pair[0], "--output", pair[1], *languages, "--ratio", "0.5:2"]


def refusal(script: str, parts: Path) -> str:
    out = "--output" if script == "clean.sh" else "OUT"
    return f"{script}: error: {out} must not be in use, but a command of an earlier run is still running in '{parts}'"


@pytest.mark.parametrize("script", SCRIPTS_WITH_PARTS)
def test_a_second_run_leaves_the_work_of_the_first(script: str, tmp_path: Path) -> None:
    words = words_of(script, tmp_path)
    parts = tmp_path / "out.parts"
    parts.mkdir()
    with (parts / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert error_of(run_script(script, *words)) == refusal(script, parts)
        assert [path.name for path in parts.iterdir()] == ["lock"]
    # When the other one is gone, it resumes.
    assert run_script(script, *words).returncode == 0
    assert not parts.exists()


@pytest.mark.parametrize("script", SCRIPTS_WITH_PARTS)
def test_of_two_runs_that_begin_at_once_one_works(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = words_of(script, tmp_path)
    parts, first = tmp_path / "out.parts", tmp_path / "first"
    first.mkdir()
    # The first one's folder comes between the second one's look at it and its work.
    begins = f'() {{ [[ $2 != begin ]] || mv {first} {parts}; command python3 "$@"; }}'
    monkeypatch.setenv("BASH_FUNC_python3%%", begins)
    with (first / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run_script(script, *words)
        assert (result.returncode, result.stderr.splitlines()[-1]) == (2, refusal(script, parts))
        assert (parts / "lock").exists()
    assert not (tmp_path / "out").exists()
