"""DEEPNMT_REFERENCE=1 and --reference-kernels: no fast path is taken, and the results are the same."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

import pytest
import torch
from fairseq import options
from fairseq.optim.adam import Adam
from fairseq.sequence_generator import SequenceGenerator
from support.models import PLAIN, build, dictionary
from support.searched_models import model as searched_model
from support.searched_models import sample
from torch import nn

from deepnmt import reference
from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy
from deepnmt.data.weighted_pairs import WEIGHTS
from deepnmt.kernels import blocked_sums, linear_cross_entropy, malloc, products
from deepnmt.kernels.fast_path import may_take
from deepnmt.reference import REFERENCE, reference_wanted
from deepnmt.search.generator import BeamGenerator
from deepnmt.training.fused_adam import FusedAdam

# Of each, what is computed by a kernel of its own.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "dlcl": {},
    "dlcl, pre-norm, window": {"dlcl_window": 2, "encoder_normalize_before": True, "decoder_normalize_before": True},
    "group-dense by channel": {"encoder_groups": "2", "dlcl_granularity": "vector", "share_all_embeddings": True},
    "fast dropout": {"fast_dropout": True, "dropout": 0.1, **PLAIN},
}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the fast paths that are taken."""
    names: list[str] = []

    def noting(path: str, obstacle: str | None) -> bool:
        free = may_take(path, obstacle)
        names.extend([path] if free else [])
        return free

    for name, module in list(sys.modules.items()):
        if name.startswith("deepnmt.") and getattr(module, "may_take", None) is may_take:
            monkeypatch.setattr(module, "may_take", noting)
    monkeypatch.delenv(REFERENCE, raising=False)
    return names


def batch() -> dict[str, Any]:
    found = sample()
    target = found["net_input"]["src_tokens"].flip(1)
    found["net_input"]["prev_output_tokens"] = target.roll(1, 1).index_fill(1, torch.tensor([0]), 2)
    return {**found, "target": target, "ntokens": int(target.ne(1).sum())}


def loss_and_gradients(model: nn.Module, weights: torch.Tensor | None = None) -> list[torch.Tensor]:
    task = Namespace(target_dictionary=dictionary(), source_dictionary=dictionary())
    criterion = FusedLabelSmoothedCrossEntropy(task, False, 0.1, report_accuracy=True)
    text = batch()
    if weights is not None:
        text |= {WEIGHTS: weights, "weighted_tokens": 1, "weighted_pairs": 1}
    model.train()
    torch.manual_seed(2)
    loss, _, log = criterion(model, text)
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [loss.detach(), log["nll_loss"], torch.tensor(log["n_correct"]), *gradients]


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "fast dropout"])
def test_training_is_the_same_without_fast_paths(name: str, taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fast = loss_and_gradients(build(ARCHITECTURES[name], activation_fn="relu"))
    expected = {"fast attention", "fast feed-forward", "fused loss"}
    assert set(taken) >= expected | (set() if name == "plain" else {"blocked sums", "memory-saving layer norm"})
    taken.clear()
    monkeypatch.setenv(REFERENCE, "1")
    plain = loss_and_gradients(build(ARCHITECTURES[name], activation_fn="relu"))
    assert not taken
    assert len(fast) == len(plain)
    for one, other in zip(fast, plain):
        # fairseq's softmax is in float32.
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=1e-5)


def test_dropout_is_torchs(taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(ARCHITECTURES["fast dropout"])
    loss_and_gradients(model)
    assert "fast dropout" in taken
    taken.clear()
    monkeypatch.setenv(REFERENCE, "1")
    loss_and_gradients(model)
    assert not taken


def test_losses_that_have_no_other_form_take_the_formula(taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.tensor([0.5, 2.0, 1.0, 0.0] * 9)[: len(sample()["net_input"]["src_tokens"])].double()
    fast = loss_and_gradients(build(), weights)
    monkeypatch.setenv(REFERENCE, "1")
    monkeypatch.setattr(linear_cross_entropy._LinearCrossEntropy, "apply", None)
    for one, other in zip(fast, loss_and_gradients(build(), weights)):
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("options", [PLAIN, {}], ids=["plain", "dlcl"])
def test_translations_are_fairseqs_own_search(
    options: dict[str, Any], taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = searched_model(options)
    generators = [kind([model], model.decoder.dictionary, beam_size=3) for kind in (BeamGenerator, SequenceGenerator)]
    fast = generators[0].generate([model], sample())
    assert "fast beam search" in taken
    taken.clear()
    monkeypatch.setenv(REFERENCE, "1")
    calls: list[int] = []
    stock = SequenceGenerator._generate
    monkeypatch.setattr(SequenceGenerator, "_generate", lambda *args, **more: calls.append(1) or stock(*args, **more))
    plain = generators[0].generate([model], sample())
    assert (taken, calls) == ([], [1])
    for one, other in zip(fast, plain):
        assert [each["tokens"].tolist() for each in one] == [each["tokens"].tolist() for each in other]
        torch.testing.assert_close(
            torch.stack([each["score"] for each in one]),
            torch.stack([each["score"] for each in other]).to(one[0]["score"]),
        )


def test_adam_is_fairseqs(taken: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(Adam, "step", lambda self, closure=None: steps.append(1))
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = FusedAdam([parameter], lr=0.1)
    optimizer.step()
    assert (taken, steps) == (["fast Adam"], [])
    monkeypatch.setenv(REFERENCE, "1")
    optimizer.step()
    assert steps == [1]


def test_memory_and_products_of_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(malloc.ctypes, "CDLL", lambda name: Namespace(mallopt=lambda *_: 1))
    weight = torch.ones(256, 256)
    for value, wanted in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(REFERENCE, value)
        assert reference_wanted() == wanted
        assert products.prefers_onednn(weight) != wanted
        assert malloc.keep_freed_memory() != wanted
        kind = blocked_sums.PlainCombinations if wanted else blocked_sums.Combinations
        assert isinstance(blocked_sums.combinations(torch.ones(1, 1, 1), 0), kind)


def test_sums_without_the_outputs_of_layers_that_were_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs 0 and 3 have come; the window of a row is 2."""
    monkeypatch.setenv(REFERENCE, "1")
    weight = torch.tensor([[2.0, 0, 0, 0], [3, 5, 0, 0], [0, 7, 11, 0], [0, 0, 13, 17]]).unsqueeze(-1)
    sums = blocked_sums.combinations(weight, 2)
    one, four = torch.full((1, 1, 2), 1.0), torch.full((1, 1, 2), 4.0)
    sums.add(0, one)
    assert sums.total(0).tolist() == (2 * one).tolist()
    assert sums.total(1).tolist() == (3 * one).tolist()
    assert sums.total(2).tolist() == one.tolist()  # none in its window: the newest
    sums.add(3, four)
    assert sums.total(3).tolist() == (17 * four).tolist()


def test_the_option_is_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REFERENCE, "0")
    parser = ArgumentParser()
    reference.add_reference_option(parser)
    assert vars(parser.parse_args([])) == {}
    assert not reference_wanted()
    assert vars(parser.parse_args(["--reference-kernels"])) == {}
    assert os.environ[REFERENCE] == "1"
    monkeypatch.setenv(REFERENCE, "0")
    monkeypatch.setattr(sys, "argv", ["fairseq-generate"])
    options.parse_args_and_arch(options.get_generation_parser(), ["DATA", "--path=a.pt", "--reference-kernels"])
    assert reference_wanted()
