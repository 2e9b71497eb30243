"""Consistency training: two passes of a batch, and how far apart their predictions are.

Shapes: B sentences, T target positions, N = B * T of them, V types. A doubled batch holds 2B sentences: those of the
first pass, then the same again for the second. One forward of it makes both passes: their dropout masks are
independent, and the model is called once for each backward, as distributed training wants it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion, label_smoothed_nll_loss
from fairseq.logging import metrics
from torch import Tensor

# Target positions compared at a time, so that what is needed on the way stays small beside N x V.
ROWS = 512


class ConsistencyCriterion(LabelSmoothedCrossEntropyCriterion):  # type: ignore[misc]
    """Label-smoothed cross entropy, with a penalty on two passes that predict differently, in training only.

    In validation it is fairseq's `label_smoothed_cross_entropy`. What a model draws once for the whole batch, such as
    the layers that it drops, is the same in both passes.

    Args:
        task: gives the padding index
        cfg: fairseq's options of `label_smoothed_cross_entropy`, and those of the subclass
    """

    def __init__(self, task: Any, cfg: Any) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)

    def run(self, model: Any, inputs: dict[str, Any]) -> Any:
        """The model's output for a doubled batch."""
        return model(**inputs)

    def combine(self, nll: Tensor, kl: Tensor) -> Tensor:
        """The loss of each target position, N x 1.

        Args:
            nll: label-smoothed, of the first and of the second pass, 2 x N x 1
            kl: KL(first | second) and KL(second | first), 2 x N x 1
        """
        raise NotImplementedError

    def report(self, values: Tensor) -> Tensor:
        """What the log shows, N x 1, of an `nll` (without smoothing) or `kl` as in `combine`."""
        raise NotImplementedError

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, Any]:
        """The loss of a batch, as fairseq's criterions give it.

        Returns:
            the sum over the target positions, in nats (N x 1 unless `reduce`); the sample size, of the batch before
            doubling; and what to log. The accuracy is that of the first pass.
        """
        if not model.training:
            result: tuple[Tensor, int, Any] = super().forward(model, sample, reduce)
            return result
        sentences = sample["target"].size(0)
        net_output = self.run(model, doubled(sample["net_input"], sentences))
        lprobs = model.get_normalized_probs(net_output, log_probs=True)
        # fairseq's adaptive softmax stays in half precision.
        lprobs = lprobs.to(torch.promote_types(lprobs.dtype, torch.float32)).view(-1, lprobs.size(-1))
        target = self.counted(model.get_targets(sample, net_output)).reshape(-1, 1)

        smoothed, nll = label_smoothed_nll_loss(
            lprobs, target.repeat(2, 1), self.eps, ignore_index=self.padding_idx, reduce=False
        )
        kl = divergences(lprobs).masked_fill(target.eq(self.padding_idx), 0.0)
        loss = self.combine(smoothed.view_as(kl), kl)
        nll, reported_kl = self.report(nll.detach().view_as(kl)), self.report(kl.detach())
        if reduce:
            loss, nll, reported_kl = loss.sum(), nll.sum(), reported_kl.sum()

        sample_size = sentences if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": loss.detach(),
            "nll_loss": nll,
            "kl_loss": reported_kl,
            "ntokens": sample["ntokens"],
            "nsentences": sentences,
            "sample_size": sample_size,
        }
        if self.report_accuracy:
            visible = target.ne(self.padding_idx).squeeze(1)
            best = lprobs.detach()[: len(target)].argmax(1)
            logging_output["n_correct"] = utils.item(best.eq(target.squeeze(1))[visible].sum())
            logging_output["total"] = utils.item(visible.sum())
        return loss, sample_size, logging_output

    def counted(self, target: Tensor) -> Tensor:
        """The target, B x T, with padding in the place of the prefix that does not count."""
        if self.ignore_prefix_size <= 0:
            return target
        target = target.clone()
        target[:, : self.ignore_prefix_size] = self.padding_idx
        return target

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log what fairseq logs and, in training, the divergence in bits per token as `kl_loss`."""
        super().reduce_metrics(logging_outputs)
        if any("kl_loss" in log for log in logging_outputs):
            ntokens = sum(log.get("ntokens", 0) for log in logging_outputs)
            kl = sum(log.get("kl_loss", 0) for log in logging_outputs)
            metrics.log_scalar("kl_loss", kl / ntokens / math.log(2), ntokens, round=3)


def doubled(inputs: dict[str, Any], sentences: int) -> dict[str, Any]:
    """A net input twice: all tensors whose first axis has the length `sentences`, B; the rest is passed on."""

    def twice(tensor: Tensor) -> Tensor:
        return torch.cat([tensor, tensor]) if tensor.dim() and len(tensor) == sentences else tensor

    result: dict[str, Any] = utils.apply_to_sample(twice, inputs)
    return result


def divergences(lprobs: Tensor) -> Tensor:
    """KL(P1|P2) = sum_v P1(v) (log P1(v) - log P2(v)) at each position, and KL(P2|P1).

    Args:
        lprobs: log-probabilities of the first pass, then of the second, 2N x V

    Returns:
        2 x N x 1, in nats
    """
    result: Tensor = _Divergences.apply(lprobs)  # type: ignore[no-untyped-call]
    return result


class _Divergences(torch.autograd.Function):
    """`divergences`, which keeps nothing but its input, and makes one tensor of that size in the backward pass.

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
