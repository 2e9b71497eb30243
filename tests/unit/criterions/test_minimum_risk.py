"""Minimum-risk training against equation (38), by enumeration, and around fairseq."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.logging import metrics
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from sacrebleu.metrics.bleu import BLEU
from support.consistency_reference import EOS, PAD, gradients, make_model, make_sample, nll, same
from support.models import PRE_NORM, SIZE, dictionary, scramble
from support.models import task as no_task
from torch import Tensor

import deepnmt.criterions  # noqa: F401  registers them
from deepnmt.criterions import minimum_risk
from deepnmt.criterions.minimum_risk import MinimumRisk, MinimumRiskConfig, Translations, Words
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.text.subwords import byte_symbols

BLEU_OF_WORDS = BLEU(tokenize="none", effective_order=True)


def task(words: Dictionary | None = None) -> TranslationTask:
    words = words or dictionary()
    return TranslationTask(TranslationConfig(), words, words)


def make(words: Dictionary | None = None, **more: Any) -> MinimumRisk:
    options = {"label_smoothing": 0.1, "sentence_avg": False, **more}
    return MinimumRisk(task(words), MinimumRiskConfig(**options))


def log_p(model: Any, source: Tensor, tokens: list[int]) -> Tensor:
    """log P of one translation, which ends with the end symbol."""
    inputs = {"src_tokens": source[None], "src_lengths": torch.tensor([len(source)])}
    scores = model(**inputs, prev_output_tokens=torch.tensor([[EOS, *tokens[:-1]]]))[0][0]
    return sum((torch.log_softmax(row, 0)[token] for row, token in zip(scores, tokens)), scores.new_zeros(()))


def bleu(tokens: list[int], reference: list[int]) -> float:
    text, other = (" ".join(f"w{token}" for token in each if token != EOS) for each in (tokens, reference))
    return float(BLEU_OF_WORDS.sentence_score(text, [other]).score) / 100


def expected_loss(
    model: Any, sample: dict[str, Any], lists: list[list[list[int]]], a: float, lenpen: float, w: float
) -> Tensor:
    """(38), sentence by sentence."""
    total = torch.zeros((), dtype=torch.float64)
    for source, target, found in zip(sample["net_input"]["src_tokens"], sample["target"], lists):
        reference = [token for token in target.tolist() if token != PAD]
        source = source[source.ne(PAD)]
        weights = torch.stack([(a * log_p(model, source, each) / len(each) ** lenpen).exp() for each in found])
        risks = torch.tensor([1 - bleu(each, reference) for each in found], dtype=torch.float64)
        total = total + len(reference) * (weights * risks).sum() / weights.sum()
        inputs = {"src_tokens": source[None], "src_lengths": torch.tensor([len(source)])}
        scores = model(**inputs, prev_output_tokens=torch.tensor([[EOS, *reference[:-1]]]))[0]
        total = total + w * nll(scores, torch.tensor([reference]), 0.1)
    return total


def fairseqs_lists(model: Any, sample: dict[str, Any], beam: int, lenpen: float) -> list[list[list[int]]]:
    """The n-best lists of fairseq's own search."""
    was = model.training
    generator = SequenceGenerator(
        [model.eval()], dictionary(), beam_size=beam, len_penalty=lenpen, max_len_a=1.5, max_len_b=10
    )
    found = generator.generate([model], sample)
    model.train(was)
    return [[each["tokens"].tolist() for each in translations] for translations in found]


def lists_of(criterion: MinimumRisk, sample: dict[str, Any], lists: list[list[list[int]]]) -> Translations:
    """What the search would have found."""
    found = [[{"tokens": torch.tensor(each)} for each in translations] for translations in lists]
    return Translations.of(found, sample["target"], criterion.words)


