"""Multi-head attention as one node of the graph, for the CPU, where sentences are short.

Shapes: T queries, S keys in W columns, B sentences, C channels; H heads of D channels.

    softmax(q k' / sqrt(D)) v,  projected                                          (Vaswani 2017, NIPS, equation 1)

torch's fused attention avoids a tensor of T x S probabilities, which matters for long sequences. For the few dozen
words of a sentence, the probabilities are as small as the keys, and fused blocks cost more than plain products. Here a
sublayer is one node of the graph with its own backward pass. Queries, keys and values stay where their projections
wrote them, and the products that form the gradient of the input also sum it. With fewer keys than a vector register
holds, zeros replace the missing keys, and are hidden.
"""

from typing import Any, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from deepnmt.kernels.dropout import dropout_noise
from deepnmt.kernels.hidden_keys import HIDDEN, may_blind, seen_keys
from deepnmt.kernels.products import addmm_, mm

# Keys beyond which torch's attention is faster.
SHORT = 128
# Below this, torch's softmax is up to ten times slower; from half of it on, W is this.
REGISTER = 16


class Settings(NamedTuple):
    """The arguments of `attention` that are no tensors of the graph.

    Attributes:
        heads: H
        scaling: of the queries
        padding: true or one at padded keys, B x S
        mask: added to the scores, T x S; each query sees the first key by it
        dropout: probability for the attention's probabilities
        weights: return these, B x H x T x S, without dropout
    """

    heads: int
    scaling: float
    padding: Optional[Tensor]
    mask: Optional[Tensor]
    dropout: float
    weights: bool


def reference(
    query: Tensor, key: Tensor, projections: tuple[nn.Module, ...], settings: Settings
) -> tuple[Tensor, Optional[Tensor]]:
    """Return what `attention` returns, by the formula above and without dropout, for readers and tests."""
    wq, wk, wv, wo = projections

    def heads(x: Tensor) -> Tensor:  # B x H x length x D
        return x.view(*x.shape[:2], settings.heads, -1).permute(1, 2, 0, 3)

    scores = heads(wq(query)) * settings.scaling @ heads(wk(key)).transpose(-2, -1)
    if settings.padding is not None:
        scores = scores + seen_keys(settings.padding, settings.mask, scores.dtype)[:, None]
    elif settings.mask is not None:
        scores = scores + settings.mask
    probabilities = scores.softmax(-1)
    attended = (probabilities @ heads(wv(key))).permute(2, 0, 1, 3).flatten(2)
    return wo(attended), probabilities if settings.weights else None


