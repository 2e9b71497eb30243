"""The measures of pairs: constructed pairs whose values are plain to see."""

from __future__ import annotations

import math
import unicodedata

import numpy as np
import pytest

from deepnmt.corpus.cleaning.filters import KINDS, measures
from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.corpus.cleaning.pair_measures import NOTHING, Fitted, Spread, columns_of, measured
from deepnmt.corpus.cleaning.writing_systems import LANGUAGES, knows, letters_of

PAIRS = [
    ("a", "length", "eins zwei drei", "one", [3, 1]),
    ("b", "length", "我喜歡 NMT 。", " two  words ", [5, 2]),
    ("c", "ratio", "eins zwei", "one two three", [1.5]),
    ("d", "ratio", "", "one", [math.inf]),
    ("e", "ratio", "", "", [0]),
    ("f", "max-word", "a bbbb cc", "", [4, 0]),
    ("g", "script", "abcä", "abc где 12", [1, 0.5]),
    ("h", "script", "12 !", "где", [1, 0]),
    ("i", "letters", "ab 12!", "...", [0.4, 0]),
    ("j", "letters", "", "ab cd", [1, 1]),
    ("k", "numbers", "am 3. Mai 1.000,50 Euro", "on May 3, 1,000.50 euros", [0]),
    ("l", "numbers", "12 Hunde", "twelve dogs", [0]),
    ("m", "numbers", "13 Hunde", "thirteen dogs", [1]),
    ("n", "numbers", "5 oder 7", "5 or 8", [1]),
    ("o", "numbers", "007", "7", [0]),
    ("p", "numbers", "٣ und 4", "3 and 4", [0]),
    ("q", "numbers", "20 und 20", "20", [1]),
    ("y", "numbers", "20 Euro", "30 euros and 40 cents", [2]),
    ("z", "numbers", "30 Euro und 40 Cent", "20 euros", [2]),
    ("w", "endings", "Das Haus.", "the house", [1]),
    ("x", "endings", "Das Haus.", "the house!", [0]),
    ("r", "no-copies", "Der New York Times", "the NEW york times", [0.75]),
    ("s", "no-copies", "", "", [0]),
    ("t", "repeats", "so so so gut", "a b a b c", [2, 2]),
    ("u", "repeats", "a b a c", "Ja ja nein", [0, 1]),
    ("aa", "numbers", "Mai 5 2019", "May 5, 2019", [0]),
    ("ab", "numbers", "5\u00a02019 und 7\u202f12", "5 and 2019, 7, and 12 more", [0]),
    ("ac", "numbers", "1 000 000 und 12\u202f345,50", "1,000,000 and 12,345.50", [0]),
    ("ad", "numbers", "10 0000 oder 2019 000", "10 or 0000, 2019 or 000", [0]),
    ("ae", "numbers", "1\u00a0000", "1000", [0]),
    ("af", "letters", "e\u0301te\u0301 12", "", [5 / 7, 1]),
    ("ag", "script", "e\u0301te\u0301", "e\u0301 где", [1, 2 / 5]),
    ("ah", "endings", "cafe\u0301", "house", [0]),
    ("ai", "endings", "❤\ufe0f", "house", [1]),
    ("aj", "endings", "  ", "house", [0]),
    ("v", "repeats", "x a b c a b c", "a b c d a b c d", [3, 0]),
]


@pytest.mark.parametrize(("name", "source", "target", "expected"), [pair[1:] for pair in PAIRS])
def test_values(name: str, source: str, target: str, expected: list[float]) -> None:
    languages = ("zh-TW", "en") if "我" in source else ("de", "en")
    values = measured(name, Pairs([source], [target], languages), NOTHING)
    np.testing.assert_allclose(values, [expected])


@pytest.mark.parametrize(
    ("name", "language", "line", "expected"),
    [
        # Vowel signs and viramas are written with letters.
        ("letters", "hi", "हिन्दी", 1),
        ("letters", "hi", "कि ।", 2 / 3),
        ("script", "hi", "हिन्दी", 1),
        ("script", "hi", "हि ab", 0.5),
        ("letters", "my", "ကျွန်", 1),
        ("script", "my", "ကျွန်", 1),
        ("script", "ta", "தமிழ்", 1),
        ("letters", "th", "ที่นี่", 1),
        ("endings", "hi", "दी", 1),
        ("length", "th", "ไทย 10,000 ok", 5),
        ("length", "zh", "我有10，000，000元......", 5),
        ("length", "zh-TW", "café是ABC１２", 3),
        ("repeats", "zh", "我喜歡...真的……", 0),
        ("repeats", "ja", "これは・・・10,000,000円！！！", 0),
        ("repeats", "zh", "１０，０００，０００", 0),
        ("repeats", "zh", "我我我们", 2),
    ],
)
def test_values_of_other_scripts(name: str, language: str, line: str, expected: float) -> None:
    pairs = Pairs([line], ["It ends."], (language, "en"))
    assert measured(name, pairs, NOTHING)[0, 0] == pytest.approx(expected)


