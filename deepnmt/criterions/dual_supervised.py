"""`dual_supervised`: the losses of a model of both directions, and of the gap between them.

Shapes: B sentences, T target positions, C channels, N target positions without padding.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.utils import split_paths
from torch import Tensor

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.data.exchanged_pairs import exchanged
from deepnmt.data.marginals import read_marginals
from deepnmt.data.weighted_pairs import WEIGHTS
from deepnmt.errors import UserError
from deepnmt.kernels.linear_cross_entropy import Losses, linear_cross_entropy
from deepnmt.kernels.linear_log_probs import linear_log_probs
from deepnmt.model.dual import BWD, DIRECTIONS, FWD
from deepnmt.options.dual_rules import ARCH, CRITERION
from deepnmt.options.option_table import TRAINING, described, range_faults
from deepnmt.text.data_folder import check_dictionaries, check_subset, parts_of

MISSING_MARGINALS = f"--marginals must be given to train with --criterion {CRITERION} and a --dual-weight, but is not"
# The entry of a batch with further passes, which a task adds.
PASSES = "passes"


class Pass(NamedTuple):
    """A batch that one of the models learns from.

    Attributes:
        direction: `FWD` or `BWD`
        inputs: of the model
        target: B x T
        weight: factor of its loss and, as pairs, of its size
        counts: factors of the positions in the cross entropy without smoothing, B x T; None: pairs, label-smoothed. A
            pass with counts adds to the loss, but not to the size
    """

    direction: str
    inputs: Mapping[str, Tensor]
    target: Tensor
    weight: float = 1.0
    counts: Optional[Tensor] = None


@dataclass
class DualSupervisedConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and the duality's options."""

    dual_weight: float = described(0.0, "weight of the squared gap between both directions of a pair; 0: none")
    marginals: Optional[str] = described(
        None, "file with log P of both sides of each training pair, by deepnmt marginals"
    )


