"""`label_smoothed_cross_entropy_mrt`: raise the probability of the better ones among a model's own translations.

Shapes: B sentences, K translations of each, T target positions, C channels, V types. H = B * K counts all translations;
it is smaller if a search has found fewer.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterionConfig,
    label_smoothed_nll_loss,
)
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.tasks.translation import TranslationTask
from torch import Tensor, nn

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.errors import UserError
from deepnmt.kernels.fast_path import may_take
from deepnmt.kernels.linear_cross_entropy import linear_cross_entropy
from deepnmt.kernels.linear_log_probs import linear_log_probs
from deepnmt.limits import BEAM, LENPEN
from deepnmt.options.option_table import described
from deepnmt.text.sentence_bleu import SentenceBleu
from deepnmt.text.subwords import has_bytes, join_bpe, join_bytes
from deepnmt.text.token_bleu import TokenBleu

Scored = tuple[Tensor, Tensor, Tensor, dict[str, int]]
# Most tokens of a translation, a S + b for a source of S: longer ones are costly loops.
LONGEST = {"max_len_a": 1.5, "max_len_b": 10}


class Words:
    """Joins subwords of a dictionary to the words that BLEU of tokens compares in its language."""

    def __init__(self, dictionary: Dictionary, language: str = "") -> None:
        self.bleu, self.bytes = TokenBleu(language), has_bytes(dictionary.symbols)
        self.symbols: list[str] = list(dictionary.symbols)
        self.pad: int = dictionary.pad()
        self.ignored = {self.pad, dictionary.eos()}

    def __call__(self, tokens: Tensor) -> list[str]:
        """Return the words of a sentence's tokens, without padding and end symbol."""
        text = join_bpe(" ".join(self.symbols[token] for token in tokens.tolist() if token not in self.ignored))
        return self.bleu.words(join_bytes(text) if self.bytes else text)


@dataclass(frozen=True)
class Translations:
    """Translations of a batch, sentence by sentence, the best first.

    Attributes:
        tokens: of each, with the end symbol, H
        places: their places in B x K
        risk: of each, B x K; 0 in places without one
        lengths: tokens of each reference, with the end symbol, B
    """

    tokens: list[Tensor]
    places: Tensor
    risk: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, found: Sequence[Sequence[dict[str, Any]]], target: Tensor, words: Words) -> "Translations":
        """Return the translations that fairseq's generator has found, with their risk beside the padded references."""
        tokens = [[each["tokens"] for each in translations] for translations in found]
        places = torch.zeros(len(tokens), max(map(len, tokens)), dtype=torch.bool)
        risk = torch.zeros(places.shape, dtype=torch.float64)
        for row, (translations, reference) in enumerate(zip(tokens, target)):
            bleu = SentenceBleu(words(reference))
            places[row, : len(translations)] = True
            for rank, translation in enumerate(translations):
                risk[row, rank] = 1 - bleu(words(translation))
        return cls(
            [each for translations in tokens for each in translations],
            places.to(target.device),
            risk.to(target.device),
            target.ne(words.pad).sum(1),
        )

    @property
    def rows(self) -> Tensor:
        """Return the sentence of each reference, then of each translation, B + H."""
        sentences, translated = torch.arange(len(self.places)), self.places.nonzero()[:, 0]
        return torch.cat([sentences.to(translated), translated])


@dataclass
class MinimumRiskConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and the risk's options."""

    mrt_beam: int = described(4, "translations of each sentence, found by a beam of this size")
    mrt_alpha: float = described(1.0, "sharpness of the distribution over the translations of a sentence, above 0")
    mrt_lenpen: float = described(
        1.0, "length penalty of the search and of the distribution: the --lenpen to translate with"
    )
    mrt_nll_weight: float = described(0.3, "weight of the references' cross entropy beside the risk, at least 0")


