"""Texts written from the pieces of distinct words: the same in blocks of any size and in any number of processes."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from subword_nmt.apply_bpe import BPE

from deepnmt.preparation import cut_text, numbered_text
from deepnmt.preparation.cut_text import Output, cut_words, write_texts
from deepnmt.preparation.numbered_text import number_texts
from deepnmt.text.index_file import Binarised
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords

CODES = "#version: 0.2\na b\nab c</w>\nd e</w>\n"
LINES = ["abc de abd", "", "de", "abc abc ü", "x", "abdabc de de", "中 ab"]
TYPES = ["<s>", "<pad>", "</s>", "<unk>", "abc", "de", "ab@@", "d@@", "d", "x", "b"]


@pytest.mark.parametrize(("lines", "workers"), [(10_000, 1), (2, 1), (2, 3), (1, 2)])
def test_text_and_numbers(lines: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered_text, "LINES", lines)
    monkeypatch.setattr(cut_text, "WORDS", lines)
    for module in (numbered_text, cut_text):
        monkeypatch.setattr(module, "MANY", 1)
    (tmp_path / "codes").write_text(CODES, "utf-8")
    texts = [tmp_path / "text", tmp_path / "other"]
    for text, some in zip(texts, (LINES, ["de abc", "z"])):
        text.write_text("".join(f"{line}\n" for line in some), "utf-8")
    cutter = Subwords(tmp_path, TextSettings("de", "en"), "de")
    numbered = number_texts(texts, tmp_path, workers)
    pieces = cut_words([(each, cutter) for each in numbered], workers)
    names = [tmp_path / "text.bpe", tmp_path / "other.bpe"]
    prefixes = [tmp_path / "numbers", None]
    outputs = [Output(*each, TYPES) for each in zip(numbered, pieces, names, prefixes)]
    assert write_texts(outputs, workers) == [Binarised(7, 24, 3), Binarised(2, 5, 1)]
    bpe = BPE(io.StringIO(CODES))
    cut = [bpe.segment(line) for line in LINES]
    assert names[0].read_text("utf-8").split("\n")[:-1] == cut
    assert names[1].read_text("utf-8") == "de abc\nz\n"
    expected = [[TYPES.index(piece) if piece in TYPES else 3 for piece in line.split()] + [2] for line in cut]
    found = np.fromfile(tmp_path / "numbers.bin", np.uint16).tolist()
    assert found == [number for line in expected for number in line]
    sizes = np.fromfile(tmp_path / "numbers.idx", np.int32, 7, offset=26).tolist()
    assert sizes == [len(line) for line in expected]
    assert not (tmp_path / "other.bin").exists()
    words = {word: " ".join(LINES).split().count(word) for line in LINES for word in line.split()}
    assert dict(zip(numbered[0].words.distinct(), numbered[0].words.counts.tolist())) == words
    counted = " ".join(cut).split()
    assert pieces[0].counts(numbered[0].words.counts) == {piece: counted.count(piece) for piece in counted}