def test_words_without_punctuation() -> None:
    sides = Pairs(["हिन्दी, में ३!"], ["ที่ Über 10,5 e\u0301"], ("hi", "th")).sides
    assert [side.types for side in sides] == [[["हिन्दी", "में", "३"]], [["ท", "ี", "่", "über", "10", "5", "e\u0301"]]]


def test_distance_from_the_middle_ratio() -> None:
    # 100 pairs whose log ratios are log 2 + 0.1 times the quantiles of a normal distribution, but for 5 faulty ones.
    spread = Spread(math.log(2), 0.1)
    pairs = Pairs(["a"] * 3, ["a a", "a a a a", ""], ("de", "en"))
    np.testing.assert_allclose(spread.distances(pairs), [0, math.log(2) / 0.1, math.inf])


def test_the_spread_is_that_of_good_pairs_even_with_a_tenth_of_faulty_ones() -> None:
    random = np.random.default_rng(1)
    sources = np.full(20_000, 200)
    targets = np.exp(np.log(300) + 0.1 * random.standard_normal(20_000)).round().astype(int)
    targets[::10] = 2
    pairs = Pairs(["a " * int(n) for n in sources], ["b " * int(n) for n in targets], ("de", "en"))
    spread = Spread.of(pairs)
    assert spread.middle == pytest.approx(math.log(1.5), abs=0.02)
    assert spread.sigma == pytest.approx(0.1, rel=0.25)
    assert np.log(targets / 200).std() > 1


def test_pairs_of_one_ratio_have_a_spread_of_half_a_word() -> None:
    # Nine of ten pairs have five words a side, the others six in the target.
    pairs = Pairs(["a b c d e"] * 10, ["a b c d e"] * 9 + ["a b c d e f"], ("de", "en"))
    spread = Spread.of(pairs)
    assert (spread.middle, spread.sigma) == (0, pytest.approx(math.log(1.1)))
    np.testing.assert_allclose(spread.distances(pairs)[-1], math.log(1.2) / math.log(1.1))
    # What is far off is found, too, as it is by a corpus of one pair; of none there is no spread to know.
    odd = Pairs(["a b c d e"], ["a " * 15], ("de", "en"))
    assert np.asarray(spread.distances(odd))[0] > 10
    assert Spread.of(Pairs(["a"], ["b"], ("de", "en"))) == Spread(0.0, pytest.approx(math.log(1.5)))
    assert Spread.of(Pairs([], [], ("de", "en"))) == Spread.of(Pairs([""], ["b"], ("de", "en"))) == Spread()


def test_each_measure_has_its_columns() -> None:
    pairs = Pairs(["ein Haus", "zwei Häuser"], ["a house", "two houses"], ("de", "en"))
    fitted = Fitted.of(pairs)
    for name in measures():
        if KINDS[name].needs:
            continue
        values = measured(name, pairs, fitted)
        assert values.shape == (2, len(columns_of(name, ("de", "en"))))
        assert np.isfinite(values).all()


def test_letters_by_their_unicode_names() -> None:
    own = {name: letters_of(name) for name in ("de", "ru", "el", "zh", "ja", "ko")}
    for sign, language in [
        ("ß", "de"),
        ("ё", "ru"),
        ("ώ", "el"),
        ("體", "zh"),
        ("か", "ja"),
        ("体", "ja"),
        ("한", "ko"),
    ]:
        found = {name for name, pattern in own.items() if pattern[ord(sign)]}
        assert language in found
        assert found <= {language, "zh", "ja"}, unicodedata.name(sign)
    assert len(LANGUAGES) > 100
    # All languages of LibreOffice's help in Debian (examples/libreoffice).
    help_ = "ca cs da de dz el es et eu fi fr gl hi hu id it ja km ko nl om pl pt pt-br ru sk sl sv tr vi zh-cn zh-tw"
    assert all(map(knows, help_.split()))