class DualSupervised(FusedLabelSmoothedCrossEntropy):
    """Dual supervised learning (Xia 2017, ICML, arXiv 1707.00415) of a `dlcl_dual`:

        loss = NLL_fwd + n_y / n_x NLL_bwd + l sum_(x,y) D^2
        D = log P(x) + log P(y|x) - log P(y) - log P(x|y)

    NLLs are label-smoothed sums over tokens, D's terms sums over tokens without smoothing. P(x) and P(y) are a file's.
    n_x and n_y count the tokens of the batch: each model's loss is a mean over its own target. With --sentence-avg, the
    factor is 1. Weights of pairs multiply their losses, their D^2 and their tokens. With l = 0, each model trains as it
    would alone. Validation is without D.

    The log has `loss`; `nll_loss` and the perplexity of `fwd`, `backward_nll_loss` of `bwd`, and, in training, the mean
    of D^2 as `gap`.

    Raises:
        UserError: every option that is out of range, or conflicts with this criterion, a line each
    """  # fmt: skip

    def __init__(self, task: Any, cfg: DualSupervisedConfig) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        if faults := list(option_faults(cfg)):
            raise UserError(*faults)
        self.eos = task.target_dictionary.eos()
        self.weight = cfg.dual_weight
        self.marginals: Optional[Tensor] = None
        if cfg.marginals:
            languages = task.cfg.source_lang, task.cfg.target_lang
            self.marginals = read_marginals(Path(cfg.marginals), training_pairs(task), languages)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, Any, dict[str, Any]]:
        """Return the loss of a batch, always reduced, its sample size and its log, as in fairseq's criterions.

        Raises:
            UserError: the model is no `dlcl_dual`, its features cannot be projected separately, or in training the
                marginals are missing
        """
        if model.training and self.weight and self.marginals is None:
            raise UserError(MISSING_MARGINALS)
        if not hasattr(model, BWD):
            raise UserError(f"--criterion {CRITERION} needs --arch {ARCH}")
        if reason := obstacle(model.fwd):
            raise UserError(f"--criterion {CRITERION} cannot be used with this model: {reason}")
        turned = exchanged(sample, self.padding_idx, self.eos)
        pairs = [Pass(FWD, sample["net_input"], sample["target"]), Pass(BWD, turned["net_input"], turned["target"])]
        passes = [*pairs, *sample.get(PASSES, ())]
        features = model(**passes[0].inputs, others=[(each.direction, each.inputs) for each in passes[1:]])
        zero = features[0].new_zeros(())
        weights = sample.get(WEIGHTS)
        own = [weights, weights, *[None] * (len(passes) - 2)]
        sums = [
            self.sums(model, each, output, each_own, accuracy=self.report_accuracy and number == 0)
            for number, (each, output, each_own) in enumerate(zip(passes, features, own))
        ]
        losses, sizes, more = dict.fromkeys(DIRECTIONS, zero), dict.fromkeys(DIRECTIONS, 0.0), zero
        for each, found, each_own in zip(passes, sums, own):
            scaled = found.loss if each.weight == 1 else each.weight * found.loss
            if each.counts is not None:
                more = more + scaled
            else:
                losses[each.direction] = losses[each.direction] + scaled
                sizes[each.direction] += each.weight * self.size(each.target, each_own)
        factor = sizes[FWD] / (sizes[BWD] or 1)
        loss = losses[FWD] + (losses[BWD] if factor == 1 else factor * losses[BWD]) + more
        others = int(turned["target"].ne(self.padding_idx).sum())
        logged = {"nll_loss": sums[0].nll, "backward_nll_loss": sums[1].nll, "backward_ntokens": others}
        if self.report_accuracy:
            logged |= {"n_correct": int(sums[0].correct), "total": sample["ntokens"]}
        if model.training and self.weight:
            squares = self.gaps(model, sample["id"], pairs, features).square()
            loss = loss + self.weight * (squares if weights is None else squares * weights.to(squares)).sum()
            logged["gap"] = squares.detach().sum()
        size = sizes[FWD] if PASSES in sample or weights is not None else None
        return self.result(sample, loss, size, **logged)

    def sums(self, model: Any, each: Pass, features: Tensor, weights: Optional[Tensor], accuracy: bool) -> Losses:
        """Return the losses of a pass, summed over its tokens, for features, B x T x C, and weights of its pairs, B."""
        counted = each.target.ne(self.padding_idx).nonzero(as_tuple=True)
        weight = getattr(model, each.direction).decoder.output_projection.weight
        of_pairs = None if weights is None else weights[counted[0]]
        smoothing, counts = (self.eps, of_pairs) if each.counts is None else (0.0, each.counts[counted])
        return linear_cross_entropy(features[counted], weight, each.target[counted], smoothing, accuracy, counts)

    def size(self, target: Tensor, weights: Optional[Tensor]) -> float:
        """Return the number of sentences or tokens of a target, B x T, by which the loss is divided, by weights, B."""
        counts = target.ne(self.padding_idx).sum(1)
        counts = torch.ones_like(counts) if self.sentence_avg else counts
        return int(counts.sum()) if weights is None else float((counts * weights).sum())

    def takes_weights(self, model: Any) -> bool:
        """Return True: other models are refused."""
        return True

    def gaps(self, model: Any, numbers: Tensor, pairs: list[Pass], features: list[Tensor]) -> Tensor:
        """Return D of the pairs of a batch, B, for their numbers in the training set, B."""
        assert self.marginals is not None
        of_source, of_target = self.marginals[numbers.cpu()].to(features[0].device).t()
        fwd, bwd = (
            pair_log_probs(getattr(model, each.direction), output, each.target, self.padding_idx)
            for each, output in zip(pairs, features)
        )
        gaps: Tensor = (of_source - of_target).to(fwd) + fwd - bwd
        return gaps

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log what fairseq logs, the other direction's loss in bits per token, and the mean squared gap."""
        super().reduce_metrics(logging_outputs)
        cls.log_mean(logging_outputs, "backward_nll_loss", "backward_ntokens", math.log(2), 3)
        cls.log_mean(logging_outputs, "gap", "nsentences", 1.0, 3)


def pair_log_probs(model: Any, features: Tensor, target: Tensor, pad: int) -> Tensor:
    """Return log P of each target, B, for features, B x T x C, and targets, B x T."""
    mask = target.ne(pad)
    found = linear_log_probs(features[mask], model.decoder.output_projection.weight, target[mask])
    sums: Tensor = found.new_zeros(target.shape).masked_scatter(mask, found).sum(1)
    return sums


def option_faults(cfg: Any) -> Iterator[str]:
    """Yield the faults of the options of the criterion."""
    yield from (f"--{name} {rest}" for name, rest in range_faults({"dual_weight": cfg.dual_weight}, TRAINING))
    if cfg.ignore_prefix_size:
        yield f"--ignore-prefix-size must be 0 with --criterion {CRITERION}, but is {cfg.ignore_prefix_size}"


def training_pairs(task: Any) -> int:
    """Return the number of pairs of a task's training set, as fairseq joins it. Raises `UserError` for several."""
    folders = [Path(path) for path in split_paths(task.cfg.data)]
    if len(folders) > 1:
        raise UserError("--marginals needs a single data folder, but DATA names several")
    if task.cfg.upsample_primary not in (-1, 1):
        raise UserError(f"--upsample-primary must be 1 with --marginals, but is {task.cfg.upsample_primary}")
    languages = task.cfg.source_lang, task.cfg.target_lang
    dictionaries = check_dictionaries(folders[0], languages)
    parts = parts_of(folders[0], task.cfg.train_subset, languages)
    return sum(check_subset(folders[0], part, languages, dictionaries) or 0 for part in parts)
