"""Which words begin sentences: `^` marks them, `~` those whose case is free; all others are inside a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepnmt.text.sentence_starts import Place, places_of
from deepnmt.text.truecase import Truecaser, count_forms, first_words, learn, sentence_case

MARKS = {Place.FIRST: "^", Place.FREE: "~", Place.INSIDE: ""}
LINES = [
    ("de", "^Das ist gut ."),
    # Dialogue
    ("de", "- ^Das ist gut . - ^Das auch ."),
    ("ru", "— ^Да . — ^Он встал ."),
    ("fr", "– ^Oui , dit-il ."),
    ("es", "— ¿ ^Vienes ? — ~preguntó él ."),
    ("en", "- ^Coming ? - ~Yes ."),
    ("en", "― ^No ."),
    ("pl", "— ^Nie — powiedział ."),
    # Quotations
    ("de", "„ ^Das reicht . “"),
    ("de", "^Er sagte , &quot; ~Das reicht . &quot; ^Er ging ."),
    ("de", "^Das Buch » ~Der Prozess « ~ist alt ."),
    ("en", "&quot; ^Come ! &quot; ~he cried ."),
    ("en", "“ ^Who ? ” ~he asked . “ ^Nobody . ”"),
    ("en", "‘ ^Come ! ’ ~he cried ."),
    ("en", "^He left ! &quot; ^Come back . &quot;"),
    ("fr", "« ^Viens ! » ~cria-t-il ."),
    ("sv", "” ^Kom hit ” , sa han ."),
    ("ja", "「 ^Ab 」"),
    ("en", "( ^See above . ) ^This is new ."),
    ("en", "^This ( ~see above ) is new ."),
    # Spanish signs
    ("es", "¡ ^Hola ! ¿ ^Qué tal ?"),
    ("es", "^Si vienes , ¿ qué haces ?"),
    ("ast", "¡ ¿ ^Qué ?"),
    # Ellipsis and colon
    ("en", "... ~and then he left ."),
    ("en", "… ~And then he left ."),
    ("en", "^He came ... ~And left ."),
    ("de", "^Er sagte : ~Komm her ."),
    ("en", "^Note : ~this is new ."),
    # Bullets, numbering, brackets
    ("de", "• ^Das ist gut ."),
    ("de", "* ^Das Haus • ~Der Hund"),
    ("de", "➤ ^Das ist gut ."),
    ("en", "~1. ^This is new ."),
    ("en", "~1 . ^This is new ."),
    ("en", "~1 ) ^This is new ."),
    ("en", "( ~a ) ^This is new ."),
    ("en", "~ii ) ^This is new ."),
    ("en", "&#91; ~3 &#93; ^This is new ."),
    ("en", "~1.1 ~The aim of it"),
    ("de", "~3 ~kleine Hunde ."),
    ("en", "😀 ^This is new ."),
    ("en", "&#91; ^This is new . &#93;"),
    # Ends of sentences
    ("de", "^Ja ! ^Nein ? ^Doch ."),
    ("de", "^Was ?! ^Nein ."),
    ("el", "^Τι είναι ; ^Ναι ."),
    ("en", "^One ; two"),
    ("hy", "^Այո ։ ^Ոչ ։"),
    ("hi", "^यह iPhone है । ^iPhone"),
    ("zh", "^好 。 ^Ab 很 好 ！ ^Cd"),
    ("ur", "^ab ۔ ^cd ؟ ^ef"),
    # Short forms
    ("nl", "~&apos;s ^Ochtends regent het ."),
    ("nl", "&apos; ~s ^ochtends regent het ."),
    ("nl", "~’t ^is zo . ~’n ^man ."),
    ("af", "~ŉ ^man"),
    ("de", "~’s ist schade ."),
    ("en", "^’tis so"),
    ("it", "^’ndrangheta"),
]


@pytest.mark.parametrize(("language", "line"), LINES)
def test_places(language: str, line: str) -> None:
    tokens = [token.removeprefix("^").removeprefix("~") for token in line.split()]
    found = dict(places_of(tokens, language))
    marked = [MARKS[found[number]] + token if number in found else token for number, token in enumerate(tokens)]
    assert " ".join(marked) == line


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("truecase")
    lines = ["Ich sehe das Haus und es ist der Hund ."] * 3 + ["Er sah nach nichts , was war , kam und ging ."]
    (folder / "text").write_text("\n".join(lines) + "\n", "utf-8")
    learn(folder / "text", folder / "truecase.de", "de")
    return folder / "truecase.de"


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("- Das ist gut .", "- das ist gut ."),
        ("- Das ist gut . - Der auch .", "- das ist gut . - der auch ."),
        ("&quot; Das ist gut . &quot; Und Das ?", "&quot; das ist gut . &quot; und Das ?"),
        ("&quot; Was ? &quot; sah er .", "&quot; was ? &quot; sah er ."),
        ("&quot; Was ? &quot; Und er kam .", "&quot; was ? &quot; Und er kam ."),
        ("( Das ist gut . ) Das Haus .", "( das ist gut . ) das Haus ."),
        ("1. Das Haus", "1. das Haus"),
        ("1 ) Das Haus", "1 ) das Haus"),
        ("... und das Haus", "... und das Haus"),
        ("... Und das Haus", "... Und das Haus"),
        ("Er sah : Das Haus", "Er sah : Das Haus"),
        # Sentences in capitals, and headlines
        ("DAS HAUS IST ALT", "DAS HAUS IST ALT"),
        ("ACHTUNG ! Das ist gut .", "ACHTUNG ! das ist gut ."),
        ("DER HUND . Der Hund .", "DER HUND . der Hund ."),
        ("Das Haus Ist Alt", "das Haus Ist Alt"),
        ("DAS STRAßENSCHILD", "DAS STRAßENSCHILD"),
        ("iPhone ist das .", "iPhone ist das ."),
        ("3 Hunde", "3 Hunde"),
    ],
)
def test_true_case_and_the_way_back(model: Path, text: str, true: str) -> None:
    assert Truecaser(model, language="de")(text) == true
    assert sentence_case(true, language="de") == text


@pytest.mark.parametrize(
    ("language", "true", "text"),
    [
        ("nl", "&apos;s ochtends regent het .", "&apos;s Ochtends regent het ."),
        ("", "&apos; s ochtends regent het .", "&apos; s Ochtends regent het ."),
        ("nl", "ijs is koud . ’t is zo .", "IJs is koud . ’t Is zo ."),
        ("tr", "istanbul güzel . ırmak da .", "İstanbul güzel . Irmak da ."),
        ("el", "τι ; ναι .", "Τι ; Ναι ."),
        ("es", "¿ qué tal ? ¡ bien !", "¿ Qué tal ? ¡ Bien !"),
        ("fr", "« viens ! » cria-t-il .", "« Viens ! » cria-t-il ."),
        ("haw", "ʻo ia .", "ʻO ia ."),
        ("ga", "bhfuil tú anseo ? nGaeilge", "Bhfuil tú anseo ? nGaeilge"),
        # Scripts without case have sentences without a capital.
        ("zh", "iphone 很 好 用 。 wifi 也 是 。", "iphone 很 好 用 。 wifi 也 是 。"),
        ("ko", "wifi 는 좋 습니다 .", "wifi 는 좋 습니다 ."),
        ("ar", "wifi جيد جدا .", "wifi جيد جدا ."),
        ("ka", "ეს კარგია .", "ეს კარგია ."),
    ],
)
def test_the_way_back_by_language(language: str, true: str, text: str) -> None:
    assert sentence_case(true, language=language) == text


def test_headlines_and_capitals_say_nothing_about_usual_forms() -> None:
    lines = ["A Man Of The World Has Died", "THE OLD MAN IS HERE", "OLD MEN", "He saw the old man ."]
    assert count_forms(lines, "en") == {"saw": 1, "the": 1, "old": 1, "man": 1}


def test_words_are_one_by_the_rules_of_the_language(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Bu Işık , o ışık , bu ışık ve İlk iş .\n", "utf-8")
    learn(tmp_path / "text", tmp_path / "tr", "tr")
    written = (tmp_path / "tr").read_text("utf-8").splitlines()
    assert "ışık (2/3) Işık (1)" in written
    assert Truecaser(tmp_path / "tr", language="tr")("IŞIK var .") == "ışık var ."
    # Without the language, I and ı are two letters.
    assert Truecaser(tmp_path / "tr")("IŞIK var .") == "IŞIK var ."


def test_folders_of_earlier_versions_keep_their_rules(model: Path) -> None:
    truecase = Truecaser(model, language=None)
    # Right today: `- das`, and the way back as it came.
    assert truecase("- Das ist gut .") == "- Das ist gut ."
    assert truecase("DAS HAUS") == "das HAUS"
    assert sentence_case("&apos; s ochtends iPhone .", language=None) == "&apos; S ochtends iPhone ."
    assert sentence_case("iPhone .", language=None) == "IPhone ."
    assert first_words(["-", "a", ".", "b"], None) == [0, 3]
