"""What is a word, in scripts of all kinds."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnmt.text.words import RARE, signs_of, words_alone, words_of

# The lower case of a dotted capital I has a mark.
LATIN = st.text(
    st.characters(max_codepoint=0x24F, exclude_characters="İ")
    | st.sampled_from("„“”’–—…€™ạếßﬁ①½²\u2028\u200b\u3000\x1c"),
    max_size=20,
)


@settings(deadline=None)
@given(LATIN)
def test_latin_text_is_cut_as_by_python(text: str) -> None:
    assert words_of(text, raw=True) == re.findall(r"\w+|[^\w\s]", text.lower())
    assert words_alone(text) == re.findall(r"\w+", text)
    # And the same where a mark elsewhere in the line asks for the other way.
    assert words_of(f"{text} \u0906", raw=True) == [*re.findall(r"\w+|[^\w\s]", text.lower()), "\u0906"]
    assert words_alone(f"{text} \u0906") == [*re.findall(r"\w+", text), "\u0906"]


def test_every_mark_is_seen() -> None:
    for code in range(sys.maxunicode + 1):
        name = unicodedata.name(chr(code), "")
        unspaced = name.startswith(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "BOPOMOFO"))
        if unicodedata.category(chr(code)) in ("Mn", "Mc") or (unspaced and chr(code).isalnum()):
            assert RARE.match(chr(code)), name


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("हिन्दी, ३ दिन।", ["हिन्दी", ",", "३", "दिन", "।"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("Cafe\u0301 o\u0308l", ["cafe\u0301", "o\u0308l"]),
        ("İstanbul", ["i\u0307stanbul"]),
        ("한국어 말.", ["한국어", "말", "."]),
        ("Это не то.", ["это", "не", "то", "."]),
        ("ไทย ok", ["ไ", "ท", "ย", "ok"]),
        ("ကျွန်", ["က", "ျ", "ွ", "န", "်"]),
        ("我喜歡NMT。", ["我", "喜", "歡", "nmt", "。"]),
        ("スーパー", ["ス", "ー", "パ", "ー"]),
        ("❤\ufe0f \u0301x", ["❤", "\ufe0f", "\u0301", "x"]),
    ],
)
def test_words_and_signs(line: str, words: list[str]) -> None:
    assert words_of(line, raw=True) == words
    assert words_of(line, raw=False) == line.split()


@pytest.mark.parametrize(
    ("line", "signs"),
    [
        ("我们...去……", ["我", "们", "...", "去", "……"]),
        ("价10,000,000元", ["价", "10,000,000", "元"]),
        ("12:30开，5,x", ["12:30", "开", "，", "5", ",", "x"]),
        ("iPhone 7s。」", ["iPhone", "7s", "。", "」"]),
        ("ABC", ["ABC"]),
        ("ああ", ["あ", "あ"]),
    ],
)
def test_signs_of_unspaced_languages(line: str, signs: list[str]) -> None:
    assert signs_of(line) == signs