@pytest.mark.parametrize(("lenpen", "alpha"), [(1.0, 1.0), (0.0, 0.4)])
@pytest.mark.parametrize("kind", ["ours", "stock-shared", "unfused"])
def test_loss_and_gradients_are_the_equation(
    kind: str, lenpen: float, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sample = make_model("ours" if kind == "ours" else "stock-shared"), make_sample()
    criterion = make(mrt_lenpen=lenpen, mrt_alpha=alpha, mrt_nll_weight=0.7, report_accuracy=True)
    # Near to the references and far from them, of several lengths; the last sentence has two only.
    lists = [[[6, 7, 8, 2], [6, 7, 9, 9, 2], [10, 2]], [[13, 14, 5, 9, 7, 8, 7, 2], [13, 5, 2], [2]], [[9, 2], [8, 2]]]
    monkeypatch.setattr(criterion, "search", lambda *_: lists_of(criterion, sample, lists))
    if kind == "unfused":
        monkeypatch.setattr(minimum_risk, "obstacle", lambda model: "a test")
        # fairseq's is float32 for any input.
        monkeypatch.setattr(utils, "log_softmax", lambda x, dim, onnx_trace=False: torch.log_softmax(x, dim))
    loss, size, log = criterion(model, sample)
    expected = expected_loss(model, sample, lists, alpha, lenpen, 0.7)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    assert same(gradients(loss, model), gradients(expected, model))
    # The risk has a gradient of its own.
    risk = expected_loss(model, sample, lists, alpha, lenpen, 0.0)
    assert max(float(gradient.abs().max()) for gradient in gradients(risk, model)) > 1e-3
    assert size == log["sample_size"] == log["ntokens"] == int(sample["target"].ne(PAD).sum())
    assert log["nsentences"] == 3
    right = model(**sample["net_input"])[0].argmax(-1).eq(sample["target"]) & sample["target"].ne(PAD)
    assert (log["n_correct"], log["total"]) == (int(right.sum()), log["ntokens"])
    references = sum(
        (
            nll(scores[None], target[None], 0.0)
            for scores, target in zip(model(**sample["net_input"])[0], sample["target"])
        ),
        torch.zeros(()),
    )
    torch.testing.assert_close(log["nll_loss"], references)
    torch.testing.assert_close(log["loss"], expected)
    assert not any(log[key].requires_grad for key in ("loss", "nll_loss", "risk"))


def test_gradient_of_the_risk_of_all_translations_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """By finite differences of the sum over all translations of at most two words of a toy vocabulary.

    The second sentence has a few of them only.
    """
    words = dictionary(2)
    torch.manual_seed(2)
    model = DLCLTransformerModel.build_model(
        DLCLTransformerConfig(**{**SIZE, **PRE_NORM, "dropout": 0.0}), no_task(words)
    )
    scramble(model)
    model = model.double().train()
    sources, reference = torch.tensor([[4, 5, 2], [5, 4, 2]]), [4, 5, 2]
    sample = {
        "net_input": {
            "src_tokens": sources,
            "src_lengths": torch.tensor([3, 3]),
            "prev_output_tokens": torch.tensor([[2, 4, 5]] * 2),
        },
        "target": torch.tensor([reference] * 2),
        "ntokens": 6,
    }
    types = [token for token in range(len(words)) if token not in (PAD, EOS)]
    everything = [[*each, EOS] for length in range(3) for each in itertools.product(types, repeat=length)]
    assert len(everything) == 1 + 4 + 16
    lists = [everything, everything[3:9]]

    def enumerated() -> float:
        with torch.no_grad():
            return float(expected_loss(model, sample, lists, 1.0, 0.0, 0.0))

    criterion = make(words, mrt_lenpen=0.0, mrt_nll_weight=0.0)
    monkeypatch.setattr(criterion, "search", lambda *_: lists_of(criterion, sample, lists))
    loss, _, log = criterion(model, sample)
    assert loss.item() == pytest.approx(enumerated(), rel=1e-9)
    assert log["risk"].item() == pytest.approx(enumerated() / 3, rel=1e-9)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = gradients(loss, model)
    for _ in range(3):
        directions, values = [torch.randn_like(parameter) for parameter in parameters], []
        for step in (1e-6, -2e-6):
            for parameter, direction in zip(parameters, directions):
                parameter.data.add_(direction, alpha=step)
            values.append(enumerated())
        for parameter, direction in zip(parameters, directions):
            parameter.data.add_(direction, alpha=1e-6)
        slope = sum(float((gradient * direction).sum()) for gradient, direction in zip(found, directions))
        assert abs(slope) > 1e-3
        assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


def test_the_search_is_without_dropout_and_leaves_no_trace() -> None:
    model, sample = make_model("ours", dropout=0.5), make_sample()
    frozen = model.decoder.layers[0].eval()
    criterion, state = make(mrt_beam=3), torch.get_rng_state()
    found = criterion.search(model, sample)
    assert [each.tolist() for each in found.tokens] == [
        each for found in fairseqs_lists(model.eval(), sample, 3, 1.0) for each in found
    ]
    assert torch.equal(torch.get_rng_state(), state)
    model.train()
    frozen.eval()
    modes = [module.training for module in model.modules()]
    # The pass itself has dropout: other draws, another loss; the same draws, the same.
    losses = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        losses.append(criterion(model, sample)[0].item())
    assert losses[0] != losses[1]
    assert losses[0] == losses[2]
    assert [module.training for module in model.modules()] == modes
    assert not model.encoder._forward_hooks


def test_words_are_joined_from_subwords() -> None:
    words = Dictionary()
    numbers = [words.add_symbol(symbol) for symbol in ("hun@@", "de", "ein")]
    tokens = torch.tensor([PAD, numbers[2], numbers[0], numbers[1], EOS, PAD])
    assert Words(words)(tokens) == ["ein", "hunde"]
    assert Words(words)(torch.tensor([numbers[2], numbers[0], EOS])) == ["ein", "hun"]
    assert Words(words)(torch.tensor([EOS])) == []


def test_sentences_count_by_their_length_whatever_the_batch() -> None:
    """The sum over a batch is the sum over its sentences, so that accumulation and processes change nothing."""
    model, sample, criterion = make_model("ours"), make_sample(), make()
    whole, size, _ = criterion(model, sample)
    parts = []
    for row in range(3):
        inputs = {key: value[row : row + 1] for key, value in sample["net_input"].items()}
        target = sample["target"][row : row + 1]
        part = {"net_input": inputs, "target": target, "ntokens": int(target.ne(PAD).sum())}
        parts.append(criterion(model, part)[:2])
    torch.testing.assert_close(sum(loss.item() for loss, _ in parts), whole.item(), rtol=1e-6, atol=0)
    assert sum(number for _, number in parts) == size
    assert make(sentence_avg=True)(model, sample)[1] == 3


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_has_losses_in_float32(kind: torch.dtype) -> None:
    model, sample = make_model("ours").to(kind), make_sample()
    criterion = make(mrt_beam=3)
    loss, _, log = criterion(model, sample)
    assert loss.dtype == log["risk"].dtype == torch.float32
    assert "total" not in log
    lists, found = [], iter(criterion.search(model, sample).tokens)
    lists = [[next(found).tolist() for _ in range(3)] for _ in range(3)]
    expected = expected_loss(model.double(), sample, lists, 1.0, 1.0, 0.3)
    torch.testing.assert_close(loss.item(), expected.item(), rtol=0.02, atol=0)
    assert all(gradient.isfinite().all() for gradient in gradients(make()(model.to(kind), sample)[0], model))


def test_wrapped_for_distributed_training_and_with_recomputed_activations(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeded(model: Any) -> list[Tensor]:
        torch.manual_seed(6)
        loss = make()(model, make_sample())[0]
        model.zero_grad()
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.requires_grad)]

    model = make_model("stock-shared", dropout=0.3)
    plain = seeded(model)
    assert same(seeded(make_model("stock-shared", dropout=0.3, checkpoint_activations=True)), plain)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # torch puts its own in front
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        group = torch.distributed.group.WORLD
        for wrapped in (
            torch.nn.parallel.DistributedDataParallel(model),
            LegacyDistributedDataParallel(model, process_group=group),
        ):
            proxy = ModuleProxyWrapper(wrapped)
            assert same(seeded(proxy), plain)
            assert "risk" not in make()(proxy.eval(), make_sample())[2]
            proxy.train()
    finally:
        torch.distributed.destroy_process_group()


