"""Folders that take their validation and test sets from another one: no longer up to date when these have changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.substitution import SOURCE, TARGET, substitution_data, write_lines

from deepnmt.cli import synthesise
from deepnmt.corpus.selection.selecting import Selection
from deepnmt.errors import UserError
from deepnmt.preparation.like_data import MoreText
from deepnmt.preparation.mixing import Mixture
from deepnmt.text.data_record import check_same
from deepnmt.text.record import write_record


def mixed(data: Path, out: Path) -> None:
    write_record(out / "preprocess.json", Mixture([data, data]).record())


def selected(data: Path, out: Path) -> None:
    lines = (data / "text" / f"train.tok.{SOURCE}").read_text("utf-8").splitlines()
    selection = Selection(data, write_lines(out / "like", lines[:9]), "tfidf", 5)
    write_record(out / "preprocess.json", selection.record())


def binarised(data: Path, out: Path) -> None:
    write_record(out / "preprocess.json", MoreText(data, str(data / "text" / "train.tok")).record())


def without_overlap(data: Path, out: Path) -> None:
    text = MoreText(data, str(data / "text" / "train.tok"), TARGET, drop_overlap=True)
    write_record(out / "preprocess.json", text.record())


def distilled(data: Path, out: Path) -> None:
    (out / "model.pt").write_text("a stub")
    job = synthesise.synthesis_of(synthesise.parse(["distil", str(out / "model.pt"), str(data), "pairs"]))
    (out / "preprocess.json").write_text(json.dumps(job.record()))


@pytest.mark.parametrize("make", [mixed, selected, binarised, without_overlap, distilled])
@pytest.mark.parametrize("what", ["binarised", "text"])
def test_other_sets_are_refused(make: Callable[[Path, Path], None], what: str, tmp_path: Path) -> None:
    data = substitution_data(tmp_path / "data")
    before, after = tmp_path / "before", tmp_path / "after"
    for out in (before, after):
        out.mkdir()
    make(data, before)
    make(data, after)
    shutil.rmtree(after)
    after.mkdir()
    check_same(before / "preprocess.json", json.loads((before / "preprocess.json").read_text()), "OUT")
    if what == "binarised":
        for end in ("de.bin", "de.idx", "en.bin", "en.idx"):
            shutil.copyfile(data / f"test.de-en.{end}", data / f"valid.de-en.{end}")
    else:
        shutil.copyfile(data / "text" / "valid.tok.de", data / "text" / "test.tok.de")
    make(data, after)
    new = json.loads((after / "preprocess.json").read_text())
    with pytest.raises(UserError, match=r"before was made with other validation or test sets; remove it or choose"):
        check_same(before / "preprocess.json", new, "OUT")
    # What an earlier version has made did not say so.
    old = json.loads((before / "preprocess.json").read_text())
    del old["held_out"]
    (before / "preprocess.json").write_text(json.dumps(old))
    check_same(before / "preprocess.json", new, "OUT")


def test_monolingual_text_has_no_sets(tmp_path: Path) -> None:
    data = substitution_data(tmp_path / "data")
    assert "held_out" not in MoreText(data, str(data / "text" / "train.tok"), TARGET).record()