class MinimumRisk(FusedLabelSmoothedCrossEntropy):
    """Minimum-risk training (Shen 2016, ACL, P16-1159) on the n-best list of a beam search (Edunov 2018, N18-1033):

        loss = n sum_y Q(y) (1 - BLEU(y)) + w NLL(r),   Q(y) = P(y)^(a / |y|^l) / sum_y' P(y')^(a / |y'|^l)     (38)

    y runs over the K best translations by the present weights, without dropout. P and the NLL of the reference r come
    from one pass of the training, with dropout, and have gradients. BLEU is the sentence's BLEU in whole words, or in
    characters of a language without spaces between words. A sentence's risk is weighted by n, the number of tokens of
    its reference, as in corpus BLEU and in its NLL. Learning rates thus keep their scale. With l = 0, Q is Shen's.

    In validation it is the label-smoothed cross entropy alone. In training, the log has (38) as `loss`, and the
    expected risk of a sentence as `risk`. Its `nll_loss`, and the perplexity, are the NLL of the references without
    smoothing.

    Raises:
        UserError: every option that is out of range, or conflicts with this criterion, a line each
    """  # fmt: skip

    def __init__(self, task: Any, cfg: MinimumRiskConfig) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        if faults := list(_faults(task, cfg)):
            raise UserError(*faults)
        self.task = task
        self.beam, self.alpha, self.lenpen = cfg.mrt_beam, cfg.mrt_alpha, cfg.mrt_lenpen
        self.weight = cfg.mrt_nll_weight
        self.words = Words(task.target_dictionary, task.cfg.target_lang or "")
        self._generator: Optional[tuple[nn.Module, Any]] = None

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """Return loss, sample size and log of a batch, as in fairseq's criterions; in training always reduced."""
        if not model.training:
            result: tuple[Any, int, dict[str, Any]] = super().forward(model, sample, reduce)
            return result
        found = self.search(model, sample)
        compute = self.fused if may_take("fused loss", obstacle(model)) else self.unfused
        with repeated_sources(model.encoder, found.rows):
            loss, nll, log_probs, accuracy = compute(model, *self.inputs(sample, found))
        risk = (self.distribution(log_probs, found) * found.risk.to(log_probs)).sum(1)  # B
        loss = (found.lengths * risk).sum() + self.weight * loss
        return self.result(sample, loss, nll_loss=nll.detach(), risk=risk.detach().sum(), **accuracy)

    @torch.no_grad()
    def search(self, model: Any, sample: dict[str, Any]) -> Translations:
        """Return the best translations of a batch by the model, without dropout."""
        inner = unwrapped(model)
        with evaluating(inner):
            if self._generator is None or self._generator[0] is not inner:
                options = Namespace(beam=self.beam, nbest=self.beam, lenpen=self.lenpen, **LONGEST)
                self._generator = inner, self.task.build_generator([inner], options)
            found = self._generator[1].generate([inner], sample)
        return Translations.of(found, sample["target"], self.words)

    def inputs(self, sample: dict[str, Any], found: Translations) -> tuple[dict[str, Any], Tensor, int]:
        """Return the net input of one pass for references and translations, its target, B + H x T, and B."""
        reference, before = sample["target"], sample["net_input"]["prev_output_tokens"]
        pad, eos = self.padding_idx, self.task.target_dictionary.eos()
        after = collate_tokens(found.tokens, pad)
        shifted = collate_tokens(found.tokens, pad, eos, move_eos_to_beginning=True)
        longest = max(reference.size(1), after.size(1))
        target, previous = (
            torch.cat([F.pad(each, (0, longest - each.size(1)), value=pad) for each in pair])
            for pair in ((reference, after), (before, shifted))
        )
        return {**sample["net_input"], "prev_output_tokens": previous}, target, len(reference)

    def fused(self, model: Any, inputs: dict[str, Any], target: Tensor, size: int) -> Scored:
        """Return loss and NLL of the references, the translations' token log-probabilities, H x T, and the accuracy."""
        features = model(**inputs, features_only=True)[0]
        weight = model.decoder.output_projection.weight
        mask = target.ne(self.padding_idx)
        right = target[:size][mask[:size]]
        losses = linear_cross_entropy(features[:size][mask[:size]], weight, right, self.eps, self.report_accuracy)
        accuracy = {"n_correct": int(losses.correct), "total": len(right)} if self.report_accuracy else {}
        found = linear_log_probs(features[size:][mask[size:]], weight, target[size:][mask[size:]])
        log_probs = found.new_zeros(target[size:].shape).masked_scatter(mask[size:], found)
        return losses.loss, losses.nll, log_probs, accuracy

    def unfused(self, model: Any, inputs: dict[str, Any], target: Tensor, size: int) -> Scored:
        """Return the same as `fused` for any model."""
        log_probs = model.get_normalized_probs(model(**inputs), log_probs=True)
        log_probs = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
        loss, nll = label_smoothed_nll_loss(
            log_probs[:size].flatten(0, 1), target[:size].flatten(), self.eps, ignore_index=self.padding_idx
        )
        chosen = log_probs[size:].gather(2, target[size:].unsqueeze(2)).squeeze(2)
        accuracy = {}
        if self.report_accuracy:
            mask = target[:size].ne(self.padding_idx)
            right = log_probs[:size].argmax(2).eq(target[:size])[mask]
            accuracy = {"n_correct": int(right.sum()), "total": len(right)}
        return loss, nll, chosen.masked_fill(target[size:].eq(self.padding_idx), 0.0), accuracy

    def distribution(self, log_probs: Tensor, found: Translations) -> Tensor:
        """Return Q, B x K, for the translations' token log-probabilities, H x T; 0 in places without one."""
        lengths = log_probs.new_tensor([len(each) for each in found.tokens])
        scores = self.alpha * log_probs.sum(1) / lengths**self.lenpen
        matrix = scores.new_full(found.risk.shape, -math.inf).masked_scatter(found.places, scores)
        return torch.softmax(matrix, dim=1)

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log what fairseq logs and, in training, the expected risk of a sentence."""
        super().reduce_metrics(logging_outputs)
        cls.log_mean(logging_outputs, "risk", "nsentences", 1.0, 4)


def _faults(task: Any, cfg: MinimumRiskConfig) -> Iterator[str]:
    if not isinstance(task, TranslationTask):
        yield f"--task must be translation or deep_translation with the risk of translations, but is {_name(task)}"
    elif getattr(task, "right_to_left", False):
        yield "--right-to-left cannot be combined with the risk of translations, which compares whole words"
    if cfg.ignore_prefix_size:
        yield f"--ignore-prefix-size must be 0 with the risk of translations, but is {cfg.ignore_prefix_size}"
    if not 2 <= cfg.mrt_beam <= BEAM:
        yield f"--mrt-beam must be from 2 to {BEAM}, but is {cfg.mrt_beam}"
    if not 0 < cfg.mrt_alpha < math.inf:
        yield f"--mrt-alpha must be a finite number above 0, but is {cfg.mrt_alpha}"
    if not 0 <= cfg.mrt_lenpen <= LENPEN:
        yield f"--mrt-lenpen must be from 0 to {LENPEN}, but is {cfg.mrt_lenpen}"
    if not 0 <= cfg.mrt_nll_weight < math.inf:
        yield f"--mrt-nll-weight must be a finite number of at least 0, but is {cfg.mrt_nll_weight}"


def _name(task: Any) -> str:
    return str(getattr(getattr(task, "cfg", None), "_name", None) or type(task).__name__)


def unwrapped(model: Any) -> nn.Module:
    """Return a model as it was before wrapping for distributed training."""
    while isinstance(model.module if hasattr(model, "module") else None, nn.Module):
        model = model.module
    result: nn.Module = model
    return result


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within the context the model is evaluated; afterwards each of its modules is as before."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def repeated_sources(encoder: Any, rows: Tensor) -> Iterator[None]:
    """Within the context, an encoder encodes each sentence once, and returns the sentences of `rows`.

    References and translations thus share one pass of the model, as distributed training requires, without encoding
    a source for each of them. All have the same dropout mask of the encoder.
    """

    def repeat(module: Any, inputs: Any, output: Any) -> Any:
        return module.reorder_encoder_out(output, rows)

    handle = encoder.register_forward_hook(repeat)
    try:
        yield
    finally:
        handle.remove()