def test_the_log() -> None:
    logs = [
        {"loss": 6.0, "nll_loss": 4.0, "risk": 1.0, "ntokens": 8, "nsentences": 2, "sample_size": 8},
        {"loss": 10.0, "nll_loss": 5.0, "risk": 1.5, "ntokens": 12, "nsentences": 3, "sample_size": 12},
    ]
    with metrics.aggregate(new_root=True) as aggregator:
        MinimumRisk.reduce_metrics(logs)
    shown = aggregator.get_smoothed_values()
    assert shown["risk"] == pytest.approx(2.5 / 5)
    assert shown["nll_loss"] == pytest.approx(9 / 20 / math.log(2), abs=1e-3)


def test_what_does_not_go_together_is_refused() -> None:
    config = MinimumRiskConfig(label_smoothing=0.1, sentence_avg=False)
    with pytest.raises(UserError, match=r"^--task must be translation or deep_translation .*, but is Namespace$"):
        MinimumRisk(no_task(), config)
    right_to_left = task()
    right_to_left.right_to_left = True
    with pytest.raises(UserError, match=r"^--right-to-left cannot be combined with the risk of translations"):
        MinimumRisk(right_to_left, config)
    for option, value, words in (
        ("ignore_prefix_size", 1, "must be 0 with the risk of translations, but is 1"),
        ("mrt_beam", 1, "must be from 2 to 256, but is 1"),
        ("mrt_alpha", 0.0, "must be a finite number above 0, but is 0.0"),
        ("mrt_lenpen", -1.0, "must be from 0 to 100, but is -1.0"),
        ("mrt_nll_weight", math.nan, "must be a finite number of at least 0, but is nan"),
    ):
        with pytest.raises(UserError, match=f"^--{option.replace('_', '-')} {words}$"):
            make(**{option: value})


def test_risk_of_chinese_compares_characters_without_bytes() -> None:
    words = Dictionary()
    types = ["今天@@", "老师", "老@@", "来", "去", *byte_symbols()]
    for name in types:
        words.add_symbol(name)

    def tokens(text: str) -> Tensor:
        return words.encode_line(text, add_if_not_exist=False).long()

    right = "今天@@ 老师 来"
    found = [right, "今天@@ 老@@ <0xE5>@@ <0xB8>@@ <0x88>@@ 来", "今天@@ 老师 去"]
    lists = [[{"tokens": tokens(text)} for text in found]]
    risk = Translations.of(lists, tokens(right)[None], Words(words, "zh")).risk[0]
    # The second one spells the same text; of the third, 4 of 5 characters, 3 of 4 pairs, 2 of 3 and 1 of 2 match.
    assert risk.tolist() == pytest.approx([0, 0, 1 - (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25])
