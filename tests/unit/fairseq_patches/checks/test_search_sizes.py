"""Sizes that hang a search or fill the memory are one line, with fairseq's own tasks too."""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

import pytest
from fairseq.modules import FairseqDropout
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from support.data_folders import data_folder
from support.models import build

from deepnmt.errors import UserError


@pytest.fixture(scope="module")
def translation(tmp_path_factory: pytest.TempPathFactory) -> TranslationTask:
    data = data_folder(tmp_path_factory.mktemp("data") / "de-en")
    rest = {"train_subset": "train", "dataset_impl": None, "required_seq_len_multiple": 1}
    task = TranslationTask.setup_task(TranslationConfig(data=str(data), **rest))
    task.load_dataset("test")
    return task


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 1000}, r"^--beam must be from 1 to 256, but is 1000$"),
        ({"beam": "x", "nbest": 1.5}, r"^--beam must be a whole number, but is 'x'\n--nbest must be .* but is 1\.5$"),
        ({"lenpen": "x"}, r"^--lenpen must be a number, but is 'x'$"),
        ({"sampling": 1, "min_len": True}, r"^--min-len must be a whole number, but is True\n--sampling .*, but is 1$"),
        ({"beam": 0}, r"^--beam must be from 1 to 256, but is 0$"),
        ({"beam": 4, "nbest": 5}, r"^--nbest must be from 1 to --beam 4, but is 5$"),
        ({"nbest": 0}, r"^--nbest must be from 1 to 256, but is 0$"),
        ({"temperature": 0.0}, r"^--temperature must be a finite number above 0, but is 0.0$"),
        ({"lenpen": math.nan}, r"^--lenpen must be from -100 to 100, but is nan$"),
        ({"lenpen": 101.0}, r"^--lenpen must be from -100 to 100, but is 101.0$"),
        ({"unkpen": math.inf}, r"^--unkpen must be a finite number, but is inf$"),
        ({"max_len_a": math.nan}, r"^--max-len-a must be a finite number of at least 0, but is nan$"),
        (
            {"diverse_beam_strength": math.nan, "diverse_beam_groups": 5},
            r"^--diverse-beam-strength must be a finite number, but is nan$",
        ),
        ({"diverse_beam_groups": 3}, r"^--diverse-beam-groups must divide --beam 5, but is 3$"),
        ({"sampling_topp": 0.0}, r"^--sampling-topp must be above 0 and at most 1, or -1 for all types, but is 0.0$"),
        ({"sampling_topk": -3}, r"^--sampling-topk must be at least 1, or -1 for all types, but is -3$"),
        ({"diverse_beam_strength": 2.0}, r"^--diverse-beam-strength needs --diverse-beam-groups$"),
        ({"lm_weight": 0.3}, r"^--lm-weight needs --lm-path$"),
        ({"retain_dropout_modules": "X"}, r"^--retain-dropout-modules needs --retain-dropout$"),
        (
            {"sampling": True, "sampling_topk": 3, "sampling_topp": 0.5},
            r"^--sampling-topk cannot be combined with --sampling-topp$",
        ),
        (
            {"constraints": "ordered", "no_repeat_ngram_size": 2},
            r"^--constraints cannot be combined with --no-repeat-ngram-size$",
        ),
        (
            {"print_alignment": "soft", "replace_unk": "", "match_source_len": True},
            r"^--match-source-len cannot be combined with --print-alignment\n"
            r"--match-source-len cannot be combined with --replace-unk\n"
            r"--replace-unk cannot be combined with --print-alignment soft$",
        ),
        (
            {"sampling": True, "sampling_topk": 13},
            r"^--sampling-topk must be at most the 12 types of the dictionary, but is 13$",
        ),
    ],
    ids=str,
)
def test_searches_that_are_too_large(options: dict[str, Any], message: str, translation: TranslationTask) -> None:
    with pytest.raises(UserError, match=message):
        translation.build_generator([], Namespace(**options))


def test_a_language_model_is_one(translation: TranslationTask) -> None:
    with pytest.raises(UserError, match=r"^--lm-path must be a language model, but is a DLCLTransformerModel$"):
        translation.build_generator(
            [build()], Namespace(), extra_gen_cls_kwargs={"lm_model": build(), "lm_weight": 1.0}
        )


def test_the_largest_beam(translation: TranslationTask) -> None:
    generator = translation.build_generator([build()], Namespace(beam=256, nbest=256))
    assert generator.beam_size <= 256


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_sentences": 0}, "--batch-size must be at least 1 and at most 2147483647, but is 0"),
        ({"max_tokens": 0}, "--max-tokens must be at least 1 and at most 2147483647, but is 0"),
        ({"max_sentences": 2, "num_workers": 10**20}, f"--num-workers must be from 0 to 1024, but is {10**20}"),
        (
            {"max_tokens": 9, "required_batch_size_multiple": 0},  # ends the process in fairseq
            "--required-batch-size-multiple must be at least 1 and at most 2147483647, but is 0",
        ),
        (
            {"max_tokens": 9, "max_positions": (1024, 3)},
            "--max-source-positions and --max-target-positions must be at least the tokens of a sentence, but are 1024 "
            "and 3. 2 of the 3 sentences have more, the first of them sentence 1; --skip-.* leaves them out",
        ),
        ({"max_tokens": 5}, "--max-tokens must be at least the tokens of the longest sentence, but is 5"),
    ],
    ids=str,
)
def test_batches(options: dict[str, Any], message: str, translation: TranslationTask) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        translation.get_batch_iterator(translation.dataset("test"), disable_iterator_cache=True, **options)
    assert translation.get_batch_iterator(translation.dataset("test"), max_tokens=6)
    skipping = {"max_positions": (1024, 3), "ignore_invalid_inputs": True, "disable_iterator_cache": True}
    kept = translation.get_batch_iterator(translation.dataset("test"), max_tokens=6, **skipping)
    assert [list(batch) for batch in kept.frozen_batches] == [[1]]


def test_dropout_is_kept_in_whole_kinds_of_modules(translation: TranslationTask) -> None:
    wanted = {"retain_dropout": True, "retain_dropout_modules": "MultiheadAttention,TransformerEncoderLayerX"}
    with pytest.raises(
        UserError, match=r"^--retain-dropout-modules must be among .*, but is TransformerEncoderLayerX$"
    ):
        translation.build_generator([build()], Namespace(**wanted))
    kept = FairseqDropout(0.1, module_name="TransformerEncoderLayer")
    part = FairseqDropout(0.1, module_name="TransformerEncoder")
    for module in (kept, part):
        module.make_generation_fast_("", retain_dropout=True, retain_dropout_modules="TransformerEncoderLayer")
    assert (kept.apply_during_inference, part.apply_during_inference) == (True, False)


def test_references_that_do_not_exist(translation: TranslationTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation.datasets["test"], "tgt", None)
    with pytest.raises(UserError, match=r"^--prefix-size needs reference translations, which test does not have$"):
        translation.build_generator([], Namespace(prefix_size=2))
