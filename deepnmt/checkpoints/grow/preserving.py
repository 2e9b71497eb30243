"""Growth that leaves the function of the model as it is: its logits are equal before and after.

Two ways for the new layers, which training then breaks out of:

    unread     where a history can reach all that the old rows read, groups of copies are copied whole, and no old row,
               nor the output row, reads them. The new weights of W have gradients at once
    identity   elsewhere, each copy passes on what it reads: the projections that end its sublayers are zero, with
               their biases; they have gradients at once. New rows of a history read the newest output alone

Behind zero projections pre-norm (2) and no norm (3) are the identity. A post-norm is the identity on what another one
has normalised, if both have gain 1 and bias 0; so gain and bias of the last norm before a run of identities move to the
last norm of the run. This holds up to the norm's epsilon e: a vector of variance v is scaled by 1 + (e/v - e) / 2.

What the depth itself changes in the layers that stay goes into their last projections, see `rescale.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Optional

import torch
from torch import Tensor

from deepnmt.checkpoints.grow.grow_plan import cuts_a_group, grown_history
from deepnmt.checkpoints.plans import HistoryPlan, LayerPlan, fitting_groups
from deepnmt.checkpoints.rescale import branch_factors, can_rescale, projection, scale_branches, sublayers
from deepnmt.model.stack import StackOptions

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Preserved:
    """How one stack keeps its function.

    Attributes:
        history: the plan of its connections; None where it is plain
        identities: the layers that pass on what they read
        chained: new rows of the history read the newest output alone
        factors: what the last projection of each sublayer is multiplied by, a tuple for each layer
    """

    history: Optional[HistoryPlan]
    identities: frozenset[int]
    chained: bool
    factors: tuple[tuple[float, ...], ...]


def preserve(
    old: StackOptions, new: StackOptions, layers: LayerPlan, learns_rows: bool, has_final_norm: bool
) -> Preserved:
    """Return the way for one stack.

    Args:
        old: its numbers before
        new: its numbers after
        layers: how it grows, or does not
        learns_rows: the weights of its history are trained, and not normalised by a softmax
        has_final_norm: the final LN of (2) follows it

    Raises:
        ValueError: there is none; says why
    """
    stack = new.name
    if not can_rescale(old, new):
        raise ValueError(
            f"--function-preserving is not possible for the {stack}: DeepNorm's scale goes from "
            f"{old.residual_scale:.4g} to {new.residual_scale:.4g}, and B2T adds the layer's input unscaled"
        )
    factors = branch_factors(old, new, layers)
    added = frozenset(layer for layer in range(len(layers.sources)) if layers.added(layer))
    if added and not new.norm.can_be_identity:
        raise ValueError(
            f"--function-preserving is not possible for the {stack}: with --{stack}-norm {new.norm.name} no layer can "
            "pass on what it reads"
        )
    before, after = old.boundaries, new.boundaries
    if before is None or after is None or not added:
        return Preserved(None, added, True, factors)
    fitting = fitting_groups(old.groups, layers)
    if cuts_a_group(layers, before, after):
        raise ValueError(
            f"--{stack}-groups must not divide a present group with --function-preserving, but is '{new.groups}'; "
            f"'{fitting}' does not"
        )
    bypass = grown_history(layers, before, after, new.oldest, bypass=True)
    if bypass.rows[-1] is not None and bypass.keeps(len(before)) and (learns_rows or None not in bypass.outputs):
        groups = [range(low, high) for low, high in zip(after, after[1:])]
        mixed = {layer for group in groups if not added.issuperset(group) for layer in group}
        return Preserved(bypass, added & mixed, False, factors)
    chain = grown_history(layers, before, after, new.oldest)
    if not chain.keeps(len(before)):
        raise ValueError(
            f"--{stack}-groups must be '{fitting}' with --function-preserving and --dlcl-window {new.window}, "
            f"which no longer reaches what the rows read with '{new.groups}'"
        )
    if not new.norm.after and chain.rows[-1] is None and not has_final_norm:
        raise ValueError(
            f"--function-preserving is not possible for the {stack}: its history can leave no output unread (window, "
            "frozen weights or softmax), and no layer norm follows it"
        )
    return Preserved(chain, added, True, factors)


def keep_function(tensors: Tensors, stack: StackOptions, way: Preserved) -> None:
    """Change the tensors of a stack that has grown by plan, so that it keeps its function.

    Args:
        tensors: of the new model; those changed are replaced
        stack: the new stack
        way: what `preserve` found
    """
    scale_branches(tensors, stack.name, way.factors)
    for layer in way.identities:
        for name in sublayers(tensors, stack.name, layer):
            for key in projection(tensors, stack.name, layer, name):
                tensors[key] = torch.zeros_like(tensors[key])
            residual = f"{stack.name}.layers.{layer}.{name}_residual.weight"
            if residual in tensors:
                tensors[residual] = torch.ones_like(tensors[residual])
    if stack.norm.after:
        move_affine(tensors, list(norms_in_order(tensors, stack, way)))
    elif way.history is not None and way.chained:
        for group, output in enumerate(way.history.outputs):
            if output is None:
                set_identity(tensors, f"{stack.name}.history.layer_norms.{group - 1}")


def norms_in_order(tensors: Tensors, stack: StackOptions, way: Preserved) -> Iterator[tuple[str, bool]]:
    """Yield the post-norms of a stack as they run, and whether each has to be the identity."""
    boundaries = stack.boundaries or ()
    for layer in range(stack.layers + 1):
        if way.history is not None and layer in boundaries[1:]:
            row = boundaries.index(layer) + 1
            yield f"{stack.name}.history.layer_norms.{row - 2}", way.chained and way.history.rows[row - 1] is None
        if layer < stack.layers:
            for name in sublayers(tensors, stack.name, layer):
                yield f"{stack.name}.layers.{layer}.{name}_layer_norm", layer in way.identities


def move_affine(tensors: Tensors, norms: list[tuple[str, bool]]) -> None:
    """Move gain and bias of the norm before each run of identities to the last norm of the run."""
    before = ""
    for identity, run in groupby(norms, key=lambda norm: norm[1]):
        names = [name for name, _ in run]
        if identity:
            affine = {key: tensors[f"{before}.{key}"] for key in ("weight", "bias")}
            for name in (before, *names):
                set_identity(tensors, name)
            tensors.update({f"{names[-1]}.{key}": tensor for key, tensor in affine.items()})
        before = names[-1]


def set_identity(tensors: Tensors, norm: str) -> None:
    """Set gain 1 and bias 0."""
    tensors[f"{norm}.weight"] = torch.ones_like(tensors[f"{norm}.weight"])
    tensors[f"{norm}.bias"] = torch.zeros_like(tensors[f"{norm}.bias"])
