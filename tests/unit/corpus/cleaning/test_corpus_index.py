"""The chunks of files, however the lines end and wherever blocks begin."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepnmt.corpus.cleaning import corpus_index
from deepnmt.corpus.cleaning.corpus_index import FileIndex, Header, ScoreColumn
from deepnmt.errors import UserError


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text("ab\r\x85ü", max_size=4), min_size=2, max_size=12),
    st.integers(1, 5),
    st.integers(0, 1),
    st.integers(1, 20),
    st.booleans(),
)
def test_chunks_are_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], size: int, skipped: int, block: int, ended: bool
) -> None:
    monkeypatch.setattr(corpus_index, "BLOCK", block)
    lines[-1] = lines[-1] or "x"
    content = ("\n".join(lines) + "\n" * ended).encode()
    path = tmp_path / "text"
    path.write_bytes(content)
    seen: list[int] = []
    index = FileIndex.of(path, size, skipped, seen.append)
    read = [index.read_text(chunk) for chunk in range(index.chunks)]
    assert [line for chunk in read for line in chunk] == lines[skipped:]
    assert [len(chunk) for chunk in read] == [len(index.lines_of(chunk)) for chunk in range(index.chunks)]
    assert {len(chunk) for chunk in read[:-1]} <= {size}
    assert (index.lines, sum(seen), index.sha256) == (
        len(lines) - skipped,
        len(content),
        hashlib.sha256(content).hexdigest(),
    )


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\nc\nd\xff\n")
    with pytest.raises(UserError, match=r"text:4: invalid UTF-8 \(byte 0xff at position 2"):
        FileIndex.of(path, 2).read_text(1)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"only a header\n")
    with pytest.raises(UserError, match="text is empty"):
        FileIndex.of(path, 2, skipped=1)


def test_columns_of_scores(tmp_path: Path) -> None:
    named, plain = tmp_path / "named", tmp_path / "plain"
    named.write_text("forward\tbackward\n-1\t2\n-3\t4e1\n5\tinf\n")
    plain.write_text("1\n2\n3\n")
    header = Header.of(named)
    assert header == Header(("forward", "backward"), 1)
    column = ScoreColumn(FileIndex.of(named, 2, 1), header.place(named, "backward"))
    assert [column.read(chunk).tolist() for chunk in (0, 1)] == [[2, 40], [float("inf")]]
    assert Header.of(plain) == Header(("1",), 0)
    assert Header.of(plain).place(plain, "") == 0


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a\tb\n1\t2\n", "c", r"scores: the column must be one of a, b, but is 'c'"),
        ("a\tb\n1\t2\n", "", r"scores: the column must be one of a, b, but is not given"),
        ("a\tb\n1\t2\n3\n", "b", r"scores:3: column 2 must be a number, but is missing"),
        ("a\tb\n1\t2\n3\tx\n", "b", r"scores:3: column 2 must be a number, but is x"),
        ("\n", "", r"scores: must have a number a line, but begins with an empty one"),
    ],
)
def test_faulty_scores_are_refused(tmp_path: Path, text: str, column: str, message: str) -> None:
    path = tmp_path / "scores"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        ScoreColumn(FileIndex.of(path, 9, Header.of(path).lines), Header.of(path).place(path, column)).read(0)
