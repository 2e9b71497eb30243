"""Jobs: a result is made once, resumed after any end, and never mixed with that of other options."""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.jobs import job as module
from deepnmt.jobs.job import Job, locked

PIECES = 6
# Writes a piece at a time, as a job of several hours would.
WORKER = """
import sys, time
from pathlib import Path
from deepnmt.jobs.job import Job
out, seconds = Path(sys.argv[1]), float(sys.argv[2])
job = Job("deepnmt test", out, "test.json", {"inputs": {"text": "0a"}})

def work(parts):
    for number in range(6):
        piece = parts / f"piece{number}"
        if not piece.exists():
            time.sleep(seconds)
            piece.with_suffix(".new").write_text(f"{number}\\n")
            piece.with_suffix(".new").rename(piece)
            print("made", number, flush=True)
    with job.result({}) as folder:
        (folder / "all").write_text("".join((parts / f"piece{n}").read_text() for n in range(6)))

job.do(work)
"""
WHOLE = "".join(f"{number}\n" for number in range(PIECES))


def job(out: Path, **options: object) -> Job:
    return Job("deepnmt test", out, "test.json", {**options, "inputs": {"text": "0a"}})


def writer(of: Job) -> Callable[[Path], None]:
    def work(parts: Path) -> None:
        (parts / "piece").write_text("made")
        with of.result({"pairs": 1}) as folder:
            (folder / "all").write_text("result")

    return work


def never(parts: Path) -> None:
    raise AssertionError("worked again")


def test_a_result_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    one = job(out, order=3)
    one.do(writer(one))
    assert json.loads((out / "test.json").read_text()) == {
        "order": 3, "inputs": {"text": "0a"}, "counts": {"pairs": 1}, "files": {"all": 6},
    }  # fmt: skip
    # Killed when OUT had its place.
    (tmp_path / "out.tmp.7.lock").touch()
    one.do(never)
    assert capsys.readouterr().out == f"{out} is ready\n{out} is up to date\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_what_is_of_something_else_is_refused_and_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    one = job(out, learn_from=3)
    one.do(writer(one))
    with pytest.raises(UserError, match=r"out was made with learn-from 3, not 4; remove it or choose another OUT$"):
        job(out, learn_from=4).do(never)
    other = Job("deepnmt test", out, "test.json", {"learn_from": 3, "inputs": {"text": "0b"}}, option="--output")
    with pytest.raises(UserError, match=r"made with another input: text; remove it or choose another --output$"):
        other.do(never)
    (out / "all").write_text("resul")
    with pytest.raises(UserError, match=r"all: must have the 6 bytes of its record; remove .*out to make it again$"):
        one.do(never)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "mine").touch()
    with pytest.raises(UserError, match=r"foreign exists, and was not made by deepnmt test; remove it or choose"):
        job(foreign).do(never)
    assert (foreign / "mine").exists()
    assert (out / "all").read_text() == "resul"


def test_a_command_replaces_its_own_results_alone(tmp_path: Path) -> None:
    def check(*names: str) -> None:
        folder = tmp_path / "-".join(("out", *names))
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        job(folder).check_replaceable(lambda out: (out / "test.json").exists(), kept="scores")

    job(tmp_path / "missing").check_replaceable(lambda out: False)
    check()
    check("scores")
    check("test.json", "mine")
    with pytest.raises(UserError, match=r"out-scores-mine exists, and was not made by deepnmt test; .* another OUT$"):
        check("scores", "mine")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file exists, and was not made by deepnmt test; remove it or choose"):
        job(tmp_path / "file").check_replaceable(lambda out: True)


