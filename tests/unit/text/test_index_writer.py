"""Binarised text is fairseq's, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, make_builder

from deepnmt.errors import UserError
from deepnmt.text.dictionary import append_types, read_types
from deepnmt.text.index_file import Binarised, binarise, join, kind_for

LINES = ["a b zz", "", "  b\t<unk>  ü ", "b"]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "dict.txt"
    path.write_text("a 3\nb 2\nü 1\n", encoding="utf-8")
    (tmp_path / "text").write_text("\n".join(LINES), encoding="utf-8")
    return path


def by_fairseq(prefix: Path, dictionary: Dictionary, lines: list[str], types: int) -> None:
    builder = make_builder(f"{prefix}.bin", "mmap", types)
    for line in lines:
        builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
    builder.finalize(f"{prefix}.idx")


def test_binarised_text_is_fairseqs(words: Path, tmp_path: Path) -> None:
    dictionary = Dictionary.load(str(words))
    assert read_types(words) == dictionary.symbols
    counts = binarise(tmp_path / "text", str(tmp_path / "own"), read_types(words))
    by_fairseq(tmp_path / "fairseq", dictionary, LINES, len(dictionary))
    for ending in ("bin", "idx"):
        assert (tmp_path / f"own.{ending}").read_bytes() == (tmp_path / f"fairseq.{ending}").read_bytes()
    assert counts == Binarised(sentences=4, tokens=11, unknown=2)


@pytest.mark.parametrize("symbol", ["<s>", "<pad>", "</s>"])
def test_structural_symbols_in_text_are_refused(words: Path, tmp_path: Path, symbol: str) -> None:
    (tmp_path / "text").write_text(f"a\na {symbol} b\n", encoding="utf-8")
    with pytest.raises(UserError, match=f"text:2: must be text in subwords, but has fairseq's symbol {symbol}$"):
        binarise(tmp_path / "text", str(tmp_path / "own"), read_types(words))


def test_size_of_the_numbers_is_fairseqs(tmp_path: Path) -> None:
    for types in (5, 65_499, 65_500):
        make_builder(str(tmp_path / "x.bin"), "mmap", types).finalize(str(tmp_path / "x.idx"))
        assert MMapIndexedDataset.Index(str(tmp_path / "x.idx")).dtype == np.dtype(kind_for(types))


def test_sides_are_joined_in_their_order_whatever_their_numbers(words: Path, tmp_path: Path) -> None:
    dictionary = Dictionary.load(str(words))
    by_fairseq(tmp_path / "small", dictionary, ["a b", "b"], 7)
    by_fairseq(tmp_path / "large", dictionary, ["ü"], 70_000)
    parts = [str(tmp_path / name) for name in ("small", "small", "large")]
    assert join(parts, str(tmp_path / "whole"), 8) == 5
    by_fairseq(tmp_path / "expected", dictionary, ["a b", "b", "a b", "b", "ü"], 8)
    for ending in ("bin", "idx"):
        assert (tmp_path / f"whole.{ending}").read_bytes() == (tmp_path / f"expected.{ending}").read_bytes()
    data = MMapIndexedDataset(str(tmp_path / "whole"))
    assert torch.equal(data[4], torch.tensor([6, 2]))


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.idx").write_bytes(b"TNTIDX\x00\x00" + bytes(40))
    message = f"{tmp_path}/old.idx: must be an index of fairseq-preprocess, but has other content"
    with pytest.raises(UserError, match=re.escape(message)):
        join([str(tmp_path / "old")], str(tmp_path / "whole"), 8)
    assert not list(tmp_path.glob("whole*"))


def test_appended_types_leave_the_others_their_numbers(words: Path) -> None:
    before = read_types(words)
    words.write_text(words.read_text("utf-8").rstrip("\n"), encoding="utf-8")
    append_types(words, ["<BT>", "b", "<BLANK>"])
    assert read_types(words) == [*before, "<BT>", "<BLANK>"]
    assert Dictionary.load(str(words)).symbols == read_types(words)
