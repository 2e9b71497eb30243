"""Lower case and capitals by language; the right values are from Unicode's SpecialCasing.txt and orthographies."""

from __future__ import annotations

import pytest

from deepnmt.text.casing import Casing

LOWER = [
    # The dotted and the dotless i are two letters; any other language has Unicode's general rule.
    ("tr", "IŞIK İZMİR Iğdır", "ışık izmir ığdır"),
    ("tr-TR", "DİYARBAKIR", "diyarbakır"),
    ("tr_TR", "I\u0307zmir", "izmir"),
    ("tur_Latn", "IRAK", "ırak"),
    ("az", "QIRMIZI İL", "qırmızı il"),
    ("azj_Latn", "BAKI", "bakı"),
    ("crh", "QIRIM İLİ", "qırım ili"),
    ("gag", "GAGAUZ YERİ", "gagauz yeri"),
    ("kaa", "QARAQALPAQSTAN ILIM", "qaraqalpaqstan ılım"),
    ("zza", "ŞIMA", "şıma"),
    ("kk-Latn", "QAZAQSTAN İT IS", "qazaqstan it ıs"),
    ("kk_Cyrl", "ҚАЗАҚСТАН IT", "қазақстан it"),
    ("kk", "ІТ ISO", "іт iso"),
    ("tt-Latn", "QAZAN ISI", "qazan ısı"),
    ("tt", "КАЗАН I", "казан i"),
    ("uz", "ISHLAR", "ishlar"),
    ("ku", "ISTANBÛL", "istanbûl"),
    ("en", "I AM IN İZMİR", "i am in i\u0307zmi\u0307r"),
    ("", "ID", "id"),
    # Sigma at the end of a word.
    ("el", "ΟΔΟΣ ΣΟΦΟΣ, ΤΗΣ ΝΥΧΤΑΣ Σ", "οδος σοφος, της νυχτας σ"),
    ("el", "ΠΑΪΔΙ ΆΣ'ΤΟ", "παϊδι άσ'το"),
    ("en", "ΣΟΦΟΣ", "σοφος"),
    # The prefix of a capital is set apart from a small vowel.
    ("ga", "ár nAthair an tUasal na hÉireann i nGaeilge", "ár n-athair an t-uasal na héireann i ngaeilge"),
    ("ga", "Nach bhFuil NATO", "nach bhfuil nato"),
    ("gd", "an t-Eilean Ár nAthair", "an t-eilean ár nathair"),
    # The dot stays under an accent.
    ("lt", "Ì Í Ĩ J\u0301 Į\u0303 IŠ", "i\u0307\u0300 i\u0307\u0301 i\u0307\u0303 j\u0307\u0301 į\u0307\u0303 iš"),
    ("lv", "Í", "í"),
    ("de", "STRAẞE STRASSE ÄÖÜ", "straße strasse äöü"),
    ("nl", "IJs ’S-GRAVENHAGE", "ijs ’s-gravenhage"),
    ("hr", "DŽ ǅ ǄEP NJ Ǌ", "dž ǆ ǆep nj ǌ"),
    ("ka", "ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ", "საქართველო"),
    ("hy", "ԵՐԵՎԱՆ", "երեվան"),
    ("ru", "ЁЛКА", "ёлка"),
    ("chr", "ᏣᎳᎩ", "ꮳꮃꭹ"),
    ("zh", "ＡＢ中", "ａｂ中"),
]


@pytest.mark.parametrize(("language", "text", "expected"), LOWER)
def test_lower_case(language: str, text: str, expected: str) -> None:
    assert Casing(language).lower(text) == expected


CAPITALS = [
    ("tr", "istanbul", "İstanbul"),
    ("tr", "ırmak", "Irmak"),
    ("tr", "i\u0307ş", "İş"),
    ("az", "il", "İl"),
    ("kk-Latn", "it", "İt"),
    ("kk", "it", "It"),
    ("en", "it", "It"),
    ("de", "über", "Über"),
    ("nl", "ijs", "IJs"),
    ("nl-BE", "ijzer", "IJzer"),
    ("nld_Latn", "ijs", "IJs"),
    ("nl", "íj\u0301s", "ÍJ\u0301s"),
    ("nl", "ĳs", "Ĳs"),
    ("nl", "ik", "Ik"),
    ("nl", "&apos;ijs", "&apos;IJs"),
    ("fy", "ijstiid", "IJstiid"),
    ("de", "ijob", "Ijob"),
    ("hr", "ǆep", "ǅep"),
    ("hr", "džep", "Džep"),
    ("hr", "ǌegov", "ǋegov"),
    ("sr-Latn", "ljubav", "Ljubav"),
    ("el", "όχι", "Όχι"),
    ("el", "ᾳδω", "ᾼδω"),
    ("ka", "საქართველო", "საქართველო"),
    ("hy", "երևան", "Երևան"),
    ("lt", "i\u0307\u0301", "I\u0301"),
    ("ga", "n-athair", "nAthair"),
    ("ga", "bhfuil", "Bhfuil"),
    ("ga", "d&apos;fhág", "D&apos;fhág"),
    ("fr", "l&apos;", "L&apos;"),
    ("fr", "été", "Été"),
    ("ca", "l'home", "L'home"),
    ("it", "'ndrangheta", "'Ndrangheta"),
    ("en", "&apos;tis", "&apos;Tis"),
    ("en", "’twas", "’Twas"),
    ("en", "“who", "“Who"),
    ("es", "¿qué", "¿Qué"),
    ("haw", "ʻo", "ʻO"),
    ("haw", "‘okina", "‘Okina"),
    ("ar-Latn", "ʿarab", "ʿArab"),
    # Words with a form of their own, numbers and addresses.
    ("en", "iPhone", "iPhone"),
    ("ga", "nGaeilge", "nGaeilge"),
    ("ga", "hÉireann", "hÉireann"),
    ("de", "pH-Wert", "pH-Wert"),
    ("de", "e.V.", "E.V."),
    ("de", "z.B.", "Z.B."),
    ("de", "3d", "3d"),
    ("en", "90s", "90s"),
    ("en", "www.a.org", "www.a.org"),
    ("en", "https://a.org", "https://a.org"),
    ("en", "me@a.org", "me@a.org"),
    ("en", "", ""),
    ("en", "&quot;", "&quot;"),
    ("zh", "我们", "我们"),
]


@pytest.mark.parametrize(("language", "word", "expected"), CAPITALS)
def test_capitals(language: str, word: str, expected: str) -> None:
    assert Casing(language).capitalised(word) == expected


@pytest.mark.parametrize("language", ["tr", "az", "nl", "el", "ga", "lt", "de", "ka", "hr", ""])
def test_a_capital_and_back_is_the_word(language: str) -> None:
    casing = Casing(language)
    for word in ("istanbul", "ırmak", "ijs", "όχι", "n-athair", "i\u0307\u0301š", "äh", "საქართველო", "ǆep"):
        if language == "lt" or "\u0307" not in word:
            back = casing.lower(casing.capitalised(word))
            # I is the capital of ı in some languages alone.
            assert back == word or (word == "ırmak" and language not in ("tr", "az")), word
