"""Weighted sums over all earlier outputs, at the cost of a few reads of each.

Shapes: T x B x C is time, batch, channel; R rows; S is 1 (a weight per output) or C (a weight per channel).

Row by row, `x_i = sum_{k<=i} W[i, k] z_k` reads the outputs of 48 layers 1,176 times. Read in blocks of rows, as in
triangular solvers, about 330 reads are enough. When a block of rows begins, one matrix product gives the share of all
older outputs in its sums. Inside the block only the newest outputs are added.

The backward pass has the same shape. Each row depends on the previous one, so the gradients `g_l` of all later rows are
known when row i needs its own. The gradient of its newest output is formed at once,

    dLoss/dz_i = sum_{l>=i} W[l, i] g_l,        dLoss/dW[l, k] = <g_l, z_k>

rather than accumulated row by row.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepnmt.kernels.fast_path import may_take


def reference(weight: Tensor, z: Sequence[Tensor]) -> list[Tensor]:
    """Return the sums x_i of the formula above, from a weight R x R x S, for readers and tests."""
    return [sum((weight[i, k] * z[k] for k in range(i + 1)), torch.zeros_like(z[0])) for i in range(len(z))]


class BlockedSums:
    """`sum_j A[i, j] v_j` for row after row i, while the `v_j` arrive; a row reads the outputs so far.

    Args:
        matrix: A, R x R x S
        like: a tensor of the shape, type and device of `v_j`, T x B x C
        room: initial memory, as a number of `v_j`; more is taken when it is full
        window: A[i, j] is 0 for j <= i - window, unless the window is 0
    """

    def __init__(self, matrix: Tensor, like: Tensor, room: int, window: int) -> None:
        self.matrix = matrix.to(like.dtype, copy=True)  # columns move in it
        self.window = window
        self.block = max(4, math.isqrt(len(matrix)))  # with the square root, the fewest reads
        self.values = like.new_empty(min(room, len(matrix)), *like.shape)
        self.columns: list[int] = []
        self.begins = self.ends = 0  # the block's rows
        self.older = 0  # values whose share in the block's rows is in `shares`
        self.shares = like.new_empty(0)

    def slot(self) -> Tensor:
        """Return the place of the next value, T x B x C; for autograd a tensor of its own."""
        count = len(self.columns)
        if count == len(self.values):
            room = min(count * self.block, len(self.matrix))
            values, self.values = self.values, self.values.new_empty(room, *self.values.shape[1:])
            self.values[:count] = values
        return self.values[count].data

    def arrived(self, column: int) -> None:
        """Note that the slot has its value, `v_j` of this column j; columns grow."""
        count = len(self.columns)
        if column != count:
            # The values' columns stay together: picking them by a list of numbers would wait for the GPU.
            self.matrix[:, count] = self.matrix[:, column]
        self.columns.append(column)

    def present(self) -> Tensor:
        """Return the values so far, n x T x B x C; for autograd a tensor of its own."""
        return self.values[: len(self.columns)].data

    def row(self, row: int) -> Tensor:
        """Return the sum of row i, T x B x C; rows grow. For autograd a tensor of its own."""
        count = len(self.columns)
        if row >= self.ends:
            self._begin_block(row)
        total = self.shares[row - self.begins]
        if self.older < count:
            weights = self.matrix[row, self.older : count]
            if self._channelwise:
                for value, weight in zip(self.values[self.older : count], weights):
                    total.addcmul_(value, weight)
            else:
                torch.addmv(total, self.values[self.older : count].flatten(1).t(), weights[:, 0], out=total)
        return total.data.view_as(self.values[0])

    def _begin_block(self, row: int) -> None:
        """Give the rows from this one on their share of the values so far."""
        self.older = len(self.columns)
        # As long as there is little to read, a large block would waste memory.
        self.begins, self.ends = row, min(row + min(self.older, self.block), len(self.matrix))
        first = self._first(row)
        weights = self.matrix[self.begins : self.ends, first : self.older]
        values = self.values[first : self.older]
        if not self._channelwise:
            self.shares = torch.mm(weights[..., 0], values.flatten(1))
            return
        # A value times the weights of all rows, rather than a batched product, which would copy the values.
        weights = weights[:, :, None, None]  # rows x n x 1 x 1 x C
        self.shares = values[0] * weights[:, 0]
        for index in range(1, len(values)):
            self.shares.addcmul_(values[index], weights[:, index])

    @property
    def _channelwise(self) -> bool:
        return self.matrix.size(-1) > 1

    def _first(self, row: int) -> int:
        """Return the first value that a row, or a later one, reads; the newest if it reads none."""
        if not self.window:
            return 0
        return min(bisect_left(self.columns, row + 1 - self.window), len(self.columns) - 1)


class Combinations:
    """The sums of one forward pass; W is R x R x S, and the window as in `BlockedSums`."""

    def __init__(self, weight: Tensor, window: int) -> None:
        self.weight = weight
        self.window = window
        self.sums: Optional[BlockedSums] = None
        self.tape = _Tape(weight, window)
        self.link: Optional[Tensor] = None
        self.newest: Optional[Tensor] = None

    def slot(self, like: Tensor) -> Tensor:
        """Memory for an output of the shape T x B x C, type and device of `like`; it need not be used."""
        if self.sums is None:
            self.sums = BlockedSums(self.weight.detach(), like, len(self.weight), self.window)
        return self.sums.slot()

    def add(self, column: int, output: Tensor) -> None:
        """Add the newest output, T x B x C, which belongs to a column."""
        slot = self.slot(output)
        if slot.data_ptr() != output.data_ptr():
            slot.copy_(output.detach())
        assert self.sums is not None
        self.sums.arrived(column)
        self.newest = output

    def total(self, row: int) -> Tensor:
        """Return the sum of a row, T x B x C; to be called after each added output.

        If the row's window is empty, the sum is the newest output alone.
        """
        weight = self.weight if self.link is None else None
        arguments = (self.newest, self.link, weight, self.sums, self.tape, row)
        total, link = _Combine.apply(*arguments)  # type: ignore[no-untyped-call]
        self.newest = None
        self.link = link if link.requires_grad else None
        return total  # type: ignore[no-any-return]


class PlainCombinations:
    """The sums of one forward pass by the formula; called as `Combinations`."""

    def __init__(self, weight: Tensor, window: int) -> None:
        self.weight, self.window = weight, window
        self.columns: list[int] = []
        self.outputs: list[Tensor] = []

    def slot(self, like: Tensor) -> Tensor:
        """Return memory for an output."""
        return torch.empty_like(like)

    def add(self, column: int, output: Tensor) -> None:
        """Add the newest output, T x B x C."""
        self.columns.append(column)
        self.outputs.append(output)

    def total(self, row: int) -> Tensor:
        """Return the sum of a row, or the newest output if the row's window is empty."""
        read = [
            self.weight[row, column].to(output) * output
            for column, output in zip(self.columns, self.outputs)
            if not self.window or column > row - self.window
        ]
        return sum(read[1:], read[0]) if read else self.outputs[-1]


