"""`--eval-bleu` compares the words of the target language, without bytes; for others it is fairseq's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fairseq.data import Dictionary

from deepnmt.fairseq_patches.fixes.bleu import compare_words
from deepnmt.fairseq_patches.patch import declared
from deepnmt.text.subwords import byte_symbols


def batch(language: str, types: str, translation: str, reference: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    dictionary = Dictionary()
    for name in types.split():
        dictionary.add_symbol(name)
    tokens, target = (dictionary.encode_line(line, add_if_not_exist=False).long() for line in (translation, reference))
    given = {"eval_bleu_remove_bpe": None, "eval_tokenized_bleu": False, "eval_bleu_print_samples": False, **options}
    task = SimpleNamespace(
        cfg=SimpleNamespace(target_lang=language, **given),
        tgt_dict=dictionary,
        tokenizer=None,
        inference_step=lambda *_, **__: [[{"tokens": tokens}]],
    )
    return task, {"target": target[None]}


def stock(*_: Any) -> str:
    return "stock"


def test_characters_are_compared_and_unknown_ones_do_not_match() -> None:
    task, sample = batch("zh-CN", "今天@@ 老师 &quot;", "今天@@ 老师 &quot; 书", "今天@@ 老师 &quot; 信")
    found = compare_words(stock, task, None, sample, None)
    # Four characters and a quotation mark match; the unknown ones count as one character each.
    assert (found.counts, found.totals) == ([5, 4, 3, 2], [6, 5, 4, 3])
    task, sample = batch("th_TH", "ไทย", "ไทย ก", "ไทย ข")
    found = compare_words(stock, task, None, sample, None)
    assert (found.counts, found.totals) == ([3, 2, 1, 0], [4, 3, 2, 1])


def test_bytes_are_characters_again() -> None:
    types = " ".join(byte_symbols()) + " B@@ cker das ist"
    line = "das ist B@@ <0xC3>@@ <0xA4>@@ cker"
    task, sample = batch("de", types, line, line, eval_bleu_remove_bpe="subword_nmt", eval_tokenized_bleu=True)
    assert compare_words(stock, task, None, sample, None).totals == [3, 2, 1, 0]


def test_marks_of_spaces_are_no_words() -> None:
    task, sample = batch("it", "un po ‿ &apos; di", "un po ‿ &apos; di", "un po &apos; di", eval_tokenized_bleu=True)
    assert compare_words(stock, task, None, sample, None).totals == [4, 3, 2, 1]


def test_other_languages_are_left_to_fairseq() -> None:
    task, sample = batch("de", "a b", "a b", "a b")
    assert compare_words(stock, task, None, sample, None) == "stock"


def test_validations_ask_for_it() -> None:
    patched = [patch.target for patch in declared() if patch.function is compare_words]
    assert patched == ["fairseq.tasks.translation.TranslationTask._inference_with_bleu"]
