"""Dual learning by policy gradient against the gradient of the expected reward, summed over all translations."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections import Counter
from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from scipy.stats import chisquare
from support.dual_models import build_dual
from support.models import dictionary
from torch import Tensor

from deepnmt.criterions.dual_supervised import PASSES, DualSupervised, DualSupervisedConfig
from deepnmt.dual.policy_gradient import advantages, policy_passes
from deepnmt.search.supported import generator_obstacle

PAD, EOS, WORDS = 1, 2, (4, 5, 6)
SHARE, SOURCE, LONGEST = 0.3, [4, 6, EOS], 2
STRINGS = [list(words) for length in range(LONGEST + 1) for words in itertools.product(WORDS, repeat=length)]
SIZE = {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in {"embed_dim": 4, "ffn_embed_dim": 4, "attention_heads": 2, "layers": 1, "norm": "pre"}.items()
}


class Unigrams(torch.nn.Module):
    """In place of a language model."""

    def __init__(self, types: int) -> None:
        super().__init__()
        self.log_p = torch.log_softmax(torch.linspace(-1.0, 2.0, types, dtype=torch.float64), 0)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.log_p.expand(*tokens.shape, -1)

    def get_normalized_probs(self, output: Tensor, log_probs: bool) -> Tensor:
        assert log_probs
        return output


def toy() -> Any:
    """Two models of three words: the probability of the other symbols but the end is 0."""
    words = dictionary(3)
    model = build_dual(Namespace(source_dictionary=words, target_dictionary=words), seed=4, **SIZE)
    with torch.no_grad():
        for part in (model.fwd, model.bwd):
            decoder = part.decoder
            decoder.layer_norm.weight[0], decoder.layer_norm.bias[0] = 0, 30
            decoder.output_projection.weight[:, 1:] *= 8
            decoder.output_projection.weight[:, 0] = 0
            decoder.output_projection.weight[[0, PAD, 3], 0] = -10
    return model


def steps(model: Any, source: list[int], target: list[int]) -> Tensor:
    """log P of each token of a target."""
    inputs = {"src_tokens": torch.tensor([source]), "src_lengths": torch.tensor([len(source)])}
    scores = model(**inputs, prev_output_tokens=torch.tensor([[EOS, *target[:-1]]]))[0][0].log_softmax(-1)
    return torch.stack([row[token] for row, token in zip(scores, target)])


def expected_loss(model: Any, language_model: Unigrams) -> Tensor:
    """- |x| E r, where the end of a translation of the greatest length is certain."""
    total = torch.zeros((), dtype=torch.float64)
    for words in STRINGS:
        log_p = steps(model.fwd, SOURCE, [*words, EOS])
        p = log_p[:-1].sum().exp() if len(words) == LONGEST else log_p.sum().exp()
        fluency = language_model.log_p[[*words, EOS]].mean()
        back = steps(model.bwd, [*words, EOS], SOURCE).mean()
        total = total - len(SOURCE) * p * (SHARE * fluency + (1 - SHARE) * back)
    return total


@pytest.mark.parametrize(
    ("batches", "number", "tolerance"), [(1, 2500, 0.25), pytest.param(5, 20_000, 0.04, marks=pytest.mark.slow)]
)
def test_the_mean_estimate_is_the_gradient_of_the_expectation(batches: int, number: int, tolerance: float) -> None:
    model, words = toy().train(), dictionary(3)
    language_model = Unigrams(len(words))
    task = TranslationTask(TranslationConfig(), words, words)
    probabilities = [steps(model.fwd, SOURCE, [*each, EOS]) for each in STRINGS]
    whole = sum(each[:-1].sum().exp() if len(each) > LONGEST else each.sum().exp() for each in probabilities)
    torch.testing.assert_close(whole, torch.ones((), dtype=torch.float64))
    expected = torch.autograd.grad(expected_loss(model, language_model), list(model.parameters()), allow_unused=True)

    options = Namespace(beam=2, nbest=2, sampling=True, min_len=0, max_len_a=0, max_len_b=LONGEST)
    generator = task.build_generator([model.fwd.eval()], options, None, {"draws": True})
    assert generator_obstacle(generator) is None
    model.train()
    criterion = DualSupervised(task, DualSupervisedConfig(label_smoothing=0.0, sentence_avg=True))
    torch.manual_seed(7)
    found = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for _ in range(batches):
        text = torch.tensor([SOURCE]).repeat(number, 1)
        passes = policy_passes(generator, model, ("fwd", "bwd"), text, language_model, SHARE, 1.0, PAD, EOS)
        assert [each.direction for each in passes] == ["fwd", "bwd"]
        assert len(passes[0].target) == 2 * number
        pair = {"src_tokens": text[:1], "src_lengths": torch.tensor([3]), "prev_output_tokens": torch.tensor([[EOS]])}
        sample = {"net_input": pair, "target": torch.tensor([[EOS]]), "ntokens": 1}
        plain, _, _ = criterion(model, sample)
        loss, size, _ = criterion(model, {**sample, PASSES: passes})
        assert size == 1
        gradients = torch.autograd.grad((loss - plain) / number, list(model.parameters()))
        found = [total + each / batches for total, each in zip(found, gradients)]
    for direction in ("fwd", "bwd"):
        names = [name.startswith(direction) for name, _ in model.named_parameters()]
        right, ours = (
            torch.cat([torch.zeros(parameter.numel()) if each is None else each.flatten()
                       for each, parameter, mine in zip(side, model.parameters(), names) if mine])
            for side in (expected, found)
        )  # fmt: skip
        assert right.norm() > 0.05
        assert (ours - right).norm() < tolerance * right.norm(), direction


def test_the_packages_samples_have_the_models_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequenceGenerator, "_generate", None)
    model, words, number = toy(), dictionary(3), 2000
    options = Namespace(beam=3, nbest=3, sampling=True, min_len=0, max_len_a=0, max_len_b=LONGEST)
    task = TranslationTask(TranslationConfig(), words, words)
    generator = task.build_generator([model.fwd.eval()], options, None, {"draws": True})
    torch.manual_seed(5)
    text = torch.tensor([SOURCE]).repeat(number, 1)
    found = generator.generate([model.fwd], {"net_input": {"src_tokens": text, "src_lengths": text.ne(PAD).sum(1)}})
    assert {len(samples) for samples in found} == {3}
    seen = Counter(tuple(each["tokens"].tolist()) for samples in found for each in samples)
    expected = {}
    for string in STRINGS:
        log_p = steps(model.fwd, SOURCE, [*string, EOS])
        expected[(*string, EOS)] = float(log_p[: LONGEST if len(string) == LONGEST else None].sum().exp())
    assert seen.keys() <= expected.keys()
    total = sum(expected.values())
    assert chisquare([seen[key] for key in expected], [3 * number * p / total for p in expected.values()]).pvalue > 1e-4
    # With the sums of their log-probabilities, of which the last one may have been forced.
    for each in found[0]:
        log_p = steps(model.fwd, SOURCE, each["tokens"].tolist())
        torch.testing.assert_close(each["positional_scores"][:2], log_p[:2].float(), rtol=1e-4, atol=1e-4)


def test_a_reward_is_compared_with_the_others_of_its_sentence() -> None:
    rewards = torch.tensor([1.0, 2.0, 6.0, -1.0, 3.0, 9.0])
    of = torch.tensor([0, 0, 0, 1, 1, 2])
    # A single sample has nothing to be compared with.
    assert advantages(rewards, of).tolist() == [1 - 4.0, 2 - 3.5, 6 - 1.5, -4.0, 4.0, 0.0]


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_rewards_are_means_per_token_without_dropout(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_dual(dropout=0.5).train()
    language_model = Unigrams(24) if share else None
    found = [[{"tokens": torch.tensor([*y, EOS])} for y in ys] for ys in ([[5, 6], [7]], [[8, 9, 10], [11]])]
    task = TranslationTask(TranslationConfig(), dictionary(), dictionary())
    generator = task.build_generator([model.fwd.eval()], Namespace(beam=2, sampling=True, max_len_a=0, max_len_b=3))
    model.train()
    monkeypatch.setattr(generator, "generate", lambda *_: found)
    sources = [[12, 13, 14, EOS], [15, EOS]]
    text = torch.tensor([sources[0], [*sources[1], PAD, PAD]])
    there, back = policy_passes(generator, model, ("fwd", "bwd"), text, language_model, share, 0.1, PAD, EOS)
    assert model.training
    assert all(module.training for module in model.modules())
    model.eval()
    for row, (x, ys) in enumerate(zip(sources, found)):
        rewards = []
        for y in (each["tokens"].tolist() for each in ys):
            reward = (1 - share) * steps(model.bwd, y, x).mean()
            rewards.append(reward + (share * language_model.log_p[y].mean() if language_model else 0))
        for number, y in enumerate(each["tokens"].tolist() for each in ys):
            factor = len(x) * (rewards[number] - rewards[1 - number]) / 2
            counts = there.counts[2 * row + number]
            # Of three words, the end was forced.
            drawn = len(y) - 1 if len(y) == 4 else len(y)
            torch.testing.assert_close(counts[:drawn], factor.detach().expand(drawn))
            if len(y) == 4:
                assert float(counts[3]) == 0
            assert there.target[2 * row + number, : len(y)].tolist() == y
            assert back.target[2 * row + number, : len(x)].tolist() == x
            assert float(back.counts[2 * row + number, 0]) == (1 - share) / 2
    assert there.weight == back.weight == 0.1
