"""Text comes back from its tokens: members of each kind, right tokens, real text of many languages, and any text."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnmt.text.lines import clean
from deepnmt.text.pipeline import Detokenizer, Tokenizer
from deepnmt.text.settings import TextSettings

MEMBERS, SAMPLE = (Path(__file__).with_name(f"{name}.tsv") for name in ("round_trip", "languages"))


def rows(path: Path) -> list[list[str]]:
    """Return the columns of each line of a file."""
    lines = [line.rstrip("\n") for line in path.open(encoding="utf-8")]
    return [line.split("\t") for line in lines if not line.startswith("# ")]


def back(language: str, text: str, **chosen: bool | str) -> str:
    made = TextSettings("xx", language, **chosen)  # type: ignore[arg-type]
    return Detokenizer.of(made)(Tokenizer(made, language)(text))


def test_members_of_each_kind_come_back() -> None:
    found = rows(MEMBERS)
    kinds = Counter(kind for kind, _, _ in found)
    assert len(kinds) == 13
    assert min(kinds.values()) >= 10
    for keep in (False, True):
        assert [row for row in found if back(*row[1:], keep_punctuation=keep) != clean(row[2])] == []


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("yo", "Ọjọ́ ti pẹ́.", "Ọjọ́ ti pẹ́ ."),
        ("fa", "می‌روم.", "می‌روم ."),
        ("hi", "हिन्दी में।", "हिन्दी में ।"),
        ("ar", "هل؟ نعم،", "هل ؟ نعم ،"),
        ("ca", "col·lecció d'ahir", "col·lecció d&apos; ahir"),
        ("fi", "EU:n 10:ssä: ja", "EU:n 10:ssä : ja"),
        ("de", "5 € mehr, $5 und 5€.", "5 € mehr , $ 5 und 5€ ."),
        ("de", "„Ja“ und 'nein', geht's?", "„ Ja “ und &apos; nein &apos; , geht&apos;s ?"),
        ("uk", "П'ять м’ячів", "П&apos;ять м’ячів"),
        ("it", "un po' di", "un po ‿ &apos; di"),
        ("fr", "« L’été », 5 % : oui !", "« L’ été » , 5 % : oui !"),
        ("en", 'don’t and/or 6" (x)', "don ’t and/or 6 ‿ &quot; ( x )"),
        ("ru", "«Да», – сказал", "« Да » , – сказал"),
        ("sv", "”Hej”, sa ’hon’.", "” Hej ” , sa ’ hon ’ ."),
        ("es", "—Hola. ¿Qué?", "— ‿ Hola . ¿ Qué ?"),
        ("zh", "我们说：“好”，", "我们说 ： “ 好 ” ，"),
        ("ja", "「はい」と、Ａ（B）。", "「 はい 」 と 、 Ａ （ B ） 。"),
        ("en", "中文 ‿ a␣b", "中 文 &#8255; a&#9251;b"),
        ("en", "x@@ @@y a@b", "x ‿ @ ‿ @ @ ‿ @y a@b"),
        ("en", "the '90s, 1990's", "the &apos; 90s , 1990 &apos;s"),
        ("en", "multiply by '0' here", "multiply by &apos; 0&apos; here"),
        ("en", "'!' and '.' are", "&apos; ! &apos; and &apos; .&apos; are"),
        ("en", "`* * *` or `*`, '_'", "` * * * ` or ` * ` , &apos; _ &apos;"),
    ],
)
def test_tokens(language: str, text: str, tokens: str) -> None:
    made = TextSettings("xx", language)
    assert Tokenizer(made, language)(text) == tokens
    assert Detokenizer.of(made)(tokens) == text


WORDS = st.sampled_from([*"aI5'\"`.,?!:;-*/_#=&()[]", "don's", "1,000", "3.5", "e.g.", "U.S.", "Mr.", "No.", "'90s"])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    words=st.lists(st.lists(WORDS, min_size=1, max_size=4).map("".join), max_size=4),
    language=st.sampled_from(["en", "de"]),
)
def test_tokens_are_those_of_earlier_folders_where_their_text_came_back(words: list[str], language: str) -> None:
    line = clean(" ".join(words))
    old = TextSettings.from_record({"source_lang": "xx", "target_lang": language}, Path("preprocess.json"))
    # sacremoses leaves an empty token here and there.
    tokens = " ".join(Tokenizer(old, language)(line).split())
    if Detokenizer.of(old)(tokens) == line:
        assert Tokenizer(TextSettings("xx", language), language)(line) == tokens


def test_a_model_may_write_marks_anywhere() -> None:
    detokenize = Detokenizer("en")
    assert detokenize("‿ a ‿ ␣ b ␣ ‿ c ‿ , ␣ d ␣") == "a bc, d"
    assert detokenize("‿") == detokenize("") == ""


def test_real_text_comes_back() -> None:
    lines = rows(SAMPLE)
    assert len({language for language, _ in lines}) >= 60
    assert [(language, text) for language, text in lines if back(language, text) != text] == []


ANY = st.text(
    st.sampled_from("a1Z'’\"„“”«»‚‘.,:;?!…—–-/()[]{}<>&|@#$€%‿␣ हि́ا，。中가’ ") | st.characters(), max_size=30
)


@settings(max_examples=300, deadline=None)
@given(text=ANY, language=st.sampled_from(["en", "de", "fr", "zh", "ja", "ko", "sv", "fi", "ru", "it"]))
def test_any_text_comes_back(text: str, language: str) -> None:
    line = clean(text)
    tokens = Tokenizer(TextSettings("xx", language), language)(line)
    assert Detokenizer(language)(tokens) == line
    assert not re.search(r"@@(?: |$)|^ | $|  ", tokens)


@settings(max_examples=100, deadline=None)
@given(text=ANY)
def test_units_do_not_change_the_way_back(text: str) -> None:
    line = clean(text)
    made = TextSettings("en", "en", protect=(r"\d+ ?[a-z]", r"[(«]", "%"), placeholders="numbers", units_first=True)
    assert Detokenizer.of(made)(Tokenizer(made, "en")(line)) == line


def test_folders_of_earlier_versions_keep_their_tokens() -> None:
    record = {"source_lang": "de", "target_lang": "ca"}
    old = TextSettings.from_record(record, Path("preprocess.json"))
    assert not old.reversible
    assert TextSettings.from_record({**record, "reversible": True}, Path("preprocess.json")).has_marks
    # As sacremoses cuts it, after Moses' normalisation.
    assert Tokenizer(old, "de")("„Ja“ – 5 €/m") == "&quot; Ja &quot; - 5 € / m"
    assert Tokenizer(old, "ca")("L'home col·lec") == "L &apos; home col · lec"
    assert Detokenizer.of(old)("L &apos; home ‿") == "L 'home ‿"
    tokenised = TextSettings("de", "en", pretokenized=True)
    assert Detokenizer.of(tokenised)("a ‿ b @-@ c") == "a ‿ b-c"
