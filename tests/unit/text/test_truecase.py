"""True case: which form the first word of a sentence gets, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses import MosesDetruecaser, MosesTruecaser

from deepnmt.errors import UserError
from deepnmt.text.pipeline import Detokenizer, whole_units
from deepnmt.text.settings import TextSettings
from deepnmt.text.truecase import PLAIN, Truecaser, _places, first_words, learn, sentence_case
from deepnmt.text.units import Units

CORPUS = [
    "Das Haus ist alt . Der Hund sieht das Haus .",
    "&quot; Das ist der Hund , &quot; sagt Anna .",
    "Ist der Hund alt ? Das Haus ist alt : Sie sieht das DAS .",
    "ja , der Hund und McDonald 's",
]
# Where the case says something: not the first word, and not after a colon.
FORMS = {"das": {"das": 2, "DAS": 1}, "haus": {"Haus": 3}, "hund": {"Hund": 4}, "der": {"der": 3}, "ist": {"ist": 3}}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in CORPUS), "utf-8")
    learn(tmp_path / "text", tmp_path / "truecase.de")
    return tmp_path / "truecase.de"


def test_the_model_has_the_counts_of_the_corpus_the_commonest_form_first(model: Path) -> None:
    lines = model.read_text("utf-8").splitlines()
    assert lines == sorted(lines, key=str.lower)
    assert "das (2/3) DAS (1)" in lines
    for word, forms in FORMS.items():
        (line,) = (line for line in lines if line.split()[0].lower() == word)
        assert [entry for form, count in forms.items() for entry in (form, str(count))] == [
            part.strip("()").split("/")[0] for part in line.split()
        ]
    assert not [line for line in lines if line.startswith(("Sie ", "sie ", "hier", "Hier ", "."))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Das Haus", "das Haus"),
        ("Hund und Das DAS . Der Hund ? Das !", "Hund und Das DAS . der Hund ? das !"),
        ("&quot; ( Der Hund : Das", "&quot; ( der Hund : Das"),
        ("Unbekannt ist Das", "Unbekannt ist Das"),
        ("anna sieht MCDONALD", "Anna sieht MCDONALD"),
        ("", ""),
    ],
)
def test_only_first_words_change(model: Path, text: str, expected: str) -> None:
    assert Truecaser(model)(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("ß a", "Ss a"), ("ﬁ b", "Fi b"), ("ǆ x", "ǅ x"), ("äh . ’s", "Äh . ’s")]
)
def test_the_way_back_writes_one_capital(text: str, expected: str) -> None:
    assert sentence_case(text) == expected


def test_the_way_back_gives_the_sentences_of_the_corpus(model: Path) -> None:
    truecase = Truecaser(model)
    for line in CORPUS[:3]:
        assert truecase(line) != line
        assert sentence_case(truecase(line)) == line
    assert sentence_case("über . e.V. ? ( [ 3 a") == "Über . E.V. ? ( [ 3 a"


def test_moses_reads_the_model_and_agrees_on_first_words(model: Path) -> None:
    moses, ours = MosesTruecaser(str(model)), Truecaser(model)
    for line in CORPUS:
        theirs = moses.truecase(line, use_known=True)
        for mine, other, before in zip(ours(line).split(), theirs, line.split()):
            assert mine in (other, before)
        assert ours(line).split()[0] == theirs[0]
        undone = MosesDetruecaser().detruecase(ours(line), return_str=True)
        assert sentence_case(ours(line)).split()[:6] == undone.split()[:6]


def test_text_without_capitals_is_refused_and_text_without_case_is_not(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("das haus ist alt .\n", "utf-8")
    with pytest.raises(UserError, match="text: contains no capitals to learn true case from"):
        learn(tmp_path / "text", tmp_path / "model")
    assert not (tmp_path / "model").exists()
    (tmp_path / "text").write_text("我 喜欢 你 。 123\n", "utf-8")
    assert learn(tmp_path / "text", tmp_path / "model") == 0
    assert Truecaser(tmp_path / "model")("我 Abc") == "我 Abc"
    # A word of another language is no sign of case, and the first words of sentences have it.
    (tmp_path / "text").write_text("我 用 wifi 。\n", "utf-8")
    assert learn(tmp_path / "text", tmp_path / "model") == 1
    (tmp_path / "text").write_text("The house is old .\n", "utf-8")
    assert learn(tmp_path / "text", tmp_path / "model") == 3


def test_an_empty_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    with pytest.raises(UserError, match=rf"^{tmp_path}/text is empty$"):
        learn(tmp_path / "text", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_faulty_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("das (3/4) DAS (1)\nhaus 3\n", "utf-8")
    with pytest.raises(UserError, match=r"model:2: must be a word's forms, such as 'das .*', but is 'haus 3'"):
        Truecaser(tmp_path / "model")


def test_units_keep_their_form(model: Path) -> None:
    units = Units(["[A-Z]{2,}", "iPhone", "macOs", r"https?://\S+"])
    # Without them, these would be changed.
    assert (Truecaser(model)("DAS Haus"), sentence_case("macOs .")) == ("das Haus", "MacOs .")
    assert Truecaser(model, units)("DAS Haus . Das") == "DAS Haus . das"
    assert sentence_case("iPhone . iphone", units) == "iPhone . Iphone"
    assert sentence_case("http://a.de/b&amp;c ist da", units) == "http://a.de/b&amp;c ist da"


def test_a_folder_with_units_and_true_case(model: Path) -> None:
    record = {"source_lang": "de", "target_lang": "en", "lowercase": False, "pretokenized": False, "truecase": True}
    record |= {"protect": ["[A-Z]{2,}", "iPhone"], "placeholders": "urls"}
    settings = TextSettings.from_record(record, model)
    units = whole_units(settings)
    assert [word for word in ("DAS", "iPhone", "www.a.de", "12", "Das") if word in units] == [
        "DAS",
        "iPhone",
        "www.a.de",
    ]
    assert Detokenizer.of(settings)("iPhone sales . www.a.com is up") == "iPhone sales. www.a.com is up"
    assert Detokenizer.of(settings)("phone sales . it is") == "Phone sales. It is"


PIECES = st.sampled_from(
    [*"aI1.,?!:;-)(", "das", "Das", "DAS", "iv", "ŉ", "&quot;", "&apos;", "‿", "a-b", "x²", "Σας", "हि"]
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(words=st.lists(PIECES, min_size=1, max_size=6), language=st.sampled_from([None, "", "de", "nl", "el", "hi"]))
def test_plain_lines_are_soon_told_and_have_the_same_first_words(words: list[str], language: str | None) -> None:
    assert PLAIN.fullmatch("das Haus , x-y .")
    assert not PLAIN.fullmatch("das &quot; Haus .")
    assert _places(" ".join(words), words, language) == first_words(words, language)
