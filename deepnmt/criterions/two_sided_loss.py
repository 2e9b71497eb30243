"""`label_smoothed_cross_entropy_two_sided`: the loss of a two-sided decoder, and of its helper."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from dataclasses import dataclass
from typing import Any

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from torch import Tensor

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.errors import UserError
from deepnmt.kernels.fast_path import may_take
from deepnmt.kernels.linear_cross_entropy import linear_cross_entropy
from deepnmt.kernels.reversal import reversed_words
from deepnmt.options.option_table import described

Losses = tuple[Tensor, Tensor]


@dataclass
class TwoSidedConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and the weight of the forward decoder."""

    two_sided_weight: float = described(
        0.5, "weight of the forward decoder's loss; the backward one's is the rest of 1"
    )


class TwoSided(FusedLabelSmoothedCrossEntropy):
    """Both decoders of a two-sided model (Zhang 2018, AAAI, arXiv 1801.05122):

        loss = l NLL_forward + (1 - l) NLL_backward                                                   (37)

    each label-smoothed; the backward decoder receives the reference from its last word to its first. The log's
    `nll_loss`, and the perplexity, are the forward decoder's; `backward_nll_loss` is the backward decoder's.

    Raises:
        UserError: the weight is not from 0 to 1, or a prefix is to be ignored, which ends the backward decoder's target
    """  # fmt: skip

    def __init__(self, task: Any, cfg: TwoSidedConfig) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        faults = []
        if not 0 <= cfg.two_sided_weight <= 1:
            faults.append(f"--two-sided-weight must be from 0 to 1, but is {cfg.two_sided_weight}")
        if cfg.ignore_prefix_size:
            faults.append(f"--ignore-prefix-size must be 0 with a two-sided model, but is {cfg.ignore_prefix_size}")
        if faults:
            raise UserError(*faults)
        self.weight = cfg.two_sided_weight
        self.eos = task.target_dictionary.eos()

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """Return the loss of a batch, as in fairseq's criterions."""
        compute = self.fused if reduce and may_take("fused loss", obstacle(model)) else self.unfused
        turned = {**sample, "target": reversed_words(sample["target"], self.eos, self.padding_idx)}
        (loss, nll), (backward_loss, backward_nll), accuracy = compute(model, sample, turned, reduce)
        loss = self.weight * loss + (1 - self.weight) * backward_loss
        nlls = {"nll_loss": nll.detach(), "backward_nll_loss": backward_nll.detach()}
        return self.result(sample, loss, **nlls, **accuracy)

    def takes_weights(self, model: Any) -> bool:
        """Return False: two passes have the weights position by position."""
        return False

    def fused(self, model: Any, sample: Any, turned: Any, reduce: bool) -> tuple[Losses, Losses, dict[str, int]]:
        """Return loss and NLL of both decoders, and the accuracy if requested, without tensors of all logits."""
        features, extra = model(**sample["net_input"], features_only=True, backward=True)
        found = []
        for output, batch, decoder in (
            (features, sample, model.decoder),
            (extra["backward_output"], turned, model.encoder.backward_decoder),
        ):
            counted = batch["target"].ne(self.padding_idx).nonzero(as_tuple=True)
            target, weight = batch["target"][counted], decoder.output_projection.weight
            found.append(linear_cross_entropy(output[counted], weight, target, self.eps, self.report_accuracy))
        forward, backward = found
        accuracy = {"n_correct": int(forward.correct), "total": sample["ntokens"]} if self.report_accuracy else {}
        return (forward.loss, forward.nll), (backward.loss, backward.nll), accuracy

    def unfused(self, model: Any, sample: Any, turned: Any, reduce: bool) -> tuple[Losses, Losses, dict[str, int]]:
        """Return the same, for each position unless `reduce`."""
        net_output = model(**sample["net_input"], backward=True)
        backward_output = net_output[1]["backward_output"], None
        accuracy = {}
        if self.report_accuracy:
            correct, total = self.compute_accuracy(model, net_output, sample)
            accuracy = {"n_correct": int(correct), "total": int(total)}
        forward = self.compute_loss(model, net_output, sample, reduce)
        return forward, self.compute_loss(model, backward_output, turned, reduce), accuracy

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log what fairseq logs, and the backward decoder's loss in bits per token."""
        super().reduce_metrics(logging_outputs)
        cls.log_mean(logging_outputs, "backward_nll_loss", "ntokens", math.log(2), 3)
