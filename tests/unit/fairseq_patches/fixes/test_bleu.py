"""The line `BLEU4 = ...` of fairseq-generate counts the words of the target language."""

from __future__ import annotations

import re
from argparse import Namespace

from fairseq import scoring
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

import deepnmt
from deepnmt.fairseq_patches.fixes.bleu import WordBleu
from deepnmt.text.subwords import byte_symbols

deepnmt.register()


def scorer(language: str, types: str = "") -> object:
    """Return what fairseq-generate scores with."""
    words = Dictionary()
    for name in types.split():
        words.add_symbol(name)
    TranslationTask(TranslationConfig(source_lang="en", target_lang=language), Dictionary(), words)
    return scoring.build_scorer("bleu", words)


def test_characters_are_compared_where_no_spaces_stand_between_words() -> None:
    made = scorer("zh-CN")
    assert isinstance(made, WordBleu)
    made.add_string("今天@@ 老师 看书 。", "今天 老师@@ 看书 。")
    made.add_string("他@@ <<unk>>", "他@@ <unk>")
    # Eight of nine characters; the unknown ones do not match: 6 of 7 pairs, 5 of 5 of three and 4 of 4 of four.
    expected = "BLEU4 = 93.43, 88.9/85.7/100.0/100.0 (BP=1.000, ratio=1.000, syslen=9, reflen=9)"
    assert made.result_string() == expected
    assert round(made.score(), 2) == 93.43


def test_bytes_are_characters_again() -> None:
    made = scorer("ja", " ".join(byte_symbols()))
    assert isinstance(made, WordBleu)
    made.add_string("これはペン", "これ@@ は@@ <0xE3>@@ <0x83>@@ <0x9A>@@ ン")
    assert re.match(r"BLEU4 = 100\.00, .* syslen=5, reflen=5\)", made.result_string())


def test_other_languages_have_the_scorer_of_fairseq() -> None:
    for language in ("de", "ko"):
        assert type(scorer(language)).__module__ == "fairseq.scoring.bleu"


def test_a_task_of_several_languages_has_none() -> None:
    """The configuration of fairseq's online back-translation, for example, names no target language."""
    dictionary = Dictionary()
    TranslationTask(Namespace(), Dictionary(), dictionary)
    assert type(scoring.build_scorer("bleu", dictionary)).__name__ == "Scorer"
