"""Models that are not autoregressive meet the right task, loss and options, or one line says which is wrong."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models.nat import FairseqNATModel
from fairseq.tasks.translation import TranslationTask
from fairseq.tasks.translation_lev import TranslationLevenshteinTask
from support.models import dictionary

import deepnmt  # noqa: F401  puts the checks in place
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks.not_autoregressive import OF_BEAM_SEARCH, beam_search_faults, training_faults
from deepnmt.recipe.combinations import rule_faults


def made(kind: Any, name: str) -> Any:
    task = kind.__new__(kind)
    task.cfg, task.src_dict, task.tgt_dict = Namespace(_name=name), dictionary(), dictionary()
    return task


def test_each_task_has_its_models() -> None:
    not_autoregressive = FairseqNATModel.__new__(FairseqNATModel)
    message = "^--task must be translation_lev with a model that is not autoregressive, but is deep_translation$"
    with pytest.raises(UserError, match=message):
        made(TranslationTask, "deep_translation").build_generator([not_autoregressive], Namespace())
    lev = made(TranslationLevenshteinTask, "translation_lev")
    with pytest.raises(UserError, match=r"^--task must be translation or .* autoregressive model, but is translation_"):
        lev.build_generator([object()], Namespace())
    assert lev.build_generator([not_autoregressive], Namespace(iter_decode_max_iter=3)).max_iter == 3


@pytest.mark.parametrize(
    ("arch", "criterion", "task", "faults"),
    [
        ("cmlm_transformer", "nat_loss", "translation_lev", []),
        ("dlcl_transformer", "cross_entropy", "translation", []),
        ("levenshtein_transformer", "cross_entropy", "translation_lev", ["--criterion must be nat_loss"]),
        ("nonautoregressive_transformer", "nat_loss", "translation", ["--task must be translation_lev"]),
        ("cmlm_transformer_wmt_en_de", "x", "y", ["--criterion must be nat_loss", "--task must be translation_lev"]),
        ("transformer", "nat_loss", "translation", ["--arch must be a non-autoregressive model with --criterion nat_"]),
        (None, "nat_loss", "translation", []),
    ],
)
def test_trainings(arch: str | None, criterion: str, task: str, faults: list[str]) -> None:
    found = list(training_faults(arch, criterion, task))
    assert len(found) == len(faults)
    for one, start in zip(found, faults):
        assert one.startswith(start)
        given = {"--arch": arch, "--criterion": criterion, "--task": task}
        assert one.endswith(f"but is {given[start.split()[0]]}")


def test_options_of_beam_search() -> None:
    given = GenerationConfig()
    for beam in (1, 5):
        given.beam = beam
        assert not list(beam_search_faults(vars(given)))
    given.beam, given.lenpen, given.sampling = 4, 0.6, True
    assert list(beam_search_faults(vars(given))) == [
        f"--{name} cannot be combined with --task translation_lev, which has no beam search"
        for name in ("beam", "lenpen", "sampling")
    ]
    assert set(OF_BEAM_SEARCH) < set(vars(given))


def test_validation_does_not_translate() -> None:
    wanted = ("eval-bleu", "must not be set with task translation_lev, whose validation does not translate")
    assert wanted in list(rule_faults({"task": "translation_lev", "eval_bleu": True}, {}))
    assert wanted not in list(rule_faults({"task": "translation", "eval_bleu": True}, {}))