def attention(
    query: Tensor, key: Tensor, projections: tuple[nn.Module, ...], settings: Settings
) -> tuple[Tensor, Optional[Tensor]]:
    """Return the attended values, T x B x C, and the probabilities if `settings` asks for them.

    Args:
        query: T x B x C
        key: keys and values, S x B x C'; the query itself in self-attention
        projections: `nn.Linear` of queries, keys, values and of the result
        settings: see `Settings`
    """
    parameters = (parameter for linear in projections for parameter in (linear.weight, linear.bias))
    attended, weights = _Attention.apply(  # type: ignore[no-untyped-call]
        query, None if key is query else key, *parameters, settings
    )
    return attended, weights


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Optional[Tensor],
        wq: Tensor,
        bq: Tensor,
        wk: Tensor,
        bk: Tensor,
        wv: Tensor,
        bv: Tensor,
        wo: Tensor,
        bo: Tensor,
        settings: Settings,
    ) -> tuple[Tensor, Optional[Tensor]]:
        length, batch, _ = query.shape
        x = _rows(query)
        y = x if key is None else _rows(key)
        wq = wq * settings.scaling
        q = _heads(_linear(x, wq, bq * settings.scaling), batch, settings.heads)
        keys = len(y) // batch
        k = _heads(_linear(y, wk, bk, _width(keys) * batch), batch, settings.heads)
        v = _heads(_linear(y, wv, bv, _width(keys) * batch), batch, settings.heads)
        scores = torch.bmm(q, k.transpose(1, 2))  # BH x T x W
        each = scores.view(batch, settings.heads, *scores.shape[1:])
        for mask in _added(settings.padding, settings.mask, keys, scores):
            each.add_(mask)
        probabilities = torch.softmax(scores, dim=-1, out=scores)
        noise: Optional[Tensor] = None
        if settings.dropout > 0:
            noise = dropout_noise(probabilities[..., :keys], settings.dropout)
            noise = F.pad(noise, (0, _width(keys) - keys))
        attended = _rows(torch.bmm(probabilities if noise is None else probabilities * noise, v), batch)
        ctx.save_for_backward(x, None if key is None else y, wq, wk, wv, wo, q, k, v, probabilities, noise, attended)
        ctx.shapes = query.shape, None if key is None else key.shape
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        return _linear(attended, wo, bo).view(length, batch, -1), each[..., :keys] if settings.weights else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Optional[Tensor], to_weights: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        x, y, wq, wk, wv, wo, q, k, v, probabilities, noise, attended = ctx.saved_tensors
        settings, (shape, key_shape) = ctx.settings, ctx.shapes
        batch = shape[1]
        output = torch.zeros_like(attended) if gradient is None else _rows(gradient)
        dwo, dbo = mm(output.t(), attended), output.sum(0)
        inner = _heads(mm(output, wo), batch, settings.heads)
        dropped = probabilities if noise is None else probabilities * noise
        dv = _rows(torch.bmm(dropped.transpose(1, 2), inner), batch)
        to_scores = torch.bmm(inner, v.transpose(1, 2))
        if noise is not None:
            to_scores.mul_(noise)
        if to_weights is not None:
            to_scores[..., : to_weights.size(-1)].add_(to_weights.flatten(0, 1))
        to_scores = torch.ops.aten._softmax_backward_data(to_scores, probabilities, -1, probabilities.dtype)
        dq = _rows(torch.bmm(to_scores, k), batch)
        source = x if y is None else y
        dk = _rows(torch.bmm(to_scores.transpose(1, 2), q), batch)[: len(source)]
        dv = dv[: len(source)]
        dx = mm(dq, wq)
        dy = addmm_(dx, dk, wk) if y is None else mm(dk, wk)
        addmm_(dy, dv, wv)
        return (
            dx.view(shape),
            None if y is None else dy.view(key_shape),
            mm(dq.t(), x).mul_(settings.scaling),
            dq.sum(0).mul_(settings.scaling),
            mm(dk.t(), source),
            dk.sum(0),
            mm(dv.t(), source),
            dv.sum(0),
            dwo,
            dbo,
            None,
        )


def _width(keys: int) -> int:
    """W."""
    return REGISTER if REGISTER // 2 < keys < REGISTER else keys


def _added(padding: Optional[Tensor], mask: Optional[Tensor], keys: int, like: Tensor) -> list[Tensor]:
    """Return the masks to add to the scores, each broadcastable to B x H x T x W; see `Settings`."""
    missing = _width(keys) - keys
    if padding is not None and may_blind(padding, mask):
        return [F.pad(seen_keys(padding, mask, like.dtype), (0, missing), value=HIDDEN)[:, None]]
    masks = [] if mask is None else [F.pad(mask, (0, missing))]
    if padding is not None or missing:
        hidden = like.new_zeros(len(padding) if padding is not None else 1, keys)
        if padding is not None:
            hidden.masked_fill_(padding.bool(), HIDDEN)
        masks.append(F.pad(hidden, (0, missing), value=HIDDEN)[:, None, None, :])
    return masks


def _linear(x: Tensor, weight: Tensor, bias: Tensor, rows: Optional[int] = None) -> Tensor:
    """x W' + b; zeros from row len(x) on, up to `rows`."""
    # torch's addmm writes the bias to all rows before the product.
    if rows is None or rows == len(x):
        return mm(x, weight.t()).add_(bias)
    result = x.new_empty(rows, len(weight))
    torch.add(mm(x, weight.t()), bias, out=result[: len(x)])
    result[len(x) :].zero_()
    return result


def _heads(x: Tensor, batch: int, heads: int) -> Tensor:
    """TB x C -> BH x T x D, a view."""
    return x.view(-1, batch * heads, x.size(1) // heads).transpose(0, 1)


def _rows(x: Tensor, batch: Optional[int] = None) -> Tensor:
    """T x B x C -> TB x C; with `batch`, BH x T x D -> TB x C."""
    if batch is None:
        return x.reshape(-1, x.size(2))
    return x.transpose(0, 1).reshape(x.size(1) * batch, -1)
