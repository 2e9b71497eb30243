"""Units that must stay whole, tags in their place, and Chinese words."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnmt.errors import UserError
from deepnmt.text import chinese
from deepnmt.text.chinese import joined, segmenter
from deepnmt.text.lines import clean
from deepnmt.text.pipeline import Detokenizer, TextPipeline, Tokenizer, placeholders_of, tokens_of
from deepnmt.text.placeholders import PATTERNS, Placeholders, parse_kinds
from deepnmt.text.settings import TextSettings
from deepnmt.text.units import Units, escaped, read_patterns, shown, unescaped

PARTS = ["90km/h", "x&y=1;<z>", "A-1:2", "Haus", "(so)", "z.B.", "QUNITQaQ", "3:2", "don't", "„ja“", "[1]", "."]
UNITS = (r"\d+km/h", r"x&y=1;<z>", r"A-\d:\d")
LINES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8)


GERMAN = Tokenizer(TextSettings("de", "en", protect=UNITS, keep_punctuation=True), "de")


@settings(deadline=None)
@given(words=LINES)
def test_units_are_tokens_and_come_back(words: list[str]) -> None:
    line = " ".join(words)
    tokens = GERMAN(line).split()
    units = [word for word in words if any(re.fullmatch(pattern, word) for pattern in UNITS)]
    assert [unescaped(token) for token in tokens if unescaped(token) in units] == units
    known = Units(UNITS)
    assert [token in known for token in tokens] == [unescaped(token) in units for token in tokens]
    hidden, found, mark = known.hide(line)
    assert shown(hidden, [unescaped(each) for each in found], mark) == " ".join(
        escaped(word) if word in units else word for word in words
    )


def test_what_is_hidden() -> None:
    text, found, mark = Units([r"\d+", r"\d+ km", "QUNITQ"]).hide("5 km, 7 QUNITQ 12")
    assert found == ["5 km", "7", "QUNITQ", "12"]
    assert mark == "QUNITQQ"
    assert text == "QUNITQQaQ, QUNITQQbQ QUNITQQcQ QUNITQQdQ"
    many = " ".join(map(str, range(1200)))
    assert shown(*Units([r"\d+"]).hide(many)) == many
    assert "KM/H" not in Units(["km/h"])
    assert "KM/H" in Units(["km/h"], ignore_case=True)


@pytest.mark.parametrize("codes", ["#characters\n", "#version: 0.2\n9 0\nk m\n", "#unigram\nk\t-1\nkm/h</w>\t-2\n"])
def test_subwords_leave_units_whole(tmp_path: Path, codes: str) -> None:
    (tmp_path / "codes").write_text(codes)
    chosen = TextSettings("de", "en", lowercase=True, protect=(r"\d+KM/H",), placeholders="numbers")
    pipeline = TextPipeline.of(chosen, tmp_path / "codes")
    subwords = pipeline.encode("Rund 90KM/H, 7 km").split()
    assert "90km/h" in subwords
    assert "<num>" in subwords
    assert "rund" not in subwords
    assert pipeline.decode(" ".join(subwords), pipeline.tokenize("Rund 90KM/H, 7 km")) == "rund 90km/h, 7 km"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("etwa 2,5mm", []),
        ("2,5 mm, 3.5.", ["2,5", "3.5"]),
        ("1,000.5x 1/2", ["1/2"]),
        ("7, 8.", ["7", "8"]),
        ("12mm", []),
        ("3. 4:", ["3", "4"]),
        ("٣٫٥ و ١٬٠٠٠،٥.", ["٣٫٥", "١٬٠٠٠،٥"]),
        ("१,००,०००.५० और ४", ["१,००,०००.५०", "४"]),
        ("１，５００．５ １４：３０", ["１，５００．５", "１４：３０"]),
        ("1'500, 1’500.25 '90", ["1'500", "1’500.25", "90"]),
        ("2020-12-31 um 14:30, 31.12.20 3/4/21 14.30", ["2020-12-31", "14:30", "31.12.20", "3/4/21", "14.30"]),
        ("10\u201120 555-1234", ["10\u201120", "555-1234"]),
        ("1\u02bc500 10\u201020 14\u223630", ["1\u02bc500", "10\u201020", "14\u223630"]),
        ("2½ und ½ Liter, ½x", ["2½", "½"]),
        ("10-12x", []),
    ],
)
def test_a_part_of_a_number_is_none(text: str, numbers: list[str]) -> None:
    assert re.findall(PATTERNS["numbers"], text) == numbers
    settings = TextSettings("de", "en", placeholders="numbers", units_first=True, all_numbers=True)
    tokens = Tokenizer(settings, "de")(text)
    assert list(map(unescaped, placeholders_of(settings).units(tokens)["<num>"])) == numbers


@pytest.mark.parametrize(
    ("language", "text", "numbers"),
    [
        ("zh", "2020年12月31日14：30，第10章 3.5万人。", ["2020", "12", "31", "14：30", "10", "3.5"]),
        ("ja", "１２月、第3・5章に10-20人", ["１２", "3", "5", "10-20"]),
        ("th", "เวลา๑๔:๓๐ที่ 5 มี10คน", ["๑๔:๓๐", "5", "10"]),
        ("my", "၂၀၂၀ခုနှစ်", ["၂၀၂၀"]),
        ("zh", "共100，200人，30号：1，000", ["100", "200", "30", "1", "000"]),
        ("zh", "A10章", []),
    ],
)
def test_numbers_beside_letters_of_scripts_without_spaces(language: str, text: str, numbers: list[str]) -> None:
    settings = TextSettings(language, "en", placeholders="numbers", units_first=True, all_numbers=True)
    tokens = Tokenizer(settings, language)(text)
    assert placeholders_of(settings).units(tokens)["<num>"] == numbers
    assert Detokenizer(language)(tokens) == text


def test_numbers_of_earlier_folders() -> None:
    numbers = ["1'500", "2020-12-31", "٣٫٥", "½", "1,5", "14:30", "٣"]
    earlier = placeholders_of(TextSettings("de", "en", placeholders="numbers", units_first=True))
    assert earlier.units(" ".join(numbers))["<num>"] == ["1,5", "14:30", "٣"]
    late = placeholders_of(TextSettings("de", "en", placeholders="numbers,urls"))
    assert late.units(" ".join(numbers))["<num>"] == ["1,5", "14:30", "٣"]
    now = placeholders_of(TextSettings("de", "en", placeholders="numbers", units_first=True, all_numbers=True))
    assert now.units(" ".join(numbers))["<num>"] == numbers


KINDS = st.lists(
    st.sampled_from(["3", "1,000.5", "12:30", "www.a.de/x?b=1", "https://b.org", "Haus", "x3", ".", "&lt;", "<num>"])
)


@given(words=KINDS)
def test_tags_are_put_back_by_order(words: list[str]) -> None:
    line, both = " ".join(words), Placeholders(parse_kinds("urls,numbers"))
    tagged = both.tagged(line)
    assert both.filled(tagged, line) == line
    wanted = {"3": "<num>", "1,000.5": "<num>", "12:30": "<num>", "www.a.de/x?b=1": "<url>", "https://b.org": "<url>"}
    assert tagged.split() == [wanted.get(word, word) for word in words]
    # A translation may have other words, more tags and fewer.
    numbers = [word for word in words if wanted.get(word) == "<num>" or word == "<num>"]
    assert both.filled("a <num> b <num> c", line).split() == ["a", *numbers[:1], "b", *numbers[1:2], "c"]


@pytest.mark.parametrize(
    ("source", "target", "tagged"),
    [
        ("3 und 4", "3 and 4", ("<num> und <num>", "<num> and <num>")),
        ("3 und 4", "4 and 3", ("3 und 4", "4 and 3")),
        ("1.000 www.a.de", "1,000 www.a.de", ("1.000 <url>", "1,000 <url>")),
        ("drei", "3", ("drei", "3")),
    ],
)
def test_pairs_are_tagged_where_both_sides_agree(source: str, target: str, tagged: tuple[str, str]) -> None:
    assert Placeholders(PATTERNS).tagged_pair(source, target) == tagged


def test_a_rare_tag_that_is_in_bytes_becomes_a_unit() -> None:
    text = TextSettings("de", "en", placeholders="numbers,urls", byte_fallback=True)
    pieces = "see <0x3C>@@ ur@@ l@@ <0x3E> and <num> <0xC3>@@ <0xA4>"
    assert tokens_of(pieces, text, "siehe www.a.de und 3") == "see www.a.de and 3 ä"


@pytest.mark.parametrize(
    ("text", "urls", "rest"),
    [
        ("See https://a.org/Rust_(language) now.", ["https://a.org/Rust_(language)"], "See <url> now ."),
        ("(https://a.org/b).", ["https://a.org/b"], "( <url> ) ."),
        ("(https://a.org/(b)_c)", ["https://a.org/(b)_c"], "( <url> )"),
        ("https://a.org/(b, c", ["https://a.org/"], "<url> ‿ ( b , c"),
        ("“www.a.org”, ‘www.b.org’, «www.c.org».", ["www.a.org", "www.b.org", "www.c.org"], None),
        ("www.a.org/b–c… www.d.org/it’s?", ["www.a.org/b–c", "www.d.org/it’s"], "<url> ‿ … <url> ?"),
        ("http:// www. www.( www.)", [], None),
    ],
)
def test_addresses_keep_their_signs(text: str, urls: list[str], rest: str | None) -> None:
    chosen = TextSettings("en", "de", placeholders="urls", units_first=True)
    tokens, both = Tokenizer(chosen, "en")(text), Placeholders(["urls"])
    assert both.units(tokens)["<url>"] == urls
    assert rest in (None, both.tagged(tokens))
    assert re.findall(PATTERNS["urls"], text) == urls


def test_protected_words_are_found_before_their_signs_are_normalised() -> None:
    chosen = TextSettings("en", "de", protect=(r"AB–\d+", r"f\(x\)"), units_first=True, reversible=False)
    assert Tokenizer(chosen, "en")("Is AB–12 f(x) – “so”?") == "Is AB–12 f(x) - &quot; so &quot; ?"
    # What --normalise names is done before, so that a unit is the same on both sides.
    chosen = TextSettings("zh", "en", placeholders="numbers,urls", units_first=True, normalise="width,punctuation")
    text = "见（https://a.org/(b)），３ 个。"
    assert Tokenizer(chosen, "zh")(text) == "见 ␣ ( https://a.org/(b) ) , ‿ 3 个 ."
    digits = TextSettings("zh", "en", placeholders="numbers", units_first=True, normalise="punctuation")
    assert Tokenizer(digits, "zh")("３ 个") == "3 个"


def test_data_that_do_not_say_it_have_their_units_last() -> None:
    """What models of earlier versions read must not change."""
    settings = TextSettings("en", "de", placeholders="urls", reversible=False)
    text = "See https://a.org/Rust_(X) “www.b.org/it’s” now."
    tokens = "See https://a.org/Rust_ ( X ) &quot; www.b.org/it&apos;s &quot; now ."
    assert Tokenizer(settings, "en")(text) == tokens
    assert tokens_of("a <url> b <url>", settings, tokens) == "a https://a.org/Rust_ b www.b.org/it&apos;s"
    kept = TextSettings("en", "de", placeholders="urls", keep_punctuation=True, reversible=False)
    assert Tokenizer(kept, "en")("www.a.org/(b)") == "www.a.org/(b )"
    record = {"source_lang": "en", "target_lang": "de", "placeholders": "urls"}
    assert TextSettings.from_record(record, Path("preprocess.json")) == settings
    assert TextSettings.from_record({**record, "units_first": True}, Path("preprocess.json")).units_first


@pytest.mark.parametrize("pretokenized", [False, True])
def test_addresses_keep_their_case(tmp_path: Path, pretokenized: bool) -> None:
    (tmp_path / "codes").write_text("#characters\n")
    chosen = TextSettings(
        "de",
        "en",
        lowercase=True,
        pretokenized=pretokenized,
        protect=(r"AB-\d",),
        placeholders="numbers,urls",
        reversible=False,
    )
    pipeline = TextPipeline.of(chosen, tmp_path / "codes")
    tokens = pipeline.tokenize("Siehe AB-1 , 3 und https://youtu.be/dQw4W9WgXcQ?a=B&c=D !")
    url = "https://youtu.be/dQw4W9WgXcQ?a=B&c=D"
    assert tokens == f"siehe ab-1 , 3 und {url if pretokenized else escaped(url)} !"
    assert pipeline.segment(tokens) == "s@@ i@@ e@@ h@@ e ab-1 , <num> u@@ n@@ d <url> !"
    assert pipeline.decode("s@@ e@@ e <url> !", tokens) == f"see {url}!"


def test_units_of_tags_pass_the_tokeniser_whole() -> None:
    tokenize = Tokenizer(TextSettings("de", "en", placeholders="numbers,urls"), "de")
    text = "Um 12:30 Uhr: https://a.de/b?c=1&d=2."
    assert tokenize(text) == "Um 12:30 Uhr : https://a.de/b?c=1&amp;d=2 ."
    assert Detokenizer("de")(tokenize(text)) == text


@settings(deadline=None, max_examples=30)
@given(line=st.text(st.sampled_from("我来到北京清华大学他说“”，。！？：《》中文"), min_size=1, max_size=30))
def test_chinese_words_join_to_the_text(line: str) -> None:
    pytest.importorskip("jieba")
    settings = TextSettings("zh", "en", keep_punctuation=True, segment="jieba")
    tokens = Tokenizer(settings, "zh")(clean(line))
    assert Detokenizer("zh", segment="jieba")(tokens) == line


def test_chinese_among_other_text() -> None:
    pytest.importorskip("jieba")
    tokens = segmenter()("我来到北京清华大学, A & B")
    assert tokens == "我 来到 北京 清华大学 , A &amp; B"
    assert joined(tokens) == "我来到北京清华大学, A & B"


def test_missing_jieba_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    chinese._jieba.cache_clear()
    with pytest.raises(UserError, match=r"^--segment jieba: jieba must be .*: pip install 'deepnmt\[chinese\]'$"):
        Tokenizer(TextSettings("zh", "en", segment="jieba"), "zh")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a+\n(b\n", r"patterns:2: must be a regular expression, but is '\(b': missing \)"),
        ("a*\n", r"patterns:1: must be a pattern of at least one sign, but 'a\*' matches none"),
        ("\n", r"patterns: contains no patterns"),
        ("x" * 100_001, r"patterns:1: must be a pattern of at most 100000 signs, but has 100001$"),
    ],
)
def test_faulty_patterns(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "patterns").write_text(text)
    with pytest.raises(UserError, match=fault):
        read_patterns(tmp_path / "patterns")
    with pytest.raises(UserError, match=r"^--protect must be a file of patterns, but there is no"):
        read_patterns(tmp_path / "none")


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("protect", ["("], r"'protect' must be a regular expression, but is '\('"),
        ("protect", [["a"]], r"'protect' must be a list of text, but has \['a'\]"),
        ("protect", "x", r"'protect' must be a list, but is \"x\""),
        ("placeholders", "names", r"--placeholders must be numbers, urls, or both with a comma, but has 'names'"),
        ("segment", "moses", r"'segment' must be jieba, but is 'moses'"),
        ("units_first", 1, r"'units_first' must be true or false, but is 1"),
    ],
)
def test_faulty_records(key: str, value: object, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        TextSettings.from_record({"source_lang": "de", "target_lang": "en", key: value}, Path("preprocess.json"))
