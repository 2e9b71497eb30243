"""Consistency training: two passes of a batch, and the divergence of their predictions.

Shapes: B sentences, T target positions, N = B * T of them, V types. A doubled batch holds 2B sentences: the first pass,
followed by the same sentences for the second. One forward of it makes both passes, with independent dropout masks. The
model is thus called once per backward, as distributed training requires.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterionConfig,
    label_smoothed_nll_loss,
)
from torch import Tensor

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.errors import UserError
from deepnmt.kernels.fast_path import may_take
from deepnmt.kernels.linear_consistency import Coefficients, Pair, linear_consistency
from deepnmt.options.option_table import described

# Target positions compared at a time, so that intermediate tensors stay small beside N x V.
ROWS = 512


@dataclass
class ConsistencyConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and the update at which the divergence begins to count."""

    consistency_start_update: int = described(0, "number of initial updates with the plain loss, in one pass")


class ConsistencyCriterion(FusedLabelSmoothedCrossEntropy):
    """Label-smoothed cross entropy, with a penalty on two passes that predict differently, in training only.

    In validation, and before `--consistency-start-update`, it is the label-smoothed cross entropy alone. Random
    choices for the whole batch, such as dropped layers, are the same in both passes.

    Args:
        task: gives the padding index
        cfg: the options

    Attributes:
        coefficients: of both passes' losses and of both divergences; set by the subclass
        shown: weights of both passes, and of both divergences, in the log; set by the subclass
    """

    coefficients: Coefficients
    shown: Pair

    def __init__(self, task: Any, cfg: Any) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        if cfg.consistency_start_update < 0:
            raise UserError(f"--consistency-start-update must be at least 0, but is {cfg.consistency_start_update}")
        self.start_update = cfg.consistency_start_update
        self.updates = 0

    def set_num_updates(self, updates: int) -> None:
        """Record the number of updates; called by the trainer."""
        self.updates = updates

    def run(self, model: Any, inputs: dict[str, Any], **options: Any) -> Any:
        """Return the model's output for a doubled batch."""
        return model(**inputs, **options)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, Any]:
        """Return loss, sample size and log of a batch, as in fairseq's criterions.

        The loss is the sum over the target positions, in nats (N x 1 unless `reduce`). The sample size counts the batch
        before doubling. The accuracy belongs to the first pass.
        """
        if not model.training or self.updates < self.start_update:
            result: tuple[Tensor, int, Any] = super().forward(model, sample, reduce)
            return result
        inputs = doubled(sample["net_input"], sample["target"].size(0))
        compute = self.fused if may_take("fused loss", obstacle(model)) and reduce else self.unfused
        loss, nll, kl, log = compute(model, sample, inputs)
        if reduce:
            loss, nll, kl = loss.sum(), nll.sum(), kl.sum()
        return self.result(sample, loss, nll_loss=nll, kl_loss=kl, **log)

    def takes_weights(self, model: Any) -> bool:
        """Return False: two passes have the weights position by position."""
        return False

    def fused(
        self, model: Any, sample: dict[str, Any], inputs: dict[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
        """Return the batch's loss, the `nll_loss` and `kl_loss` to log, and the accuracy to log if requested."""
        net_output = self.run(model, inputs, features_only=True)
        target = self.counted(model.get_targets(sample, net_output)).flatten()
        positions = target.ne(self.padding_idx).nonzero().squeeze(1)
        features = net_output[0].reshape(2, len(target), -1).index_select(1, positions).flatten(0, 1)
        losses = linear_consistency(
            features,
            model.decoder.output_projection.weight,
            target.index_select(0, positions),
            self.eps,
            self.coefficients,
            self.report_accuracy,
        )
        log = {"n_correct": int(losses.correct), "total": len(positions)} if self.report_accuracy else {}
        return losses.loss, self.report(losses.nll), self.report(losses.kl), log

    def unfused(
        self, model: Any, sample: dict[str, Any], inputs: dict[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Any]]:
        """Return the same as `fused` for any model, with a loss, `nll_loss` and `kl_loss` for each position, N x 1."""
        net_output = self.run(model, inputs)
        lprobs = model.get_normalized_probs(net_output, log_probs=True)
        # fairseq's adaptive softmax stays in half precision.
        lprobs = lprobs.to(torch.promote_types(lprobs.dtype, torch.float32)).view(-1, lprobs.size(-1))
        target = self.counted(model.get_targets(sample, net_output)).reshape(-1, 1)

        smoothed, nll = label_smoothed_nll_loss(
            lprobs, target.repeat(2, 1), self.eps, ignore_index=self.padding_idx, reduce=False
        )
        kl = divergences(lprobs).masked_fill(target.eq(self.padding_idx), 0.0)
        (a, b), smoothed = self.coefficients, smoothed.view_as(kl)
        loss = a[0] * smoothed[0] + a[1] * smoothed[1] + b[0] * kl[0] + b[1] * kl[1]
        log = {}
        if self.report_accuracy:
            visible = target.ne(self.padding_idx).squeeze(1)
            best = lprobs.detach()[: len(target)].argmax(1)
            log["n_correct"] = utils.item(best.eq(target.squeeze(1))[visible].sum())
            log["total"] = utils.item(visible.sum())
        return loss, self.report(nll.detach().view_as(kl)), self.report(kl.detach()), log

    def report(self, values: Tensor) -> Tensor:
        """Return the logged combination of both passes' values, or of both divergences, 2 x ..."""
        return self.shown[0] * values[0] + self.shown[1] * values[1]

    def counted(self, target: Tensor) -> Tensor:
        """Return the target, B x T, with padding in place of the prefix that does not count."""
        if self.ignore_prefix_size <= 0:
            return target
        target = target.clone()
        target[:, : self.ignore_prefix_size] = self.padding_idx
        return target

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log what fairseq logs and, in training, the divergence in bits per token as `kl_loss`."""
        super().reduce_metrics(logging_outputs)
        cls.log_mean(logging_outputs, "kl_loss", "ntokens", math.log(2), 3)


def doubled(inputs: dict[str, Any], sentences: int) -> dict[str, Any]:
    """Return a net input twice: all tensors whose first axis has the length `sentences`, B; others stay unchanged."""

    def twice(tensor: Tensor) -> Tensor:
        return torch.cat([tensor, tensor]) if tensor.dim() and len(tensor) == sentences else tensor

    result: dict[str, Any] = utils.apply_to_sample(twice, inputs)
    return result


def divergences(lprobs: Tensor) -> Tensor:
    """Return KL(P1|P2) = sum_v P1(v) (log P1(v) - log P2(v)) at each position, and KL(P2|P1), 2 x N x 1, in nats.

    The log-probabilities are from the first pass, followed by the second, 2N x V.
    """
    result: Tensor = _Divergences.apply(lprobs)  # type: ignore[no-untyped-call]
    return result


class _Divergences(torch.autograd.Function):
    """`divergences`, which keeps only its input, and makes one tensor of that size in the backward pass.

    With D = log P1 - log P2 and the incoming gradients g1 of KL(P1|P2) and g2 of KL(P2|P1), the gradients are

        of log P1:   g1 P1 (D + 1) - g2 P2
        of log P2:   g2 P2 (1 - D) - g1 P1
    """

    @staticmethod
    def forward(ctx: Any, lprobs: Tensor) -> Tensor:
        ctx.save_for_backward(lprobs)
        pieces = []
        for first, second in _pieces(lprobs):
            difference = first - second
            there = (first.exp() * difference).sum(dim=1, keepdim=True)
            back = -(second.exp() * difference).sum(dim=1, keepdim=True)
            pieces.append(torch.stack([there, back]))
        return torch.cat(pieces, dim=1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (lprobs,) = ctx.saved_tensors
        result = torch.empty_like(lprobs)
        pieces = zip(_pieces(lprobs), _pieces(result), torch.split(gradient, ROWS, dim=1))
        for (first, second), (to_first, to_second), (there, back) in pieces:
            difference = first - second
            p, q = first.exp().mul_(there), second.exp().mul_(back)
            torch.addcmul(torch.sub(p, q, out=to_first), p, difference, out=to_first)
            torch.addcmul(torch.sub(q, p, out=to_second), q, difference, value=-1, out=to_second)
        return result


def _pieces(lprobs: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    first, second = lprobs.chunk(2)
    return zip(torch.split(first, ROWS), torch.split(second, ROWS))