def combinations(weight: Tensor, window: int) -> Union[Combinations, PlainCombinations]:
    """Return the sums of one forward pass, in blocks of rows where fast paths may be taken."""
    return (Combinations if may_take("blocked sums", None) else PlainCombinations)(weight, window)


class _Tape:
    """The messages between the rows of one forward pass in the backward pass; see `Combinations`."""

    def __init__(self, weight: Tensor, window: int) -> None:
        self.weight = weight.detach()
        self.trained = weight.requires_grad
        self.window = window
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.alone: list[int] = []  # rows, by their place in `rows`, whose sum is the newest output
        self.gradients: Optional[BlockedSums] = None
        self.outputs: Optional[Tensor] = None

    def begin(self, last: int, like: Tensor, outputs: Optional[Tensor]) -> None:
        """Begin a backward pass with the row at this place; `outputs` are the inputs of it and all earlier rows."""
        matrix = _chosen(_chosen(self.weight, self.rows[: last + 1], 0), self.columns[: last + 1], 1).clone()
        for place in (place for place in self.alone if place <= last):
            matrix[place].zero_()
            matrix[place, place].fill_(1.0)
        # The messages from later rows to earlier ones, both numbered from the end. At first, memory is at its peak;
        # there is room for more when later layers have freed theirs.
        reverse = matrix.flip(0, 1).transpose(0, 1)
        self.gradients = BlockedSums(reverse, like, 2, self.window)
        self.outputs = outputs

    def next(self, gradient: Tensor) -> Tensor:
        """Return the gradient of a row's newest output, given the gradient of its sum."""
        assert self.gradients is not None
        number = len(self.gradients.columns)
        self.gradients.slot().copy_(gradient)
        self.gradients.arrived(number)
        return self.gradients.row(number)

    def weight_gradient(self) -> Tensor:
        """Return the gradient of W from all rows of the backward pass; only entries that a row reads are meaningful."""
        assert self.gradients is not None
        assert self.outputs is not None
        gradients = self.gradients.present()
        exact = torch.promote_types(gradients.dtype, torch.float32)
        count = len(gradients)
        result = self.weight.new_zeros((count, count, self.weight.size(-1)), dtype=exact)
        for begin in range(0, count, self.gradients.block):
            some = gradients[begin : begin + self.gradients.block]
            ends = count - begin  # the gradients begin with the last row's
            products = _products(some, self.outputs[:ends], self.weight.size(-1) > 1)
            result[ends - len(some) : ends, :ends] = products.flip(0)
        spread = _spread(
            _spread(result, self.rows[:count], len(self.weight), 0), self.columns[:count], len(self.weight), 1
        )
        return spread.to(self.weight.dtype)

    def end(self) -> None:
        """End the backward pass."""
        self.gradients = self.outputs = None


