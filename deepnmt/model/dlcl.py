"""DLCL and group-dense connections: the input of a layer is a weighted sum of earlier outputs.

Shapes: T x B x C is time, batch, channel; G groups of layers, R = G + 1 rows; S slices of the channels.

The stack is cut into groups of layers, chained plainly inside (methods 3: Li 2020, EMNLP, arXiv 2010.03737). `y_0` is
the embedding and `y_g` the output of group `g`. The input of group `g + 1` is a sum over `y_0 .. y_g` (Wang 2019, ACL,
arXiv 1906.01787). `reference` has the formula and readable code; `LayerHistory` computes the same in less time. The
output of the stack is one more combination, row R. Groups of one layer are DLCL; without a history the stack is the
standard Transformer.
"""
# Twin: deepnmt/search/incremental/dlcl_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/layers.py computes it in ONNX Runtime; change this too.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union, cast

import torch
from torch import Tensor, nn

from deepnmt.kernels.blocked_sums import Combinations, PlainCombinations, combinations
from deepnmt.kernels.output_norm import OutputNorm
from deepnmt.model.groups import oldest_output


def reference(history: "LayerHistory", y: Sequence[Tensor]) -> Tensor:
    """Return the input of group g + 1 after the outputs `y_0 .. y_g`, T x B x C each, without dropout.

    - pre-norm   x_{g+1} = sum_{k=0..g} W[g+1, k] z_k,  z_0 = y_0,  z_k = LN_k(y_k)      (5)
    - post-norm  x_{g+1} = LN_g( sum_{k=0..g} W[g+1, k] y_k ),  no LN for g = 0          (6)
    """
    g, pre_norm = len(y) - 1, history.normalize_before
    W = history.matrix()[g]  # row g + 1
    LN = [history.norm(k) or nn.Identity() for k in range(g + 1)]
    z = [LN[k](y[k]) if pre_norm else y[k] for k in range(g + 1)]
    total = sum((W[k] * z[k] for k in range(g + 1)), torch.zeros_like(y[0]))
    return total if pre_norm else cast(Tensor, LN[g](total))


@dataclass(frozen=True)
class HistoryOptions:
    """The choices of the original DLCL code, for one stack.

    Attributes:
        slices: weights per output: 1 scalar, n scalars over equal slices of the channels, or C for a vector
        init: "mean" starts a row at one over its length, "one" at 1
        window: only the last `window` outputs are read; 0: all
        freeze: the weights keep their initial values
        softmax: a row is normalised by a softmax over the outputs it reads
        dropout: probability, on the combination
        embedding_norm: an LN on the embedding too: `z_0 = LN_0(y_0)` in (5), LN for `g = 0` in (6)
    """

    slices: int = 1
    init: str = "mean"
    window: int = 0
    freeze: bool = False
    softmax: bool = False
    dropout: float = 0.0
    embedding_norm: bool = False


