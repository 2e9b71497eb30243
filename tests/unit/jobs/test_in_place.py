"""Jobs that work in the folder of their result: what it was begun with, and who may go on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deepnmt.errors import UserError
from deepnmt.jobs import job as module
from deepnmt.jobs.in_place import InPlace
from deepnmt.jobs.job import locked

END = "; remove it or choose another OUT$"


def job(out: Path, told: dict[str, Any] | None = None, **made_with: object) -> InPlace:
    return InPlace("deepnmt test", out, "test.json", made_with, told=told or {})


def begin(of: InPlace) -> dict[str, Any]:
    with of.begun() as folder:
        assert folder == of.out
        found: dict[str, Any] = json.loads(of.record.read_text("utf-8"))
        return found


def test_the_same_work_goes_on_and_may_be_told_something_else(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    assert begin(job(out, {"beams": [4]}, seed=1)) == {"seed": 1, "beams": [4]}
    (out / "part").touch()
    assert begin(job(out, {"beams": [5, 4]}, seed=1)) == {"seed": 1, "beams": [5, 4]}
    replace(job(out, {"mean": 3}, settings={"seed": 1}), out=tmp_path).write()
    assert begin(replace(job(out, settings={"seed": 1}), out=tmp_path)) == {"settings": {"seed": 1}, "mean": 3}
    assert {path.name for path in out.iterdir()} == {"test.json", "lock", "part"}


@pytest.mark.parametrize(
    ("before", "now", "what"),
    [
        ({"seed": 1}, {"seed": 2}, "with seed 1, not 2"),
        ({"max_len": [1, 2]}, {"max_len": [1]}, "with max-len 1, 2, not 1"),
        ({}, {"--lr": "3"}, "without --lr 3"),
        ({"options": []}, {"options": ["--fp16"]}, "without options --fp16"),
        ({"--no-save": ""}, {}, "with --no-save, not without"),
        ({"contents of DATA": "0a"}, {"contents of DATA": "0b"}, "with other contents of DATA"),
        ({"inputs": {"a": "1"}}, {"inputs": {"a": "2"}}, "with another input: a"),
        ({"settings": {"beam": 1}, "mean": 3}, {"settings": {"beam": 2}}, "with beam 1, not 2"),
        # Earlier versions have not recorded contents.
        ({"seed": 1}, {"seed": 1, "contents of DATA": "0b"}, ""),
        ({"settings": {"beam": 1}, "mean": 3}, {"settings": {"beam": 1}}, ""),
    ],
)
def test_work_that_was_begun_otherwise_is_refused(
    before: dict[str, object], now: dict[str, object], what: str, tmp_path: Path
) -> None:
    begin(job(tmp_path / "out", **before))
    noted = (tmp_path / "out" / "test.json").read_bytes()
    if not what:
        begin(job(tmp_path / "out", **now))
        return
    refused = f"^{tmp_path / 'out'} was begun {what}{END}"
    with pytest.raises(UserError, match=refused):
        job(tmp_path / "out", **now).check()
    with pytest.raises(UserError, match=refused):
        begin(job(tmp_path / "out", **now))
    assert (tmp_path / "out" / "test.json").read_bytes() == noted


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match=f"^{out} exists, and was not made by deepnmt test{END}"):
            begin(job(out))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    # That of a command which was killed at once is none.
    out = tmp_path / "out"
    out.mkdir()
    for name in ("lock", "test.json.tmp.7", "test.json.tmp.7.lock"):
        (out / name).touch()
    begin(job(out))
    # Nor does a part that was killed leave anything.
    (out / "part.tmp.8").mkdir()
    (out / "part.tmp.8.lock").touch()
    begin(job(out))
    assert {path.name for path in out.iterdir()} == {"lock", "test.json"}


def test_where_nothing_was_worth_it_another_begins(tmp_path: Path) -> None:
    first, second = (replace(job(tmp_path, seed=seed), worth=("last", "done"), lock="its.lock") for seed in (1, 2))
    (tmp_path / "mine").touch()
    begin(first)
    begin(second)
    (tmp_path / "done").touch()
    with pytest.raises(UserError, match=f"^{tmp_path} was begun with seed 2, not 1{END}"):
        begin(first)
    called = replace(first, called={"seed": "another seed"})
    with pytest.raises(UserError, match=f"^{tmp_path} was begun with another seed{END}"):
        begin(called)
    assert (tmp_path / "its.lock").exists()


def test_a_pattern_names_what_is_worth_something(tmp_path: Path) -> None:
    first, second = (replace(job(tmp_path, seed=seed), worth=("save/last", "part*")) for seed in (1, 2))
    begin(first)
    begin(second)
    (tmp_path / "part7").mkdir()
    with pytest.raises(UserError, match=f"^{tmp_path} was begun with seed 2, not 1{END}"):
        begin(first)


def test_one_process_works_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT", 0)
    begin(job(tmp_path / "out", {"beams": [1]}))
    used = f"^OUT must not be in use, but a command of an earlier run is still running in '{tmp_path / 'out'}'$"
    with locked(tmp_path / "out", "OUT"), pytest.raises(UserError, match=used):
        begin(job(tmp_path / "out", {"beams": [2]}))
    assert json.loads((tmp_path / "out" / "test.json").read_text("utf-8")) == {"beams": [1]}


def test_an_interruption_says_what_is_resumed(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt, match=f"^resume from the work done in {tmp_path / 'out'}$"),
        job(tmp_path / "out").begun(),
    ):
        raise KeyboardInterrupt
