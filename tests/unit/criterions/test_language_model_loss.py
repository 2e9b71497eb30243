"""A language model in the decoder: its layers, its loss against the formula, and the plain model of that shape."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from support.consistency_reference import EOS, PAD, TARGETS, gradients, make_sample, nll, same
from support.models import EXAMPLE, build, dictionary, incremental_logits, logits
from torch import Tensor

import deepnmt  # noqa: F401  registers the criterions
from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy
from deepnmt.criterions.language_model_loss import LanguageModelLoss, LanguageModelLossConfig
from deepnmt.criterions.weighted_losses import weighted
from deepnmt.errors import UserError

TEXT = [[7, 8, 9, 10], [11], [5, 6, 12, 13, 14, 15]]
SHAPES: dict[str, dict[str, Any]] = {
    "pre": {"decoder_norm": "pre", "encoder_norm": "pre"},
    "post": {"decoder_norm": "post", "decoder_groups": "none"},
    "relative": {"decoder_norm": "b2t", "decoder_max_relative_length": 2, "decoder_groups": "2"},
    "transparent": {"decoder_norm": "pre", "encoder_norm": "pre", "encoder_groups": "transparent"},
    "ssru": {"decoder_self_attention": "ssru", "decoder_norm": "pre"},
}


def make(weight: float, **more: Any) -> LanguageModelLoss:
    task = TranslationTask(TranslationConfig(), dictionary(), dictionary())
    options = {"label_smoothing": 0.1, "sentence_avg": False, "lm_loss_weight": weight, **more}
    return LanguageModelLoss(task, LanguageModelLossConfig(**options))


def sample() -> dict[str, Any]:
    longest = max(map(len, TEXT)) + 1
    text = torch.tensor([[*row, EOS] + [PAD] * (longest - len(row) - 1) for row in TEXT])
    return {**make_sample(), "mono": {"target": text}}


def language_logits(model: Any, words: list[int], layers: int) -> Tensor:
    """One sentence through the lowest layers, by the modules of the decoder."""
    decoder, history = model.decoder, model.decoder.history
    tokens = torch.tensor([[EOS, *words]])
    x = decoder.embed_scale * decoder.embed_tokens(tokens) + decoder.embed_positions(tokens)
    x = x.transpose(0, 1)
    mask = torch.full((len(x), len(x)), float("-inf"), dtype=x.dtype).triu(1)
    past = history.start() if history is not None else None
    for index in range(layers):
        x = past.input(index, x) if past is not None else x
        x = decoder.layers[index](x, self_attn_mask=mask)[0]
    if str(model.cfg.deep.decoder_norm) == "pre":
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    result: Tensor = decoder.output_projection(x.transpose(0, 1))
    return result


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layers", [1, 2])
def test_loss_and_gradients_are_the_formula(layers: int, shape: str) -> None:
    model = build(SHAPES[shape], decoder_lm_layers=layers).train()
    batch = sample()
    loss, size, log = make(0.7)(model, batch)
    pairs = nll(model(**batch["net_input"])[0], batch["target"], 0.1)
    alone = [(language_logits(model, row, layers), torch.tensor([[*row, EOS]])) for row in TEXT]
    n, m = batch["ntokens"], sum(len(row) + 1 for row in TEXT)
    expected = pairs + 0.7 * n / m * sum(nll(scores, target, 0.1) for scores, target in alone)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    assert same(gradients(loss, model), gradients(expected, model))
    assert (size, log["ntokens"], log["lm_ntokens"]) == (n, n, m)
    torch.testing.assert_close(log["lm_loss"], sum(nll(scores, target, 0.0) for scores, target in alone).detach())


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_pairs_may_have_weights(sentence_avg: bool) -> None:
    weights, lengths = [0.5, 2.0, 1.25], [len(row) + 1 for row in TARGETS]
    words = sum(w * n for w, n in zip(weights, lengths))
    batch = {**sample(), "pair_weights": torch.tensor(weights, dtype=torch.float64)}
    batch |= {"weighted_tokens": words, "weighted_pairs": sum(weights)}
    model = build(decoder_lm_layers=1).train()
    loss, size, log = weighted(make(0.7, sentence_avg=sentence_avg))(model, batch)
    scores = model(**batch["net_input"])[0]
    pairs = sum(w * nll(scores[row : row + 1, :n], batch["target"][row : row + 1, :n], 0.1)
                for row, (w, n) in enumerate(zip(weights, lengths)))  # fmt: skip
    alone = sum(nll(language_logits(model, row, 1), torch.tensor([[*row, EOS]]), 0.1) for row in TEXT)
    expected = pairs + 0.7 * words / sum(len(row) + 1 for row in TEXT) * alone
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    assert same(gradients(loss, model), gradients(expected, model))
    assert size == log["sample_size"] == (sum(weights) if sentence_avg else words)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_layers_do_not_see_the_source(shape: str) -> None:
    model = build(SHAPES[shape], decoder_lm_layers=2)
    assert [layer.encoder_attn is None for layer in model.decoder.layers] == [True, True, False]
    source = model.encoder.embed_tokens.weight
    # Two tables: the source's has no part in the language model.
    features = model(**EXAMPLE, text=EXAMPLE["prev_output_tokens"])[1]["text_output"]
    (gradient,) = torch.autograd.grad(features.sum(), source, allow_unused=True)
    assert gradient is None
    states = model(**EXAMPLE)[1]["inner_states"]
    for state in states[:3]:
        assert torch.autograd.grad(state.sum(), source, allow_unused=True, retain_graph=True)[0] is None
    assert float(torch.autograd.grad(states[3].square().sum(), source)[0].abs().max()) > 0


def test_weight_zero_without_text_is_the_plain_model_of_that_shape() -> None:
    batch = make_sample()
    losses, found = [], []
    for criterion in (make(0.0), FusedLabelSmoothedCrossEntropy(make(0.0).task, False, 0.1)):
        model = build(decoder_lm_layers=1, dropout=0.3).train()
        torch.manual_seed(2)
        loss, _, _ = criterion(model, batch)
        losses.append(loss)
        found.append(gradients(loss, model))
    assert torch.equal(*losses)
    assert all(torch.equal(*pair) for pair in zip(*found))
    # Validation is without text, too.
    model = build(decoder_lm_layers=1)
    torch.testing.assert_close(make(1.0)(model, batch)[0], nll(model(**batch["net_input"])[0], batch["target"], 0.1))
    with pytest.raises(UserError, match=r"^--mono must be given to train with an --lm-loss-weight, but is not$"):
        make(1.0)(model.train(), batch)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_search_knows_such_layers(shape: str) -> None:
    model = build(SHAPES[shape], decoder_lm_layers=2)
    real = EXAMPLE["prev_output_tokens"].ne(PAD)
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[real], logits(model, EXAMPLE)[real], rtol=1e-5, atol=2e-6
    )
    task = TranslationTask(TranslationConfig(), dictionary(), dictionary())
    inputs = {"net_input": {name: EXAMPLE[name] for name in ("src_tokens", "src_lengths")}}
    ours = task.build_generator([model], Namespace(beam=3, max_len_b=8)).generate([model], inputs)
    theirs = SequenceGenerator([model], dictionary(), beam_size=3, max_len_b=8).generate([model], inputs)
    for mine, stock in zip(ours, theirs):
        assert [each["tokens"].tolist() for each in mine] == [each["tokens"].tolist() for each in stock]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder_lm_layers": 3}, "^--decoder-lm-layers must be below --decoder-layers 3, but is 3$"),
        ({"decoder_lm_layers": -1}, "^--decoder-lm-layers must be at least 0 and at most"),
        ({"merged_attention": True}, "^--decoder-lm-layers cannot be combined with --merged-attention True$"),
        ({"no_cross_attention": True}, "^--decoder-lm-layers cannot be combined with --no-cross-attention True$"),
        ({"cross_self_attention": True}, "^--decoder-lm-layers cannot be combined with --cross-self-attention True$"),
        ({"two_sided": True}, "^--decoder-lm-layers cannot be combined with --two-sided True$"),
        ({"decoder_skip": 0.5}, r"^--decoder-lm-layers cannot be combined with --decoder-skip 0\.5$"),
        (
            {"decoder_share_layers": "0,1,1"},
            "^--decoder-lm-layers cannot be combined with --decoder-share-layers 0,1,1$",
        ),
        (
            {"decoder_self_attention": "shared"},
            "^--decoder-lm-layers cannot be combined with --decoder-self-attention s",
        ),
        (
            {"initializer": "admin", "residual_scale": "admin"},
            "^--initializer must need no batches with --decoder-lm-layers, but is admin$",
        ),
    ],
)
def test_options_that_exclude_it_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((UserError, ValueError), match=message):
        build({"decoder_lm_layers": 1, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": -0.5}, r"^--lm-loss-weight must be a finite number of at least 0, but is -0\.5$"),
        (
            {"weight": 1.0, "ignore_prefix_size": 2},
            "^--ignore-prefix-size must be 0 with a language model in the decoder",
        ),
    ],
)
def test_options_of_the_loss_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(**options)
