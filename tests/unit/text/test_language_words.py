"""One meaning of a word: which languages have spaces between words, and what is counted and compared in the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deepnmt.text.languages import bleu_tokenizer, is_chinese, is_unspaced
from deepnmt.text.token_bleu import TokenBleu
from deepnmt.text.words import counted_words

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("languages", "tokenizer"),
    [
        ("zh zho chi cmn yue wuu lzh zh-cn zh_TW ZH zh-Hant-HK zho_Hans nan_Hant", "zh"),
        ("ja jpn ja_JP ja-Jpan-JP th th_TH tha lo km khm_Khmr my my_MM shn bo bod dz pi-Thai", "char"),
        ("de en ko ko_KR vi hi zh-Latn zh_Latn_pinyin ja_Latn sr_Latn ta nan xx", "13a"),
    ],
)
def test_languages_by_their_codes(languages: str, tokenizer: str) -> None:
    for language in languages.split():
        assert bleu_tokenizer(language) == tokenizer, language
        assert is_unspaced(language) == (tokenizer != "13a"), language
        assert is_chinese(language) == (tokenizer == "zh"), language


@pytest.mark.parametrize(
    ("line", "language", "words"),
    [
        ("今天老师看见。", "zh-CN", list("今天老师看见。")),
        ("これはペン", "ja", list("これはペン")),
        ("ไทย 10,000 ok", "th", ["ไ", "ท", "ย", "10,000", "ok"]),
        ("བོད་ཡིག།", "bo", ["བ", "ོ", "ད", "་", "ཡ", "ི", "ག", "།"]),
        ("한국어 말.", "ko", ["한국어", "말."]),
        ("das  Haus.", "de", ["das", "Haus."]),
    ],
)
def test_counted_words(line: str, language: str, words: list[str]) -> None:
    assert counted_words(line, language) == words


def test_escapes_of_tokens_are_single_signs() -> None:
    assert counted_words("我 &quot; A &#91;", "zh", tokens=True) == ["我", '"', "A", "["]
    assert counted_words("我 &quot;", "zh") == ["我", "&", "quot", ";"]
    assert counted_words("a &quot;", "en", tokens=True) == ["a", "&quot;"]
    assert counted_words("我<unk>的 <num><num>", "zh", tokens=True) == ["我", "\ue010", "的", "\ue011", "\ue011"]


def test_marks_of_spaces_are_no_words() -> None:
    assert counted_words("un po ‿ &apos; di ␣ vino", "it", tokens=True) == ["un", "po", "&apos;", "di", "vino"]
    assert counted_words("中 ‿ 文 ␣ A", "zh", tokens=True) == ["中", "文", "A"]
    # In raw text they are signs.
    assert counted_words("a ‿ b", "en") == ["a", "‿", "b"]
    assert TokenBleu("it").words("po ‿ &apos; di") == ["po", "&apos;", "di"]
    assert TokenBleu("it").corpus_score(["po ‿ &apos; di ␣ vino"], [["po &apos; di vino"]]).score == pytest.approx(100)


def test_bleu_of_tokens_compares_the_words_of_the_language() -> None:
    # Of eight characters, seven match; 2-grams 6 of 7, 3-grams 5 of 6, 4-grams 4 of 5.
    found = TokenBleu("zh").corpus_score(["今天老师看见书。"], [["今天老师看见信。"]])
    assert (found.counts, found.totals) == ([7, 5, 4, 3], [8, 7, 6, 5])
    assert TokenBleu("zh").words("今天 &quot; abc <num> 。") == ["今", "天", '"', "abc", "\ue011", "。"]
    assert TokenBleu("ja").words("ペンab") == list("ペンab")
    assert TokenBleu("de").words("das &quot; Haus.") == ["das", "&quot;", "Haus."]


def test_no_words_are_counted_at_white_space_alone() -> None:
    """Whoever counts words asks `counted_words`; these count something else, or make tokens."""
    others = {
        "deepnmt/reranking/combined_lists.py": "subwords, for positions",
        "deepnmt/reranking/reranked_lists.py": "subwords",
    }
    counted = re.compile(r"len\((?:[^()]|\([^()]*\))*\.split\(\)\)")
    for folder in ("deepnmt", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if name not in others and name != "deepnmt/text/terms.py":
                assert not counted.search(path.read_text("utf-8")), name
