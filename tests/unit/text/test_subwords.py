"""Subwords of every kind, and what is done with types that the training text lacks."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from support.cut_data import random_words
from support.numbered import words_of

from deepnmt.errors import UserError
from deepnmt.preparation.preprocessing import KINDS
from deepnmt.preparation.subword_learning import learn
from deepnmt.text.pipeline import TextPipeline, tokens_of
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords, join_bytes, subword_files, write_vocabulary

TEXT = st.lists(st.text(st.sampled_from("abenukißä中🙂<0xC3>"), min_size=1, max_size=9), min_size=1, max_size=6)
LIMITS = {
    "none": {},
    "threshold": {"vocabulary_threshold": 40},
    "spell": {"spell_unknown": True},
    "bytes": {"byte_fallback": True},
    "all": {"vocabulary_threshold": 40, "spell_unknown": True, "byte_fallback": True},
}
Cutters = dict[tuple[str, str], tuple[Subwords, TextSettings, frozenset[str]]]


@pytest.fixture(scope="module")
def cutters(tmp_path_factory: pytest.TempPathFactory) -> Cutters:
    """Subwords of all kinds and limits, and the types of the training text."""
    draw = random.Random(11)
    vocabulary = random_words(draw, 60)
    lines = [" ".join(draw.choices(vocabulary, k=5)) for _ in range(300)] + ["ß ä ßä äß"]
    made = {}
    for kind, (name, limits) in product(KINDS, LIMITS.items()):
        folder = tmp_path_factory.mktemp(f"{kind}-{name}")
        (folder / "train").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        learn(kind, folder / "codes", 60, words_of(folder / "train"), 5)
        settings = TextSettings("de", "en", pretokenized=True, **limits)
        cut = Subwords(folder, settings, "de", limited=False)
        counts = Counter(piece for line in lines for piece in cut(line).split())
        least = settings.vocabulary_threshold or 1
        write_vocabulary(folder / "vocabulary.de", counts, least, settings.spell_unknown)
        types = frozenset((folder / "vocabulary.de").read_text(encoding="utf-8").splitlines())
        made[kind, name] = Subwords(folder, settings, "de"), settings, types
    return made


@given(words=TEXT)
def test_decoding_gives_back_what_was_encoded(cutters: Cutters, words: list[str]) -> None:
    line = " ".join(words)
    for key, (cut, settings, types) in cutters.items():
        pieces = cut(line)
        assert tokens_of(pieces, settings) == line, key
        if settings.byte_fallback:
            named = {f"<0x{byte:02X}>{mark}" for byte in range(256) for mark in ("", "@@")}
            assert set(pieces.split()) <= types | named, key


def test_sizes_and_characters(cutters: Cutters) -> None:
    for kind in ("bpe", "wordpiece", "unigram"):
        cut = cutters[kind, "none"][0]
        lengths = len(cut("banukilor baba nuki").split()), len("banukilorbabanuki")
        assert lengths[0] < lengths[1]
    assert cutters["char", "none"][0]("ba n") == "b@@ a n"


def test_a_threshold_is_that_of_subword_nmt(cutters: Cutters) -> None:
    cut, _, types = cutters["bpe", "threshold"]
    every = cutters["bpe", "none"][0]
    with cut.codes.open(encoding="utf-8") as file:
        theirs = BPE(file, vocab=set(types))
    words = random_words(random.Random(2), 200)
    ours = [cut(word) for word in words]
    assert ours == [theirs.segment(word) for word in words]
    assert ours != [every(word) for word in words]


def test_what_spelling_and_bytes_make(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b\nab c</w>\nd e</w>\n")

    def cut(line: str, **limits: bool) -> str:
        settings = TextSettings("de", "en", **limits)
        types = {"ab@@": 2, "c": 2, "abc": 1, "c@@": 1}
        write_vocabulary(tmp_path / "vocabulary.de", types, 1, settings.spell_unknown)
        return Subwords(tmp_path, settings, "de")(line)

    assert cut("abc abd dabc", spell_unknown=True) == "abc a@@ b@@ d d@@ a@@ b@@ c"
    assert cut("abc cabc cabd de", byte_fallback=True) == "abc c@@ abc c@@ ab@@ <0x64> <0x64>@@ <0x65>"
    assert cut("abä", byte_fallback=True, spell_unknown=True) == "a@@ b@@ <0xC3>@@ <0xA4>"
    assert cut("abc<0x61>", byte_fallback=True).startswith("<0x61>@@ <0x62>@@ c@@ <0x3C>@@ <0x30>@@")


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("<0xC3><0xA4>b <0x61>", "äb a"),
        ("<0xC3> x<0xE4>", "\ufffd x\ufffd"),
        ("<0x3C>0x61>", "<0x61>"),
        ("<0x6> <0xg1>", "<0x6> <0xg1>"),
    ],
)
def test_bytes_become_characters(tokens: str, text: str) -> None:
    assert join_bytes(tokens) == text


# What Python, wc or the terminal takes for a control character or for the end of a line, and a byte order mark.
ODD = [*map(chr, (*range(32), *range(127, 160), 0x2028, 0x2029, 0xFEFF))]


@given(words=st.lists(st.lists(st.sampled_from([*ODD, "a", "ä", "中"]), min_size=1, max_size=4), max_size=5))
def test_a_line_of_bytes_stays_a_line(words: list[list[str]]) -> None:
    """A translation of one line is one, whatever bytes the model writes."""
    pieces = " ".join("@@ ".join(f"<0x{byte:02X}>" for byte in "".join(word).encode()) for word in words)
    tokens = tokens_of(pieces, TextSettings("de", "zh", byte_fallback=True))
    expected = "".join(" " if sign in ODD[:-1] else sign for sign in " ".join(map("".join, words)) if sign != ODD[-1])
    assert tokens == " ".join(expected.split())
    assert len(tokens.splitlines()) <= 1


def test_a_line_feed_in_bytes_ends_a_word(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#characters\n")
    (tmp_path / "vocabulary.de").write_text("a\n")
    pipeline = TextPipeline.of(TextSettings("de", "zh", byte_fallback=True, segment="jieba"), tmp_path / "codes")
    assert pipeline.decode("中 <0x0A> a@@ <0x0D>@@ <0x0A>@@ b <0x00>") == "中a b"


def test_each_language_has_its_own_codes(tmp_path: Path) -> None:
    settings = TextSettings("de", "en", pretokenized=True, separate=True, vocabulary_threshold=1)
    assert subword_files(settings) == ["codes.de", "codes.en", "vocabulary.de", "vocabulary.en"]
    for language, merge in (("de", "a b</w>"), ("en", "b c</w>")):
        (tmp_path / f"codes.{language}").write_text(f"#version: 0.2\n{merge}\n")
        (tmp_path / f"vocabulary.{language}").write_text("ab\nbc\n")
    assert TextPipeline.of(settings, tmp_path / "codes").encode("ab bc") == "ab b@@ c"
    assert TextPipeline.of(settings.reversed(), tmp_path / "codes").encode("ab bc") == "a@@ b bc"


def test_a_size_below_the_characters_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("abc cab\n")
    for kind in ("bpe", "unigram", "wordpiece"):
        # a, b, c within words, b and c at their ends
        with pytest.raises(UserError, match=r"^--vocabulary must be at least 6, one more than .*, but is 5$"):
            learn(kind, tmp_path / "codes", 5, words_of(tmp_path / "train"), 1)
    with pytest.raises(UserError, match=r"^--min-pair-count must be a number of times .*, but is 3$"):
        learn("wordpiece", tmp_path / "codes", 9, words_of(tmp_path / "train"), 3)
    assert not (tmp_path / "codes").exists()


def test_missing_and_faulty_files(tmp_path: Path) -> None:
    plain, limited = TextSettings("de", "en"), TextSettings("de", "en", byte_fallback=True)
    with pytest.raises(UserError, match=r"codes: no such file; its folder must be one made by deepnmt preprocess or"):
        Subwords(tmp_path, plain, "de")
    (tmp_path / "codes").write_text("#words\n")
    with pytest.raises(
        UserError, match=r"codes:1: must be '#version: 0.2', '#unigram' or '#characters', but is '#words'"
    ):
        Subwords(tmp_path, plain, "de")
    (tmp_path / "codes").write_text("#characters\n")
    with pytest.raises(UserError, match=r"vocabulary.de: no such file; its folder must be one made by"):
        Subwords(tmp_path, limited, "de")
