"""Growth that preserves the function of the model: its logits are equal before and after.

The new layers are inactive in one of two ways, until training changes them:

    unread     where a history can reach all that the old rows read, groups of copies are copied whole, and no old row,
               nor the output row, reads them. The new weights of W have gradients at once
    identity   elsewhere, each copy passes on what it reads: the projections that end its sublayers are zero, with
               their biases; they have gradients at once. New rows of a history read the newest output alone

Behind zero projections pre-norm (2) and no norm (3) are the identity. A post-norm is the identity on the output of
another one, if both have gain 1 and bias 0. Gain and bias of the last norm before a run of identities therefore move to
the last norm of the run. This holds up to the norm's epsilon e: a vector of variance v is scaled by 1 + (e/v - e) / 2.

The depth itself changes a constant a of the residuals (4) and a factor f of the branches at inference (15). In the
remaining layers, the last projection of each sublayer compensates with a factor c = a' f / (a f'). Then
LN(a' x + f' c F(x)) = LN(a x + f F(x)).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from deepnmt.checkpoints.plans import HistoryPlan, LayerPlan, cuts_a_group, fitting_groups, grown_history
from deepnmt.model.stack import StackOptions
from deepnmt.model.sublayers import SELF_ATTENTION

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Preserved:
    """How one stack keeps its function.

    Attributes:
        history: the plan of its connections; None where it is plain
        identities: the layers that pass their input on
        chained: new rows of the history read the newest output alone
        factors: the factors of the last projections, a tuple of its sublayers for each layer
    """

    history: HistoryPlan | None
    identities: frozenset[int]
    chained: bool
    factors: tuple[tuple[float, ...], ...]


def preserve(
    old: StackOptions, new: StackOptions, layers: LayerPlan, learns_rows: bool, has_final_norm: bool
) -> Preserved:
    """Return the way of preserving the function of one stack.

    Args:
            old: its numbers before
            new: its numbers after
            layers: its growth, or none
            learns_rows: the weights of its history are trained, and not normalised by a softmax
            has_final_norm: the final LN of (2) follows it

        Raises:
            ValueError: growth cannot preserve the function; says why
    """
    way = _way(old, new, layers, learns_rows, has_final_norm)
    if way.identities and not new.self_attention.can_be_zero:
        raise ValueError(
            f"--function-preserving is not possible for the {new.name}: with --decoder-self-attention "
            f"{new.self_attention.name} no layer can pass on its input and learn"
        )
    return way


def _way(old: StackOptions, new: StackOptions, layers: LayerPlan, learns_rows: bool, has_final_norm: bool) -> Preserved:
    stack = new.name
    if obstacle := rescaling_obstacle(old, new, layers):
        raise ValueError(f"--function-preserving is not possible for the {stack}: {obstacle}")
    factors = branch_factors(old, new, layers)
    added = frozenset(layer for layer in range(len(layers.sources)) if layers.added(layer))
    if added and not new.norm.can_be_identity:
        raise ValueError(
            f"--function-preserving is not possible for the {stack}: with --{stack}-norm {new.norm.name} no layer can "
            "pass on its input"
        )
    if added and old.sums and stack == "encoder":
        raise ValueError(f"--function-preserving is not possible for the {stack}: the decoder reads all of its outputs")
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
            f"which no longer reaches the rows' inputs with '{new.groups}'"
        )
    if not new.norm.after and chain.rows[-1] is None and not has_final_norm:
        raise ValueError(
            f"--function-preserving is not possible for the {stack}: its history can leave no output unread (window, "
            "frozen weights or softmax), and no layer norm follows it"
        )
    return Preserved(chain, added, True, factors)


def keep_function(tensors: Tensors, stack: StackOptions, way: Preserved) -> None:
    """Replace tensors of a stack that has grown by plan, so that it keeps its function in the `way` of `preserve`."""
    scale_branches(tensors, stack, way.factors)
    for layer in way.identities:
        for name in stack.sublayers:
            for key in projection(tensors, stack, layer, name):
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
    """Yield the post-norms of a stack in execution order, and whether each must be the identity."""
    boundaries = stack.boundaries or ()
    for layer in range(stack.layers + 1):
        if way.history is not None and layer in boundaries[1:]:
            row = boundaries.index(layer) + 1
            yield f"{stack.name}.history.layer_norms.{row - 2}", way.chained and way.history.rows[row - 1] is None
        if layer < stack.layers:
            for name in stack.sublayers:
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


def rescaling_obstacle(old: StackOptions, new: StackOptions, layers: LayerPlan) -> str | None:
    """Return why factors of its branches cannot compensate the effect of another depth on a stack, or None."""
    scales = f"DeepNorm's scale goes from {old.residual_scale:.4g} to {new.residual_scale:.4g}"
    if old.residual_scale != new.residual_scale and new.norm.layer_input:
        return f"{scales}, and B2T adds the layer's input unscaled"
    changed = any(factor != 1.0 for each in branch_factors(old, new, layers) for factor in each)
    if changed and SELF_ATTENTION in new.sublayers and not new.self_attention.last:
        return f"the depth scales its branches, and --decoder-self-attention {new.self_attention.name} has no scale"
    return None


def branch_factors(old: StackOptions, new: StackOptions, layers: LayerPlan) -> tuple[tuple[float, ...], ...]:
    """Return for each new layer the factors of its sublayers' branches that compensate the depth."""
    scale = new.residual_scale / old.residual_scale
    before, after = old.inference_factors(), new.inference_factors()
    pairs = [(before[source], after[layer]) for layer, source in enumerate(layers.sources)]
    return tuple(tuple(scale * f / g for f, g in zip(*pair)) for pair in pairs)


def scale_branches(tensors: Tensors, stack: StackOptions, factors: Sequence[tuple[float, ...]]) -> None:
    """Multiply the branches of a stack's sublayers, layer by layer, by way of the projections that end them."""
    for layer, of_sublayers in enumerate(factors):
        for name, factor in zip(stack.sublayers, of_sublayers):
            for key in projection(tensors, stack, layer, name) if factor != 1.0 else []:
                single = torch.promote_types(tensors[key].dtype, torch.float32)
                tensors[key] = (tensors[key].to(single) * factor).to(tensors[key].dtype)


def projection(tensors: Tensors, stack: StackOptions, layer: int, sublayer: str) -> list[str]:
    """Return the names of the matrix that ends a sublayer, and of its bias."""
    name = f"{stack.name}.layers.{layer}.{stack.last_matrix(sublayer)}"
    return [key for key in (f"{name}.weight", f"{name}.bias") if key in tensors]
