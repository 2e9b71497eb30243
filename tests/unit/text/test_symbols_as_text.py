"""What libraries reserve stays text: fairseq's symbols, the mark of subwords, and each kind of white space."""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.flow import write

from deepnmt.engines.engine import SearchSettings
from deepnmt.errors import UserError
from deepnmt.preparation.splits import Rules, prepare_split
from deepnmt.preparation.subword_learning import write_dictionary
from deepnmt.text.dictionary import read_types
from deepnmt.text.nbest import parse
from deepnmt.text.pipeline import TextPipeline, Tokenizer
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords, join_bpe, join_bytes
from deepnmt.translator.translator import Translator

SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
RESERVED = (
    *SYMBOLS, "@@", "a@@", "@@@", "x</s>", "</s>x", "<unk>@@", "<Lua heritage>", "<lua>", "<mask>", "<eos>", "<num>",
    "<url>", "<BT>", "<0xC3>", "madeupword0000", "#fairseq:overwrite", "▁", "a▁b", "</w>", "a</w>", "#unigram",
)  # fmt: skip
# Merges, and pieces, that make each symbol and mark one piece where nothing prevents it.
MERGES = [
    "@ @</w>", "@ @", "< s", "<s ></w>", "< /", "</ s", "</s ></w>", "p a", "pa d", "< pad", "<pad ></w>", "u n",
    "un k", "< unk", "<unk ></w>",
]  # fmt: skip
PIECES = ["@@</w>", "@@", *(f"{symbol}</w>" for symbol in SYMBOLS), *(sign for sign in "<>/spadunk@x")]
CODES = {
    "merges": "\n".join(["#version: 0.2", *MERGES]) + "\n",
    "pieces": "\n".join(["#unigram", *(f"{piece}\t-{len(PIECES) - len(piece)}" for piece in PIECES)]) + "\n",
    "characters": "#characters\n",
}


def subwords(folder: Path, kind: str, **options: Any) -> Subwords:
    (folder / "codes").write_text(CODES[kind], "utf-8")
    (folder / "vocabulary.en").write_text("".join(f"{sign}\n{sign}@@\n" for sign in "<>/spadunk@x"), "utf-8")
    return Subwords(folder, TextSettings("de", "en", pretokenized=True, **options), "en")


@pytest.mark.parametrize(
    "limits", [{}, {"spell_unknown": True}, {"byte_fallback": True}, {"protect": (r"\S*[<@]\S*",)}]
)
@pytest.mark.parametrize("kind", CODES)
def test_reserved_tokens_are_cut_into_what_is_none(tmp_path: Path, kind: str, limits: dict[str, Any]) -> None:
    cut = subwords(tmp_path, kind, **limits)
    for token in (word for name in RESERVED for word in name.split()):
        for line in (token, f"x {token} x", f"{token} {token}"):
            pieces = cut(line).split(" ")
            assert not set(pieces) & set(SYMBOLS), line
            assert not pieces[-1].endswith("@@")
            joined = join_bpe(" ".join(pieces))
            assert (join_bytes(joined) if limits.get("byte_fallback") else joined) == line


