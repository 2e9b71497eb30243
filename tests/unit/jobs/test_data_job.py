"""Jobs that make a data folder: of unfinished work nothing stays, unless it resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.data_folders import LANGUAGES, TYPES

from deepnmt.errors import UserError
from deepnmt.jobs import job as module
from deepnmt.jobs.data_job import DataJob
from deepnmt.jobs.job import locked


def job(out: Path, resumes: bool = False, **settings: object) -> DataJob:
    made_with = {"source_lang": "de", "target_lang": "en", **settings, "inputs": {"train.de": "0a"}}
    return DataJob("deepnmt test", out, made_with=made_with, option="--dest", resumes=resumes)


def make(of: DataJob) -> None:
    def work(parts: Path) -> None:
        with of.result({"train": {"kept": 1}}) as folder:
            assert json.loads((folder / "preprocess.json").read_text())["inputs"] == {"train.de": "0a"}
            for language in LANGUAGES:
                text = "".join(f"w{number} 1\n" for number in range(TYPES - 4))
                (folder / f"dict.{language}.txt").write_text(text)

    of.do(work)


def fail(parts: Path) -> None:
    (parts / "piece").write_text("begun")
    raise UserError("a faulty text")


def test_the_record_says_what_came_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    make(job(out, max_len=3))
    record = json.loads((out / "preprocess.json").read_text())
    sizes = {f"dict.{language}.txt": (TYPES - 4) * 5 for language in LANGUAGES}
    assert record["counts"] == {"train": {"kept": 1}}
    assert (record["types"], record["files"]) == (dict.fromkeys(LANGUAGES, TYPES), sizes)
    make(job(out, max_len=3))
    assert capsys.readouterr().out.splitlines()[-2:] == [f"{out} is ready", f"{out} is up to date"]
    with pytest.raises(UserError, match=f"^{out} was made with max-len 3, not 4; remove it or choose another --dest$"):
        make(job(out, max_len=4))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_of_work_that_failed_nothing_stays(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^a faulty text$"):
        job(tmp_path / "out", max_len=3).do(fail)
    assert [*tmp_path.iterdir()] == []
    # Nor is what a killed process left in the way of other options.
    (tmp_path / "out.parts").mkdir()
    (tmp_path / "out.parts" / "lock").touch()
    make(job(tmp_path / "out", max_len=4))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_work_that_resumes_stays_and_has_its_options(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match=r"^a faulty text$"):
        job(out, resumes=True, max_len=3).do(fail)
    assert (tmp_path / "out.parts" / "piece").read_text() == "begun"
    begun = f"^{out}.parts was begun with max-len 3, not 4; remove it or choose another --dest$"
    with pytest.raises(UserError, match=begun):
        make(job(out, resumes=True, max_len=4))


def test_one_process_works_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT", 0.0)
    out = tmp_path / "out"
    used = f"^--dest must not be in use, but a command of an earlier run is still running in '{out}.parts'$"
    with locked(tmp_path / "out.parts", "--dest"), pytest.raises(UserError, match=used):
        make(job(out))
    assert not out.exists()


def test_the_current_folder_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    make(job(Path()))
    assert (tmp_path / "out" / "preprocess.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    # That of the test is not the new one.
    monkeypatch.chdir(tmp_path / "out")
    with pytest.raises(UserError, match=rf"^{tmp_path} exists, and was not made by deepnmt test"):
        make(job(Path("..")))
