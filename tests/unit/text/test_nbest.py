"""n-best lists are read as they were written, and faulty lines are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.text.nbest import Translation, read_nbest, write_nbest

LINES = [
    Translation(0, 1, "a b@@ c", {"model": -1.25, "length": 4.0}),
    Translation(0, 2, "", {"model": -3.5e-7, "length": 1.0}),
    Translation(7, 1, "<unk> ü\u2028x", {"model": -12345.25, "length": 4.0}),
]


def test_a_file_is_in_order_and_read_as_written(tmp_path: Path) -> None:
    write_nbest(tmp_path / "nbest.tsv", LINES[::-1])
    text = (tmp_path / "nbest.tsv").read_bytes().decode()
    assert text.split("\n")[:2] == ["0\t1\ta b@@ c\tmodel=-1.25\tlength=4", "0\t2\t\tmodel=-3.5e-07\tlength=1"]
    assert read_nbest(tmp_path / "nbest.tsv") == LINES


FIRST = "0\t1\ta\tmodel=-1\tlength=2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": must have translations, but is empty"),
        ("0\t1\ta\n", ":1: must be a sentence, a rank, subwords and features with tabs between them, but is '0\t1\ta'"),
        ("x\t1\ta\tmodel=-1\n", ":1: the sentence must be a whole number, but is 'x'"),
        ("0\t-1\ta\tmodel=-1\n", ":1: the rank must be a whole number, but is '-1'"),
        ("0\t1\ta\tmodel\n", ":1: a feature must be a name and a finite number, as in model=-3.2, but is 'model'"),
        ("0\t1\ta\tmodel=nan\n", ":1: a feature must be a name and a finite number, .* but is 'model=nan'"),
        ("0\t1\ta\t3=1\n", ":1: a feature must be a name and a finite number, .* but is '3=1'"),
        ("0\t1\ta\tmodel=1\tmodel=1\n", ":1: a feature must stand once in a line, but 'model' stands twice"),
        ("0\t2\ta\tmodel=-1\n", ":1: the rank must be 1, but is 2"),
        (FIRST + FIRST, ":2: the rank must be 2, but is 1"),
        ("3" + FIRST[1:] + FIRST, ":2: the sentence must be at least 3, but is 0"),
        (FIRST + "1\t1\ta\tmodel=-1\n", ":2: the features must be model, length, as in line 1, but are model"),
    ],
)
def test_faulty_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "nbest.tsv"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"nbest\.tsv{message}"):
        read_nbest(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no\.tsv: no such n-best list; deepnmt generate writes one with --nbest"):
        read_nbest(tmp_path / "no.tsv")
