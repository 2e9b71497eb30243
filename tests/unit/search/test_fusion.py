"""Fusion with a language model: fairseq's own results, and what is refused. All strings: test_exhaustive_search.py."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from support.language_models import language_model, save_language_model
from support.models import batch, build, dictionary

import deepnmt
from deepnmt.errors import UserError
from deepnmt.search.generator import BeamGenerator
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

deepnmt.register()
TYPES = dictionary()
INPUTS = batch([[5, 6, 7, 8, 9], [10, 11], [12, 13, 14, 15, 5, 6, 7], [9]], [[5]] * 4)
del INPUTS["prev_output_tokens"]
Found = list[list[dict[str, torch.Tensor]]]


def generator(options: dict[str, Any], lm: Any = None, models: int = 1, **generation: Any) -> SequenceGenerator:
    task = DeepTranslationTask(DeepTranslationConfig(**options), TYPES, TYPES)
    args = Namespace(**{"beam": 4, "max_len_b": 9, **generation})
    more = {"lm_model": lm, "lm_weight": getattr(args, "lm_weight", 0.0)}
    return task.build_generator([build(seed=seed).float() for seed in range(models)], args, extra_gen_cls_kwargs=more)


def found(search: SequenceGenerator) -> Found:
    with torch.no_grad():
        return search.generate([], {"net_input": INPUTS})


def assert_same(here: Found, there: Found) -> None:
    for mine, theirs in zip(here, there):
        assert [h["tokens"].tolist() for h in mine] == [h["tokens"].tolist() for h in theirs]
        for one, other in zip(mine, theirs):
            assert torch.allclose(one["score"], other["score"], atol=1e-5)
            assert torch.allclose(one["positional_scores"], other["positional_scores"], atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"decoder_normalize_before": True, "no_token_positional_embeddings": True}])
@pytest.mark.parametrize("models", [1, 2])
def test_results_are_those_of_fairseq(options: dict[str, Any], models: int, caplog: pytest.LogCaptureFixture) -> None:
    lm = language_model(TYPES, **options)
    with caplog.at_level("INFO"):
        mine = generator({}, lm, models, lm_weight=0.6, temperature=1.3)
        assert type(mine) is BeamGenerator
        here = found(mine)
    assert "language model" not in caplog.text
    theirs = generator({}, lm, models, lm_weight=0.6, temperature=1.3, no_beamable_mm=True)
    assert type(theirs) is SequenceGenerator
    assert_same(here, found(theirs))
    without = found(generator({}, None, models, temperature=1.3))
    assert [h[0]["tokens"].tolist() for h in here] != [h[0]["tokens"].tolist() for h in without]


def test_a_language_model_ends_where_its_positions_do() -> None:
    lm = language_model(TYPES, decoder_learned_pos=True, max_target_positions=5, tokens_per_sample=5)
    here = found(generator({}, lm, lm_weight=0.3, min_len=4))
    assert {len(each["tokens"]) for hypotheses in here for each in hypotheses} == {5}
    assert_same(here, found(generator({}, lm, lm_weight=0.3, min_len=4, max_len_b=4, no_beamable_mm=True)))
    assert_same(here, found(generator({}, lm, lm_weight=0.3, min_len=4, no_beamable_mm=True)))


def test_a_language_model_follows_the_translation_model() -> None:
    """As from the CPU to a GPU: a training builds its generator before the model is there."""
    lm = language_model(TYPES)
    expected = found(generator({}, lm, lm_weight=0.3))
    lm.double()
    assert_same(found(generator({}, lm, lm_weight=0.3)), expected)
    assert next(lm.parameters()).dtype == torch.float32


def test_weight_of_0_changes_nothing() -> None:
    with_, without = found(generator({}, language_model(TYPES), lm_weight=0.0)), found(generator({}))
    for mine, theirs in zip(with_, without):
        for one, other in zip(mine, theirs):
            assert one["tokens"].equal(other["tokens"])
            assert one["positional_scores"].equal(other["positional_scores"])


def test_sentences_that_are_done_leave_the_language_model() -> None:
    """Of a batch whose sentences end at different steps, each has the translations that it has alone."""
    mine = generator({"max_len_ratio": 1.0, "min_len_ratio": 1.0}, language_model(TYPES), lm_weight=0.9)
    together = found(mine)
    for row, here in enumerate(together):
        words = [token for token in INPUTS["src_tokens"][row].tolist() if token not in (TYPES.pad(), TYPES.eos())]
        inputs = batch([words], [[5]])
        del inputs["prev_output_tokens"]
        with torch.no_grad():
            assert_same([here], mine.generate([], {"net_input": inputs}))
        assert {len(hypothesis["tokens"]) for hypothesis in here} == {len(words) + 1}


def test_a_language_model_that_is_not_known_is_left_to_fairseq() -> None:
    lm = language_model(TYPES, character_embeddings=True, character_filters="[(1, 4)]", character_embedding_dim=4)
    here = found(generator({}, lm, lm_weight=0.6))
    assert_same(here, found(generator({}, lm, lm_weight=0.6, no_beamable_mm=True)))
    with pytest.raises(UserError, match=r"^--prune-gap cannot be used: the language model's embeddings are no"):
        generator({"prune_gap": 1.0}, lm, lm_weight=0.6)


def other_dictionary() -> Dictionary:
    result = Dictionary()
    for index in range(20):
        result.add_symbol(f"w{index}" if index != 7 else "v7")
    return result


def test_what_does_not_fit_is_refused() -> None:
    fits = language_model(TYPES)
    for lm, generation, message in (
        (fits, {"lm_weight": -0.5}, "--lm-weight: must be at least 0, but is -0.5"),
        (fits, {"lm_weight": float("nan")}, "--lm-weight: must be at least 0, but is nan"),
        (None, {"lm_weight": 0.5}, "--lm-weight 0.5 needs --lm-path"),
        (fits, {"score_reference": True}, "--lm-path cannot be combined with --score-reference"),
        (build(), {}, "--lm-path: must be a language model, but is a DLCLTransformerModel"),
        (
            language_model(dictionary(30)),
            {},
            "--lm-path: must be of the target's dictionary, 24 types, but is of 34 types",
        ),
        (
            language_model(other_dictionary()),
            {},
            "--lm-path: must be of the target's dictionary, where type 11 is 'w7', but is of one where it is 'v7'",
        ),
    ):
        with pytest.raises(UserError, match=f"^{message}$"):
            generator({}, lm, **generation)
    with pytest.raises(UserError, match=r"^--prune-gap must be at least 0") as caught:
        generator({"prune_gap": -1.0}, build(), lm_weight=-1.0)
    named = [line.split(" ")[0].rstrip(":") for line in str(caught.value).splitlines()]
    assert named == ["--prune-gap", "--prune-gap", "--lm-weight", "--lm-path"]


def test_the_dictionary_is_beside_the_checkpoint_or_the_data(tmp_path: Path) -> None:
    """fairseq-interactive and --eval-bleu do not load a language model, so that the task does."""
    (tmp_path / "lm").mkdir()
    (tmp_path / "data").mkdir()
    path = save_language_model(tmp_path / "lm", TYPES)
    task = DeepTranslationTask(DeepTranslationConfig(data=str(tmp_path / "data")), TYPES, TYPES)
    args = Namespace(beam=4, max_len_b=9, lm_path=str(path), lm_weight=0.6)
    expected = found(generator({}, language_model(TYPES), lm_weight=0.6))
    models = [build(seed=0).float()]
    assert_same(found(task.build_generator(models, args)), expected)
    (tmp_path / "lm" / "dict.txt").rename(tmp_path / "data" / "dict.txt")
    assert_same(found(task.build_generator(models, args)), expected)
    (tmp_path / "data" / "dict.txt").unlink()
    where = f"must be in {tmp_path}/lm or {tmp_path}/data, but is not$"
    with pytest.raises(UserError, match=f"^--lm-path: dict.txt, the dictionary of the language model, {where}"):
        task.build_generator(models, args)
    with pytest.raises(UserError, match=f"^--lm-path: dict.txt, the dictionary of the language model, {where}"):
        # As fairseq-generate loads it.
        checkpoint_utils.load_model_ensemble([str(path)], arg_overrides={"data": str(tmp_path / "data")}, task=None)
    with pytest.raises(UserError, match=r"none\.pt: no such checkpoint$"):
        checkpoint_utils.load_model_ensemble([f"{tmp_path}/none.pt"], arg_overrides={"data": "."}, task=None)
    with pytest.raises(UserError, match=r"^'': no such checkpoint$"):
        checkpoint_utils.load_model_ensemble([""], arg_overrides={"data": "."}, task=None)