def test_a_result_of_several_files_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, text = tmp_path / "out.test.json", tmp_path / "out.de"
    files = {"record": record, "de": text}
    made_with = {"filters": ["a 1", "b"], "inputs": {"text": "0a"}}
    one = Job("deepnmt test", tmp_path / "out", "begun.json", made_with, "--output", files, ": all of it")
    text.write_text("somebody's")
    with pytest.raises(UserError, match=r"out\.de exists, and was not made by deepnmt test; .* another --output$"):
        one.do(never)
    text.unlink()

    def half(parts: Path) -> None:
        (parts / "piece").touch()
        text.write_text("half")
        raise KeyboardInterrupt

    def work(parts: Path) -> None:
        text.write_text("result")
        record.write_text(json.dumps({"job": made_with, "files": {"de": 6}}))

    with pytest.raises(KeyboardInterrupt, match=r"^resume from the work done in .*out\.parts$"):
        one.do(half)
    # That it is there is no fault: this job has begun it.
    one.do(work)
    one.do(never)
    assert capsys.readouterr().out == f"{tmp_path}/out is ready: all of it\n{tmp_path}/out is up to date\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.de", "out.test.json"]
    other = Job("deepnmt test", tmp_path / "out", "begun.json", {**made_with, "filters": ["a 2"]}, "--output", files)
    with pytest.raises(UserError, match=r"out\.test\.json was made with filters a 1, b, not a 2; remove it or choose"):
        other.do(never)
    text.write_text("resul")
    with pytest.raises(UserError, match=r"out\.de: must have the 6 bytes of its record; remove the result's files to"):
        one.do(never)


def test_unfinished_work_is_gone_on_with_or_refused(tmp_path: Path) -> None:
    out, one = tmp_path / "out", job(tmp_path / "out", order=3)

    def stopped(parts: Path) -> None:
        (parts / "piece").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^resume from the work done in .*out\.parts$"):
        one.do(stopped)
    with pytest.raises(UserError, match=r"out\.parts was begun with order 3, not 2; remove it or choose another OUT$"):
        job(out, order=2).do(never)
    found: list[str] = []

    def resumed(parts: Path) -> None:
        found.append((parts / "piece").read_text())
        writer(one)(parts)

    one.do(resumed)
    assert found == ["half"]
    assert not one.parts.exists()


def test_work_in_which_nothing_was_done_goes_and_unknown_work_is_not_used(tmp_path: Path) -> None:
    one = job(tmp_path / "out")

    def faulty(parts: Path) -> None:
        raise UserError("a faulty file")

    with pytest.raises(UserError, match=r"^a faulty file$"):
        one.do(faulty)
    assert not one.parts.exists()
    # Without a record, nobody knows what the pieces are of.
    (one.parts / "folder").mkdir(parents=True)
    (one.parts / "piece").touch()

    def work(parts: Path) -> None:
        assert sorted(path.name for path in parts.iterdir()) == ["lock", "test.json"]
        writer(one)(parts)

    one.do(work)


def test_work_of_a_living_process_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT", 0)
    one = job(tmp_path / "out")
    one.parts.mkdir()
    with (one.parts / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"^OUT must not be in use, but .* is still running in '.*out\.parts'$"):
            one.do(never)
        assert [path.name for path in one.parts.iterdir()] == ["lock"]
    one.do(writer(one))


def test_a_lock_whose_folder_was_removed_does_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    with locked(folder, "OUT"):
        (folder / "lock").unlink()
        folder.rmdir()
        with locked(folder, "OUT"):
            assert (folder / "lock").exists()


def start(out: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(out), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_of_several_that_begin_at_once_one_works(tmp_path: Path) -> None:
    runs = [start(tmp_path / "out", 0.02) for _ in range(3)]
    said = [run.communicate(timeout=100) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], said
    lines = sorted(line for out, _ in said for line in out.splitlines())
    ready, up_to_date = f"{tmp_path}/out is ready", f"{tmp_path}/out is up to date"
    assert lines == sorted([*(f"made {number}" for number in range(PIECES)), ready, up_to_date, up_to_date])
    assert (tmp_path / "out" / "all").read_text() == WHOLE


def test_killed_at_any_moment_it_makes_no_piece_twice(tmp_path: Path) -> None:
    seed = int(os.environ.get("KILLS_SEED", random.randrange(1000)))
    print(f"KILLS_SEED={seed}")
    draw, out, made = random.Random(seed), tmp_path / "out", ""
    for _ in range(4):
        run = start(out, 0.1)
        time.sleep(draw.uniform(0.1, 0.5))
        run.kill()
        made += run.communicate(timeout=100)[0]
    last = start(out, 0)
    made += last.communicate(timeout=100)[0]
    assert last.returncode == 0
    lines = [line for line in made.splitlines() if line.startswith("made")]
    # One that is killed between a piece and the line that says so has made it, too.
    assert len(lines) == len(set(lines))
    assert (out / "all").read_text() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