class LayerHistory(nn.Module):
    """The weights `W` and norms `LN_k` of one stack.

    Args:
        width: channels, C
        boundaries: first layer of each group and, last, the depth: (0, 6, 12) are two groups of six layers
        normalize_before: pre-norm (5) rather than post-norm (6)
        options: see `HistoryOptions`; `slices` must divide `width`
    """

    reads: Tensor

    def __init__(self, width: int, boundaries: Sequence[int], normalize_before: bool, options: HistoryOptions) -> None:
        super().__init__()
        self.options = options
        self.width = width
        self.normalize_before = normalize_before
        groups = len(boundaries) - 1
        self.group_of = [g for g in range(1, groups + 1) for _ in range(boundaries[g - 1], boundaries[g])]
        self.weight = nn.Parameter(self.initial_weight(groups), requires_grad=not options.freeze)
        self.register_buffer("reads", self.readable(groups), persistent=False)
        self.layer_norms = nn.ModuleList(OutputNorm(width) for _ in range(groups))
        self.embedding_norm = OutputNorm(width) if options.embedding_norm else None
        if options.dropout:
            # here, since plans of growth and inference do without fairseq
            from fairseq.modules import FairseqDropout

            self.dropout_module = FairseqDropout(options.dropout, module_name=type(self).__name__)

    def initial_weight(self, groups: int) -> Tensor:
        """Return the first `W`, R x R x S, lower-triangular; row g stands at index g - 1."""
        weight = torch.zeros(groups + 1, groups + 1, self.options.slices)
        for row in range(1, groups + 2):
            oldest = self.oldest(row)
            weight[row - 1, oldest:row] = 1.0 / (row - oldest) if self.options.init == "mean" else 1.0
        return weight

    def readable(self, groups: int) -> Tensor:
        """Return the entries of `W` that are read, R x R x 1."""
        outputs = torch.arange(groups + 1)
        oldest = torch.tensor([self.oldest(row) for row in range(1, groups + 2)])
        return ((outputs <= outputs[:, None]) & (outputs >= oldest[:, None])).unsqueeze(-1)

    def oldest(self, row: int) -> int:
        """Return the oldest output that a row reads."""
        return oldest_output(row, self.options.window)

    def start(self) -> "HistoryPass":
        """Begin a forward pass through the stack."""
        return HistoryPass(self)

    def norm(self, group: int) -> OutputNorm | None:
        """Return `LN_group`; None for the embedding unless it has one."""
        return self.embedding_norm if group == 0 else cast(OutputNorm, self.layer_norms[group - 1])

    def matrix(self) -> Tensor:
        """Return `W` as applied, 0 for outputs that are not read: R x R x 1, or R x R x C where S > 1."""
        fill = float("-inf") if self.options.softmax else 0.0
        weight = self.weight.masked_fill(~self.reads, fill)
        if self.options.softmax:
            weight = weight.softmax(dim=1)
        if 1 < self.options.slices < self.width:
            weight = weight.repeat_interleave(self.width // self.options.slices, dim=2)
        return weight

    def row(self, row: int) -> Tensor:
        """Return the weights of a row, a line for each output from `oldest(row)`: n x 1, or n x C where S > 1."""
        return self.matrix()[row - 1, self.oldest(row) : row]

    def combine(self, row: int, sums: Union[Combinations, PlainCombinations]) -> Tensor:
        """Return the sum of (5) or (6) for a row, with dropout and, post-norm, its LN.

        Args:
            row: 1 for the first group's input up to R for the output of the stack
            sums: the outputs of the groups so far. Groups whose layers were all dropped are absent, and so is their
                term of the sum. If all inputs of the row are absent, the newest output takes their place.
        """
        total = sums.total(row - 1)
        if self.options.dropout:
            total = self.dropout_module(total)
        norm = None if self.normalize_before else self.norm(row - 1)
        return total if norm is None else norm(total)


class HistoryPass:
    """The outputs kept during one forward pass."""

    def __init__(self, history: LayerHistory) -> None:
        self.history = history
        self.group = 0
        self.sums = combinations(history.matrix(), history.options.window)

    def input(self, index: int, x: Tensor) -> Tensor:
        """Return the input of layer `index` (from 0); `x` is the last running layer's output, or the embedding."""
        group = self.history.group_of[index]
        return x if group == self.group else self._next(group, x)

    def finish(self, x: Tensor) -> Tensor:
        """Return the output of the stack; `x` is the output of the last layer that ran."""
        return self._next(len(self.history.layer_norms) + 1, x)

    def _next(self, row: int, x: Tensor) -> Tensor:
        norm = self.history.norm(self.group) if self.history.normalize_before else None
        # A norm writes its output to the memory from which sums are taken.
        output = x if norm is None else norm(x, lambda: self.sums.slot(x))
        self.sums.add(self.group, output)
        self.group = row
        return self.history.combine(row, self.sums)
