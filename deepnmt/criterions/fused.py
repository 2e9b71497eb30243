"""`label_smoothed_cross_entropy_fused`: fairseq's label-smoothed cross entropy in less time and memory."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

from dataclasses import dataclass
from typing import Any, Optional

from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.logging import metrics
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from deepnmt.data.weighted_pairs import PAIRS, TOKENS, WEIGHTS
from deepnmt.errors import UserError
from deepnmt.kernels.fast_path import may_take
from deepnmt.kernels.linear_cross_entropy import Taught, linear_cross_entropy


@dataclass
class FusedConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy."""


class FusedLabelSmoothedCrossEntropy(LabelSmoothedCrossEntropyCriterion):  # type: ignore[misc]
    """fairseq's `label_smoothed_cross_entropy`: the same loss, gradients, options and log, in less time and memory.

    The model gives its features, and the criterion projects them. Padding is not projected, and no tensor of
    positions x vocabulary is made. fairseq's criterion handles models that do not project by one matrix, and the log
    says so.

    A batch with `pair_weights` has the loss of each pair multiplied by its weight, and the weighted sample size. The
    `nll_loss` of the log belongs to the text without weights.
    """

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """Return loss, sample size and log of a batch, as in fairseq's criterions; see `result`.

        The loss is the sum over the target positions, in nats (N x 1 unless `reduce`).

        Raises:
            UserError: pairs have weights, and the model has an obstacle
        """
        reason = obstacle(model)
        # No other loss supports weights and teachers: with them the kernel uses its own reference.
        alone = (WEIGHTS in sample and reduce) or self.has_teachers(model)
        taken = reason is None if alone else may_take("fused loss", reason)
        if not taken or not reduce:
            if WEIGHTS in sample and reduce:
                raise UserError(f"--pair-weights cannot be used with this model: {reason}")
            result: tuple[Any, int, dict[str, Any]] = super().forward(model, sample, reduce)
            return result
        net_output = model(**sample["net_input"], features_only=True)
        prefix = max(0, self.ignore_prefix_size)
        target = model.get_targets(sample, net_output)[:, prefix:]
        # One list of positions for both: its length is a number that a GPU's host waits for.
        counted = target.ne(self.padding_idx).nonzero(as_tuple=True)
        features = net_output[0][:, prefix:][counted]
        weight = model.decoder.output_projection.weight
        counts = sample[WEIGHTS][counted[0]] if WEIGHTS in sample else None
        taught = self.taught(model, sample, counted)
        losses = linear_cross_entropy(features, weight, target[counted], self.eps, self.report_accuracy, counts, taught)

        size = None if counts is None else sample[PAIRS if self.sentence_avg else TOKENS]
        accuracy = {"n_correct": int(losses.correct), "total": len(features)} if self.report_accuracy else {}
        return self.result(sample, losses.loss, size, nll_loss=losses.nll, **accuracy)

    def result(
        self, sample: dict[str, Any], loss: Tensor, size: Any = None, **logged: Any
    ) -> tuple[Any, int, dict[str, Any]]:
        """Return the loss of a batch, its sample size, and the log, as in fairseq's criterions.

        By default, the size is the number of sentences or of target tokens; `logged` are further entries of the log.
        """
        if size is None:
            size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        counts = {"ntokens": sample["ntokens"], "nsentences": sample["target"].size(0), "sample_size": size}
        return loss, size, {"loss": loss.detach(), **counts, **logged}

    @classmethod
    def log_mean(cls, outputs: list[dict[str, Any]], name: str, per: str, unit: float, digits: int) -> None:
        """Log the mean of an entry, if there is one, over the outputs of all processes.

        `per` names the entry with the number of tokens or sentences; the unit of a value is 1, or log 2 for bits.
        """
        if any(name in log for log in outputs):
            number = sum(log.get(per, 0) for log in outputs)
            metrics.log_scalar(name, sum(log.get(name, 0) for log in outputs) / number / unit, number, round=digits)

    def takes_weights(self, model: Any) -> bool:
        """Return whether `forward` in training multiplies by the weights of a batch's pairs."""
        return obstacle(model) is None

    def has_teachers(self, model: Any) -> bool:
        """Return whether `taught` has predictions for the positions of a batch of this model."""
        return False

    def taught(self, model: Any, sample: dict[str, Any], counted: tuple[Tensor, Tensor]) -> Optional[Taught]:
        """Return a teacher's predictions, if any, at the `counted` sentences and places of a batch, N each."""
        return None


def obstacle(model: Any) -> Optional[str]:
    """Return the reason why the features of a model, wrapped or not, cannot be projected separately, or None."""
    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, TransformerDecoderBase):
        return "the model is not fairseq's or this package's Transformer"
    if decoder.adaptive_softmax is not None:
        return "the model has an adaptive softmax"
    if type(decoder).output_layer is not TransformerDecoderBase.output_layer:
        return "the model has an output layer of its own"
    projection = decoder.output_projection
    if not isinstance(projection, nn.Linear) or projection.bias is not None or projection.weight.dim() != 2:
        return "the model's output projection is not one whole matrix"
    if getattr(model, "find_unused_parameters", False):
        # Unused parameters are sought from the model's outputs, which do not depend on the projection.
        return "--find-unused-parameters is on"
    return None
