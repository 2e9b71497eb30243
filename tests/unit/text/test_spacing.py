"""Text comes back from its tokens: members of each kind, right tokens, real text of many languages, and any text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnmt.text.lines import clean
from deepnmt.text.pipeline import Detokenizer, Tokenizer
from deepnmt.text.settings import TextSettings

SAMPLE = Path(__file__).with_name("languages.tsv")
# Each is a language and a line of it.
KINDS = {
    "combining marks": """yo Ọjọ́ ti pẹ́. | th ไปที่นั่น | lo ຂ້ອຍ | km ផ្សារ | my ကျွန်တော် | hi हिन्दी में लिखो। | ta தமிழ் மொழி.
        | vi Tiếng Việt. | bn বাংলা ভাষা। | ml മലയാളം | si සිංහල | ne नेपाली, र | bo བོད་སྐད། | he שָׁלוֹם עוֹלָם. | ar مُحَمَّدٌ رَسُولٌ.""",
    "joiners": """fa می‌روم، خانه‌ها. | hi क्‍ष | si ශ්‍රී ලංකා | ku نا‌کەم | bn র‍্যাব | en A 👩‍💻 and 👨‍👩‍👧‍👦, ok. | ml ന്‍ | mr र्‍या
        | ur کتاب‌خانہ | de Schiff­fahrt""",
    "variation selectors": """en I ❤️ it. | en ☎️ 12 | en 1️⃣ first | ja 葛󠄀城 | mn ᠮᠣᠩᠭᠣᠯ᠎ᠠ | en 🏴󠁧󠁢󠁥󠁮󠁧󠁿! | de ✔︎ ja | zh 邉󠄂 | en 👍🏽👍🏿 | en 🇩🇪🇫🇷""",
    "middle dots": """ca col·laboració, paral·lel | oc s·ha | zh 卡尔·马克思说 | ja カール・マルクス | gn ko·ape | el Ναι· όχι. | grc λέγει· ἐγώ
        | lij fà·le | en inter·punct | wa pout·ete""",
    "currency": """de Das kostet 5 € mehr. | de für 5 € (netto) | fr Il paie 5 € par mois. | en It is $5.50 (US$4). | en £5bn or €6, ¥7
        | ja 500円、¥600。| pl 5 zł i 6 € | nb kr 5 eller 5 $ da | hi ₹500 में | he 5 ₪ או ₪5 | tr 5₺ ve 5 ₺ daha | es 5€/mes | de 5 €/Monat""",
    "apostrophes": """nl foto's van auto's | uk П'ять м'ячів | tr Ankara'da | it un po' di vino | ca L'home d'ahir | ga D'fhág sé.
        | en don't, the dogs' house, O'Neill's 'n' ’tis rock’n’roll | fr L’été d’aujourd'hui | br c'hoar | el απ' όλα | cy i'r ma' | sw ng'ombe
        | uz o‘zbek va a’lo | mt ta' Malta | haw Hawaiʻi | sq s'ka | en James’ | de Geht's, Jens' Auto | gd a' bhùth | eo l' amo""",
    "colons": """sv EU:s 5:a plats | fi EU:n 10:ssä | de 12:30 Uhr: ja | en Genesis 1:3, std::map | fr 12:30 : oui | fi USA:han, TV:stä
        | sv kl. 7:30 S:t | se NSR:s 3:s | de Schüler:innen | hy ե՞րբ։ Հիմա։ | yi ס׳איז: יאָ""",
    "decades": """en the '90s, the 1990's and the ’80s. | en '90s | nl '90-er jaren, in '45 | de die 90er, '68 war | it gli anni '90 e '80
        | pt os anos '90. | es los '60, '70 y '80 | fr en '68, | ca els anys '80 | en the 80’s""",
    "feet and inches": """en He is 5'10" tall. | en a 6" pipe, 3' long | en 6′2″ or 6’2” | de 19"-Monitor | en 5' 10" and "so" | fr 15" d'écran
        | en (6") | it 5'10"; | es 27" o 32" | en 40°26′46″N""",
    "French": """fr « Oui », dit-il : pourquoi ? | fr Non ! Vraiment ; 5 % ou 5%. | fr Prix: 5€ | fr «Non» | fr 10:30 ! | fr « Ah ! » ?
        | fr-CA « Oui »: non? | fr “Oui” ou "non" | fr ‹ a › | fr L'« art » d'ici""",
    "quotation marks": """de „Ja“, sagte er, ‚nein‘. | de »Ja« und ›nein‹ | sv ”Hej”, sa ’hon’. | fi »Hei» ja ”moi” | pl „Tak” i «nie» | ru «Да», „нет“.
        | ja 「はい」と『いいえ』。 | zh “是”，‘否’。《书》 | en "yes" and 'no' “yes” ‘no’ | he אמר: "כן" ו„לא” | hu „Igen”, »nem« | en He said:"no" ("x") ""
        | ro „da” «nu» | el «ναι» “όχι” | es «sí», “no” y 'tal' | ko “네” ‘아니’ 「그」""",
    "unspaced": """zh 我们说：“你好”，使用Linux系统……（好）！ | zh 你好 世界，3.5 个。 | ja 彼は「はい」と言った。3人、Aさん！ | ja ＡＢＣ（全角）：１２３％
        | zh 他说:"好"(真的), 行. | yue 佢話：「係」！ | ja それは——何？！ | zh 中国——北京 | th ราคา 5 บาท (ถูก) ๆ | ko 한국어(韓國語)는 “말”이다.
        | zh ﹙小﹚，﹪ | zh-TW 臺灣、香港；澳門。 | my ဟုတ်ကဲ့၊ မဟုတ်ဘူး။ | bo བཀྲ་ཤིས། བདེ་ལེགས།""",
    "dashes and others": """es —Hola —dijo—. ¿Qué? ¡Ah! | en one—two, 1990–1995 – so -- no | ru – Да, – сказал он. – Нет… | en and/or, AT&T, a@b.org
        | en C++, C#, #tag @user ~/x *b* _c_ [d] {e} <f> | en Wait... what?! No… (yes) | en ‿ ␣ a‿b &amp; &#8255; | de http://a.org/x_(y)?z=1, ja
        | en 50% 5 % 3×4=12 | ar هل؟ نعم، لا؛ «كذا». | am ሰላም፡ለዓለም። ነው፣ | hy «Այո», ասաց։ | en a,b ,c 1,000 ,5""",
}  # fmt: skip


def members() -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the language and the text of each member."""
    for kind, entries in KINDS.items():
        for entry in entries.split("|"):
            language, _, text = entry.strip().partition(" ")
            yield kind, language, text


def back(language: str, text: str, **chosen: bool | str) -> str:
    made = TextSettings("xx", language, **chosen)  # type: ignore[arg-type]
    return Detokenizer.of(made)(Tokenizer(made, language)(text))


def test_members_of_each_kind_come_back() -> None:
    found = list(members())
    assert min(sum(kind == each for each, _, _ in found) for kind in KINDS) >= 10
    faults = [(kind, language, text) for kind, language, text in found if back(language, clean(text)) != clean(text)]
    assert faults == []
    kept = [member for member in found if back(*member[1:], keep_punctuation=True) != clean(member[2])]
    assert kept == []


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
    ],
)
def test_tokens(language: str, text: str, tokens: str) -> None:
    made = TextSettings("xx", language)
    assert Tokenizer(made, language)(text) == tokens
    assert Detokenizer.of(made)(tokens) == text


def test_a_model_may_write_marks_anywhere() -> None:
    detokenize = Detokenizer("en")
    assert detokenize("‿ a ‿ ␣ b ␣ ‿ c ‿ , ␣ d ␣") == "a bc, d"
    assert detokenize("‿") == detokenize("") == ""


def test_real_text_comes_back() -> None:
    lines = [line.rstrip("\n").split("\t") for line in SAMPLE.open(encoding="utf-8") if not line.startswith("#")]
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