class _Combine(torch.autograd.Function):
    """A row's sum, as a function of its newest output, of the row before and, for the first row, of W.

    The second output, which the next row takes, is empty. It makes the backward pass visit the rows in turn. Where its
    gradient is undefined, no later row is in this backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        output: Tensor,
        link: Optional[Tensor],
        weight: Optional[Tensor],
        sums: BlockedSums,
        tape: _Tape,
        row: int,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.tape, ctx.place, ctx.shape = tape, len(tape.rows), output.shape
        tape.rows.append(row)
        tape.columns.append(sums.columns[-1])
        # Only the gradient of W needs the outputs.
        if tape.trained:
            ctx.save_for_backward(sums.present())
        alone = bool(tape.window) and sums.columns[-1] <= row - tape.window
        if alone:
            tape.alone.append(ctx.place)
        # In mixed precision the outputs keep their type.
        with torch.autocast(output.device.type, enabled=False):
            total = output.clone() if alone else sums.row(row)
        return total, output.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Optional[Tensor], link: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
        tape: _Tape = ctx.tape
        if gradient is None:
            gradient = tape.weight.new_zeros(()).expand(ctx.shape)
        _, needs_link, needs_weight = ctx.needs_input_grad[:3]
        with torch.autocast(gradient.device.type, enabled=False):
            if link is None:
                tape.begin(ctx.place, gradient, *(ctx.saved_tensors or (None,)))
            to_output = tape.next(gradient)
            to_weight = tape.weight_gradient() if needs_weight else None
        if not needs_link:
            tape.end()
        return to_output, gradient.new_empty(0) if needs_link else None, to_weight, None, None, None


def _products(gradients: Tensor, outputs: Tensor, channelwise: bool) -> Tensor:
    """Return `<g_i, z_j>` for all pairs, M x N x S, in float32 at least; channelwise, the sum is over T and B alone.

    The gradients `g_i` are M x T x B x C, and the outputs `z_j` N x T x B x C.
    """
    exact = torch.promote_types(gradients.dtype, torch.float32)
    gradients, outputs = gradients.flatten(1, 2), outputs.flatten(1, 2)
    if channelwise:
        gradients = gradients.to(exact)
        return torch.stack([(gradients * output).sum(1) for output in outputs], dim=1)
    # A small product for each position: the libraries are slow at one that is narrow and long.
    return torch.bmm(gradients.transpose(0, 1), outputs.permute(1, 2, 0)).sum(0, dtype=exact).unsqueeze(-1)


def _runs(indices: list[int]) -> list[tuple[int, int, int]]:
    """Return the stretches of consecutive numbers in a growing list: place of the first, the first, how many."""
    starts = [place for place, index in enumerate(indices) if place == 0 or index != indices[place - 1] + 1]
    return [(a, indices[a], b - a) for a, b in zip(starts, [*starts[1:], len(indices)])]


def _chosen(x: Tensor, indices: list[int], dim: int) -> Tensor:
    """Return `x.index_select(dim, indices)`, without a copy of the indices to the GPU, which would wait for it."""
    pieces = [x.narrow(dim, index, count) for _, index, count in _runs(indices)]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)


def _spread(x: Tensor, indices: list[int], size: int, dim: int) -> Tensor:
    """Return the opposite of `_chosen`: x at these indices of an axis of this size, and zeros elsewhere."""
    if len(indices) == size:
        return x
    shape = list(x.shape)
    shape[dim] = size
    result = x.new_zeros(shape)
    for place, index, count in _runs(indices):
        result.narrow(dim, index, count).copy_(x.narrow(dim, place, count))
    return result
