"""`deepnmt sweep`: what is chosen from n-best lists, the table, and what is refused."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import checkpoint
from support.data_folders import change_record, data_folder

from deepnmt.cli.sweep import main
from deepnmt.errors import UserError
from deepnmt.generation import sweep_plan as sweep
from deepnmt.jobs import job
from deepnmt.text.nbest import Translation, write_nbest


def translation(sentence: int, rank: int, subwords: str, model: float) -> Translation:
    return Translation(sentence, rank, subwords, {"model": model, "length": len(subwords.split()) + 1})


# Log-probabilities for which each penalty has another winner: -4 / 3 ** p against -6 / 5 ** p.
NBEST = [
    translation(0, 1, "a b@@", -4.0),
    translation(0, 2, "a b@@ c d", -6.0),
    translation(2, 1, "x", -1.0),
]


@pytest.mark.parametrize(("lenpen", "first"), [(0.0, "a b@@"), (0.5, "a b@@"), (1.0, "a bc d"), (2.0, "a bc d")])
def test_the_penalty_chooses(lenpen: float, first: str) -> None:
    # -6 / 5 > -4 / 3, but -6 / 5 ** 0.5 < -4 / 3 ** 0.5. A last piece without its rest keeps its mark, as in fairseq.
    expected = "a b" if first == "a b@@" else first
    assert sweep.chosen(NBEST, lenpen, 4) == [expected, "", "x", ""]


def searched(output: Path) -> Path:
    """A finished sweep of one average, two beams and two penalties."""
    output.mkdir()
    data = data_folder(output / "data", lines=["x 7"])
    record = {"checkpoints": [], "data": str(data), "options": [], "last": [5], "beam": [1, 2], "lenpen": [0.0, 1.0]}
    (output / "sweep.json").write_text(json.dumps(record), encoding="utf-8")
    reference = "a b c d e f g h\n"
    for beam in (1, 2):
        folder = output / f"last5.beam{beam}"
        folder.mkdir()
        (folder / "ref.tok.en").write_text(reference, encoding="utf-8")
        (folder / "generate.json").write_text("{}", encoding="utf-8")
        found = [translation(0, 1, "a b c d e", -5.0), translation(0, 2, "a b c d e f g h", -6.0)]
        write_nbest(folder / "nbest.tsv", found[:beam])
    return output


def test_the_table_has_the_best_first(tmp_path: Path) -> None:
    output = searched(tmp_path / "out")
    best = sweep.table(output)
    assert [best[name] for name in ("last", "beam", "lenpen")] == [5, 2, "1"]
    lines = [line.split("\t") for line in (output / "sweep.tsv").read_text(encoding="utf-8").splitlines()]
    assert lines[0] == ["last", "beam", "lenpen", "tokenised BLEU", "length ratio"]
    assert lines[1] == ["5", "2", "1", "100.00", "1.000"]
    # exp(1 - 8 / 5) of a perfect precision; of equals, the smaller beam and penalty first.
    assert lines[2:] == [["5", *beam, "54.88", "0.625"] for beam in (["1", "0"], ["1", "1"], ["2", "0"])]


@pytest.mark.parametrize("reverse", [False, True])
def test_tags_are_scored_as_the_numbers_of_their_sentence(
    reverse: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = searched(tmp_path / "out")
    record = json.loads((output / "data" / "preprocess.json").read_text(encoding="utf-8"))
    (output / "data" / "preprocess.json").write_text(json.dumps({**record, "placeholders": "numbers"}))
    (output / "data" / "text" / "valid.tok.de").write_text("x 7\n" if not reverse else "x 8\n", encoding="utf-8")
    (output / "data" / "text" / "valid.tok.en").write_text("x 7\n" if reverse else "x 8\n", encoding="utf-8")
    for folder in output.glob("last5.beam*"):
        (folder / "generate.json").write_text(json.dumps({"reverse": True} if reverse else {}), encoding="utf-8")
        (folder / "ref.tok.en").write_text("a 7 c d e\n", encoding="utf-8")
        write_nbest(folder / "nbest.tsv", [translation(0, 1, "a <num> c d e", -5.0)])
    sweep.table(output)
    assert {line.split("\t")[3] for line in (output / "sweep.tsv").read_text().splitlines()[1:]} == {"100.00"}


@pytest.mark.parametrize("language", ["zh", "ja"])
def test_characters_are_compared_where_no_spaces_separate_words(language: str, tmp_path: Path) -> None:
    output = searched(tmp_path / "out")
    change_record(output / "data", target_lang=language)
    found = [translation(0, 1, "我们看见红色", -5.0), translation(0, 2, "我们@@ 看见@@ 红色@@ 的@@ 书本", -6.0)]
    for folder in output.glob("last5.beam*"):
        (folder / "ref.tok.en").unlink()
        (folder / f"ref.tok.{language}").write_text("我们看见红色的书本\n", encoding="utf-8")
        write_nbest(folder / "nbest.tsv", found)
    assert sweep.table(output)["lenpen"] == "1"
    scores = {tuple(line.split("\t")[2:]) for line in (output / "sweep.tsv").read_text("utf-8").splitlines()[1:]}
    # exp(1 - 9 / 6) of a perfect precision. As words, both translations are single ones, of BLEU 0.
    assert scores == {("1", "100.00", "1.000"), ("0", "60.65", "0.667")}


def test_the_best_is_kept_with_its_own_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = searched(tmp_path / "out")
    sweep.table(output)
    (output / "best").mkdir()
    for score, warned in ((99.98, False), (80.0, True)):
        scores = {"tokenised BLEU": {"score": score}}
        (output / "best" / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
        sweep.best(output, output / "best")
        kept = json.loads((output / "best.json").read_text(encoding="utf-8"))
        assert kept == {"checkpoint": "last5.pt", "beam": 2, "lenpen": 1.0, "tokenised BLEU": score}
        assert ("warning: the search itself has 80.0" in capsys.readouterr().err) == warned


def save_checkpoints(folder: Path) -> Path:
    folder.mkdir()
    torch.save(checkpoint(), folder / "checkpoint1.pt")
    return folder


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("2", "5", "1"), "--last must be whole numbers from 1 to 1 with commas between them, but is '2'"),
        (("x", "5", "1"), "--last must be whole numbers from 1 to 1 with commas between them, but is 'x'"),
        (("", "0", "1"), "--beam must be whole numbers from 1 to 256 with commas between them, but is '0'"),
        (("", "5,", "1"), "--beam must be whole numbers from 1 to 256 with commas between them, but is '5,'"),
        (("", "5", "1,1000"), "--lenpen must be numbers from -100 to 100, such as 0.6,1, but is '1,1000'"),
        (("", "5", "nan"), "--lenpen must be numbers from -100 to 100, such as 0.6,1, but is 'nan'"),
        (("", "5", ""), "--lenpen must be numbers from -100 to 100, such as 0.6,1, but is ''"),
    ],
)
def test_faulty_numbers_are_refused(texts: tuple[str, str, str], message: str, tmp_path: Path) -> None:
    save = save_checkpoints(tmp_path / "save")
    with pytest.raises(UserError, match=f"^{message}$"):
        sweep.job_of(tmp_path / "out", save, tmp_path, texts, [])
    assert not (tmp_path / "out").exists()


def test_faulty_data_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    save = save_checkpoints(tmp_path / "save")
    data = data_folder(tmp_path / "data", subsets=("train", "test"))
    message = rf"^the subset must be one of test, train \({data}\), but is valid$"
    with pytest.raises(UserError, match=message):
        main([str(save), str(data), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lenpen=-1,x"], "--lenpen must be numbers from -100 to 100, such as 0.6,1, but is '-1,x'"),
        (["--lenpen", "-1,-101"], "--lenpen must be numbers from -100 to 100, such as 0.6,1, but is '-1,-101'"),
        (["--beam", "-1,2"], "--beam must be whole numbers from 1 to 256 with commas between them, but is '-1,2'"),
        (["--last=-x"], "--last must be whole numbers from 1 to 1 with commas between them, but is '-x'"),
        (["--last=", "--beam=4"], "option --last needs a value"),
    ],
)
def test_lists_that_begin_with_a_minus_are_no_options(options: list[str], message: str, tmp_path: Path) -> None:
    save, data = save_checkpoints(tmp_path / "save"), data_folder(tmp_path / "data")
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        main([str(save), str(data), str(tmp_path / "out"), *options])
    assert not (tmp_path / "out").exists()


def test_negative_penalties_are_planned(tmp_path: Path) -> None:
    save, data = save_checkpoints(tmp_path / "save"), data_folder(tmp_path / "data")
    options = ["--unkpen", "-1", "--fp16"]
    with sweep.job_of(tmp_path / "out", save, data, ("", "5", "-1,0.5"), options).begun():
        pass
    record = json.loads((tmp_path / "out" / "sweep.json").read_text(encoding="utf-8"))
    assert (record["lenpen"], record["last"], record["beam"]) == ([-1.0, 0.5], [1], [5])
    assert record["options"] == options


def begin(out: Path, save: Path, data: Path, beam: str = "5", *options: str) -> Mapping[str, Any]:
    """Begin a sweep, and return what it searches."""
    job = sweep.job_of(out, save, data, ("", beam, "1"), [*options])
    with job.begun():
        return job.told


@pytest.mark.parametrize("option", ["--nbest", "--nbest=3", "--subset=test", "--coverage-weight", "--prune-gap=1"])
def test_options_by_which_lists_cannot_be_compared_are_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^{option} cannot be used here: settings are compared by the n-best lists"):
        main(["save", "data", str(tmp_path / "out"), "--beam", "4", option, "3"])
    assert not (tmp_path / "out").exists()


def test_averages_of_checkpoints_that_were_replaced_are_refused(tmp_path: Path) -> None:
    save, output = save_checkpoints(tmp_path / "save"), tmp_path / "out"
    data = data_folder(tmp_path / "data")
    path = save / "checkpoint1.pt"
    begin(output, save, data)
    noted = (output / "sweep.json").read_text(encoding="utf-8")
    before = path.stat()
    # The same name, update and size.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**6))
    message = (
        rf"out was begun with checkpoints .* 7, {before.st_size} bytes of .*, not .*; remove it or choose another OUT$"
    )
    with pytest.raises(UserError, match=message):
        begin(output, save, data)
    assert (output / "sweep.json").read_text(encoding="utf-8") == noted


def test_data_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    """See test_search_inputs.py for the files that options name."""
    save, output, data = save_checkpoints(tmp_path / "save"), tmp_path / "out", data_folder(tmp_path / "data")
    begin(output, save, data)
    noted = json.loads((output / "sweep.json").read_text(encoding="utf-8"))
    change_record(data, inputs={"valid.de": "another"})
    with pytest.raises(UserError, match=r"out was begun with other contents of DATA; remove it or choose another OUT$"):
        begin(output, save, data)
    # As an earlier version has noted it.
    del noted["contents of DATA"]
    (output / "sweep.json").write_text(json.dumps(noted), encoding="utf-8")
    begin(output, save, data)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    save, output = save_checkpoints(tmp_path / "save"), tmp_path / "out"
    data = data_folder(tmp_path / "data")
    assert begin(output, save, data, "5,4") == {"last": [1], "beam": [4, 5], "lenpen": [1.0]}
    with pytest.raises(UserError, match=r"out was begun without options --fp16; remove it or choose another OUT$"):
        begin(output, save, data, "5", "--fp16")
    (save / "checkpoint1.pt").rename(save / "checkpoint2.pt")
    with pytest.raises(UserError, match=r"out was begun with checkpoints .*checkpoint1\.pt of .*, not .*2\.pt of "):
        begin(output, save, data)
    with pytest.raises(
        UserError, match=r"save exists, and was not made by deepnmt sweep; remove it or choose another OUT$"
    ):
        begin(save, save, data)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: contains no checkpoints$"):
        begin(output, tmp_path / "empty", data)


def test_a_folder_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "WAIT", 0.0)
    save, out, data = save_checkpoints(tmp_path / "save"), tmp_path / "out", data_folder(tmp_path / "data")
    begin(out, save, data)
    noted = (out / "sweep.json").read_bytes()
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=f"^OUT must not be in use, but a command .* is still running in '{out}'$"):
            begin(out, save, data, "4")
    assert (out / "sweep.json").read_bytes() == noted
    # What is refused for another reason gets no lock.
    (out / "lock").unlink()
    with pytest.raises(UserError, match=r"nothing/preprocess\.json: no such file"):
        main([str(save), str(tmp_path / "nothing"), str(out)])
    assert [path.name for path in out.iterdir()] == ["sweep.json"]
