"""`deepnmt select`: which pairs become the training text, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from support import warm
from support.flow import SCRIPTS, contents
from support.substitution import SOURCE, TARGET, substitution_data, write_lines

from deepnmt.cli.select import main
from deepnmt.corpus.selection.selecting import Selection
from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_data_folder
from deepnmt.text.data_record import check_same


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return substitution_data(tmp_path_factory.mktemp("data") / "data")


@pytest.fixture(scope="module")
def like(data: Path) -> Path:
    return write_lines(data.parent / "like.txt", text(data, "test.tok", SOURCE))


def text(folder: Path, kind: str, language: str) -> list[str]:
    return (folder / "text" / f"{kind}.{language}").read_text("utf-8").splitlines()


def select(data: Path, out: Path, like: Path, method: str, number: int) -> None:
    main([str(data), str(out), "--like", str(like), "--method", method, "--number", str(number)])


@pytest.mark.parametrize("method", ["tfidf", "cross-entropy"])
def test_the_best_pairs_become_a_data_folder(data: Path, like: Path, tmp_path: Path, method: str) -> None:
    if method == "cross-entropy":
        like = write_lines(tmp_path / "like", text(data, "test.tok", SOURCE) * 20)
    out = tmp_path / "out"
    select(data, out, like, method, 25)
    check_data_folder(out, ["train", "valid", "test"], (SOURCE, TARGET))
    header, *scores = (out / "selection.tsv").read_text().splitlines()
    assert header == method.replace("-", "_")
    values = np.array(scores, float)
    assert len(values) == len(text(data, "train.tok", SOURCE))
    wanted = sorted(np.argsort(-values, kind="stable")[:25])
    for kind in ("train.tok", "train.bpe"):
        for language in (SOURCE, TARGET):
            lines = text(data, kind, language)
            assert text(out, kind, language) == [lines[place] for place in wanted]
    record = json.loads((out / "preprocess.json").read_text())
    assert record["selected_on"]["file"] == like.name
    assert len(record["selected_on"]["sha256"]) == 64
    assert record["selection"] == {"method": method, "number": 25}
    assert record["counts"]["train"] == {"read": len(values), "kept": 25}
    assert text(out, "valid.tok", SOURCE) == text(data, "valid.tok", SOURCE)


def test_a_selection_from_a_selection_says_both_texts(data: Path, like: Path, tmp_path: Path) -> None:
    chosen = shutil.copytree(data, tmp_path / "chosen")
    record, news = json.loads((data / "preprocess.json").read_text()), {"file": "news", "sha256": "x"}
    (chosen / "preprocess.json").write_text(json.dumps({**record, "selected_on": news}))
    begun = []
    for place, folder in (("of-data", data), ("of-chosen", chosen)):
        select(folder, tmp_path / place, like, "tfidf", 5)
        begun.append(json.loads((tmp_path / place / "preprocess.json").read_text()))
    own = {"file": like.name, "sha256": hashlib.sha256(like.read_bytes()).hexdigest()}
    assert [made["selected_on"] for made in begun] == [own, [own, news]]
    # An earlier version said the second text alone.
    old = tmp_path / "of-chosen" / "preprocess.json"
    old.write_text(json.dumps({**begun[1], "selected_on": own}))
    check_same(old, begun[1], "OUT")
    other = [{**own, "file": "other"}, own]
    with pytest.raises(UserError, match=r"of-chosen was made with selected-on \{'file': 'like\.txt', .* not .*'other'"):
        check_same(old, {**begun[1], "selected_on": other}, "OUT")


def test_what_is_refused(data: Path, like: Path, tmp_path: Path) -> None:
    pairs = len(text(data, "train.tok", SOURCE))
    for number in (0, pairs):
        with pytest.raises(UserError, match=rf"^--number must be from 1 to {pairs - 1}, one less .* but is {number}$"):
            select(data, tmp_path / "out", like, "tfidf", number)
    with pytest.raises(UserError, match=r"^--like must be a text, but there is no '.*none'$"):
        select(data, tmp_path / "out", tmp_path / "none", "tfidf", 5)
    short = write_lines(tmp_path / "short", ["a b"] * 99)
    with pytest.raises(UserError, match=r"short: must have at least 100 lines for --method cross-entropy, but has 99$"):
        select(data, tmp_path / "out", short, "cross-entropy", 5)
    references = text(data, "test.tok", TARGET)
    equal = write_lines(tmp_path / "equal", [*references, *["a b"] * (len(references) - 1)])
    with pytest.raises(UserError, match=rf"^--like must be a text of the source, but {len(references)} of the "):
        select(data, tmp_path / "out", equal, "tfidf", 5)
    write_lines(equal, [*references, *["a b"] * len(references)])
    Selection(data, equal, "tfidf", 5).record()
    # A text of another language or script is like none of the pairs, and like each as little.
    other = write_lines(tmp_path / "other", ["\u0391 \u0392"] * 9)
    with pytest.raises(
        UserError, match=r"^--number must be at most 0, the pairs of .*data.* whose source has a word in "
    ):
        select(data, tmp_path / "out", other, "tfidf", 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["equal", "other", "short"]


def test_no_more_pairs_than_have_a_word_in_common(data: Path, tmp_path: Path) -> None:
    lines = [line.split() for line in text(data, "train.tok", SOURCE)]
    number, word = min(
        (sum(word in line for line in lines), word) for word in {word for line in lines for word in line}
    )
    assert 0 < number < len(lines)
    like = write_lines(tmp_path / "like", [word])
    out = tmp_path / "out"
    with pytest.raises(UserError, match=rf"^--number must be at most {number}, .* but is {number + 1}$"):
        select(data, out, like, "tfidf", number + 1)
    assert not out.exists()
    select(data, out, like, "tfidf", number)
    assert text(out, "train.tok", SOURCE) == [" ".join(line) for line in lines if word in line]


def test_the_command(data: Path, like: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = [data, out, "--like", like, "--number", 9]
    command = [str(SCRIPTS / "select.sh"), *map(str, words)]
    environment = {**os.environ, **warm.environment()}
    made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert (made.returncode, made.stdout.splitlines()[-1]) == (0, f"{out} is ready")
    before = contents(out)
    select(data, out, like, "tfidf", 9)
    assert capsys.readouterr().out == f"{out} is up to date\n"
    with pytest.raises(UserError, match=rf"^{out} was made with selection .*; remove it or choose another OUT$"):
        select(data, out, like, "tfidf", 10)
    with pytest.raises(UserError, match=r"^OUT must not contain a comma or a colon, but is 'a:b'$"):
        select(data, Path("a:b"), like, "tfidf", 10)
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