@pytest.mark.parametrize("language", ["en", "zh", "th"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_reserved_words_of_raw_text_are_plain_text(tmp_path: Path, language: str, lowercase: bool) -> None:
    (tmp_path / "codes").write_text(CODES["merges"], "utf-8")
    pipeline = TextPipeline(TextSettings(language, language, lowercase), tmp_path / "codes")
    for name in (*RESERVED, "<S>", "＜ｓ＞", "&lt;s&gt;"):
        line = f"a {name} b"
        pieces = pipeline.encode(line).split(" ")
        assert not set(pieces) & set(SYMBOLS)
        tokens = pipeline.tokenize(line)
        assert join_bpe(" ".join(pieces)) == tokens
        assert not set(tokens.split()) & set(SYMBOLS)


def test_chinese_words_are_plain_text() -> None:
    pytest.importorskip("jieba")
    tokens = Tokenizer(TextSettings("zh", "en", segment="jieba"), "zh")("我 <s> 你 </s> <unk>")
    assert not set(tokens.split()) & set(SYMBOLS)


def tokenize_line(line: str) -> list[str]:
    """As fairseq's function of that name, whose import takes seconds."""
    return re.sub(r"\s+", " ", line).strip().split()


def spaces() -> list[str]:
    """All that any library could take for white space, and what looks like it."""
    found = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    return [*found, "\u180e", "\u200b", "\u200c", "\u200d", "\u2060", "\u2581", "\u2800", "\u3164", "\u115f", "\ufeff"]


@pytest.mark.parametrize("kind", CODES)
def test_white_space_is_settled_before_subwords(tmp_path: Path, kind: str) -> None:
    cut = subwords(tmp_path, kind)
    pipeline = TextPipeline(TextSettings("en", "de", keep_punctuation=True), tmp_path / "codes")
    assert len(spaces()) == 39
    for space in spaces():
        whole = pipeline.encode(f"a{space}x {space} s")
        # As fairseq, str.split, a split at spaces and subword-nmt have it.
        assert tokenize_line(whole) == whole.split() == whole.split(" "), repr(space)
        if space.isspace() or space == "\ufeff":
            gap = "" if space == "\ufeff" else " "
            assert whole == pipeline.encode(f"a{gap}x s"), repr(space)
        # Also of tokens that nothing has cleaned.
        assert cut(f"a{space}x").split() == tokenize_line(cut(f"a{space}x")) == cut(f"a{space}x").split(" ")
        if space.isspace():
            assert cut(f"a{space}x") == "a x"
    assert not [space for space in spaces()[:29] if unicodedata.category(space) not in ("Cc", "Zs", "Zl", "Zp")]


@pytest.mark.parametrize("symbol", SYMBOLS)
@pytest.mark.parametrize("lowercase", [False, True])
def test_tokenised_text_with_symbols_is_refused(tmp_path: Path, symbol: str, lowercase: bool) -> None:
    written = symbol.upper() if lowercase else symbol
    prefix = write(tmp_path, "tok", ["a", "b"], ["c", f"d {written} e"])
    rules = Rules(TextSettings("de", "en", lowercase, pretokenized=True))
    with pytest.raises(UserError, match=rf"tok\.en:2: must be text in tokens, but has fairseq's symbol {symbol}$"):
        prepare_split([str(prefix)], str(tmp_path / "out"), rules, 1)
    raw = Rules(TextSettings("de", "en", lowercase))
    assert prepare_split([str(prefix)], str(tmp_path / "out"), raw, 1)["kept"] == 2


def test_tokenised_lines_that_are_left_out_anyway_are_counted(tmp_path: Path) -> None:
    prefix = write(tmp_path, "tok", ["", "b", "x"], ["c", "d", "<s>"])
    with pytest.raises(UserError, match=r"tok\.en:3: must be text in tokens"):
        prepare_split([str(prefix)], str(tmp_path / "out"), Rules(TextSettings("de", "en", pretokenized=True)), 1)


def test_a_tokenised_line_with_a_symbol_is_not_translated(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text(CODES["merges"], "utf-8")
    (tmp_path / "dict.de.txt").write_text("a 1\n", "utf-8")
    settings = TextSettings("de", "en", pretokenized=True)
    engine: Any = SimpleNamespace(longest=50)
    pipeline = TextPipeline(settings, tmp_path / "codes")
    translator = Translator.of_parts(pipeline, engine, SearchSettings(), tmp_path / "dict.de.txt")
    (line,) = translator.run(["a </s> b"], SearchSettings())
    assert line.fault == "not text: it has fairseq's symbol </s>"
    assert line.translations[0].text == ""


@pytest.mark.parametrize("symbol", ["<s>", "<pad>", "</s>"])
def test_an_nbest_list_with_a_structural_symbol_is_refused(symbol: str) -> None:
    with pytest.raises(ValueError, match=f"the subwords must be text, but have fairseq's symbol {symbol}"):
        parse(f"0\t1\ta {symbol} b\tmodel=-1")
    # A search writes it.
    assert parse("0\t1\ta <unk>\tmodel=-1").subwords == "a <unk>"


def test_fillers_of_a_dictionary_are_no_words_of_the_text(tmp_path: Path) -> None:
    write_dictionary(tmp_path / "dict.txt", {"madeupword0000": 1, "b": 1, "madeupword0002": 1})
    types = read_types(tmp_path / "dict.txt")
    assert len(types) == len(set(types)) == 8
    assert types[-1] == "madeupword0001"
