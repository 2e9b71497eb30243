"""Growth that leaves the function of the model as it is: its logits are equal before and after (methods 11).

Two ways for the new layers, which training then breaks out of:

    unread     where a history can reach all that the old rows read, groups of copies are copied whole, and no old row,
               nor the output row, reads them. The new weights of W have gradients at once
    identity   elsewhere, each copy passes on what it reads: the projections that end its sublayers are zero, with
               their biases; they have gradients at once. New rows of a history read the newest output alone

Behind zero projections pre-norm (2) and no norm (3) are the identity. A post-norm is the identity on what another one
has normalised, if both have gain 1 and bias 0; so gain and bias of the last norm before a run of identities move to the
last norm of the run. This holds up to the norm's epsilon e: a vector of variance v is scaled by 1 + (e/v - e) / 2.

What the depth itself changes in the layers that stay, a constant a of the residuals (4) and a factor f of the branches
at inference (15), goes into the last projections: LN(a' x + f' c F(x)) = LN(a x + f F(x)) for c = a' f / (a f').
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Optional

import torch
from torch import Tensor

from deepnmt.checkpoints.grow.grow_plan import HistoryPlan, LayerPlan, cuts_a_group, fitting_groups, plan_history
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.sublayers import SUBLAYERS, last_projection

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


def preserve(old: DLCLTransformerConfig, new: DLCLTransformerConfig, stack: str, layers: LayerPlan) -> Preserved:
    """Find a way for one stack.

    Args:
        old: options of the old model
        new: options of the new one
        stack: "encoder" or "decoder"
        layers: how the stack grows, or does not

    Raises:
        ValueError: there is none; says why
    """
    if not can_rescale(old, new, stack):
        scales = " to ".join(f"{config.stack(stack).residual_scale:.4g}" for config in (old, new))
        raise ValueError(
            f"--function-preserving is not possible for the {stack}: DeepNorm's scale goes from {scales}, and B2T adds "
            "the layer's input unscaled"
        )
    factors = tuple(branch_factors(old, new, stack, layers))
    added = frozenset(layer for layer in range(len(layers.sources)) if layers.added(layer))
    before, after = old.stack(stack).boundaries, new.stack(stack).boundaries
    if before is None or after is None or not added:
        return Preserved(None, added, True, factors)
    groups = str(getattr(new, f"{stack}_groups"))
    fitting = fitting_groups(str(getattr(old, f"{stack}_groups")), layers)
    if cuts_a_group(layers, before, after):
        raise ValueError(
            f"--{stack}-groups must not divide a present group with --function-preserving, but is '{groups}'; "
            f"'{fitting}' does not"
        )
    oldest = new.stack(stack).oldest
    bypass = plan_history(layers, before, after, oldest, bypass=True)
    trained = not (new.dlcl_freeze or new.dlcl_softmax)
    if bypass.rows[-1] is not None and bypass.keeps(len(before)) and (trained or None not in bypass.outputs):
        mixed = {
            layer
            for low, high in zip(after, after[1:])
            for layer in range(low, high)
            if not added.issuperset(range(low, high))
        }
        return Preserved(bypass, added & mixed, False, factors)
    chain = plan_history(layers, before, after, oldest)
    if not chain.keeps(len(before)):
        raise ValueError(
            f"--{stack}-groups must be '{fitting}' with --function-preserving and --dlcl-window {new.dlcl_window}, "
            f"which no longer reaches what the rows read with '{groups}'"
        )
    if not new.norm(stack).after and chain.rows[-1] is None and not has_final_norm(new, stack):
        raise ValueError(
            f"--function-preserving is not possible for the {stack}: its history can leave no output unread (window, "
            "frozen weights or softmax), and no layer norm follows it"
        )
    return Preserved(chain, added, True, factors)


def has_final_norm(config: DLCLTransformerConfig, stack: str) -> bool:
    """Whether the final LN of (2) follows a stack."""
    return config.norm(stack).before and not (stack == "decoder" and config.no_decoder_final_norm)


def can_rescale(old: DLCLTransformerConfig, new: DLCLTransformerConfig, stack: str) -> bool:
    """Whether a factor of its branches can make up for what another depth does to a layer's residuals."""
    scales = {config.stack(stack).residual_scale for config in (old, new)}
    return len(scales) == 1 or not new.norm(stack).layer_input


def branch_factors(
    old: DLCLTransformerConfig, new: DLCLTransformerConfig, stack: str, layers: LayerPlan
) -> Iterator[tuple[float, ...]]:
    """For each new layer what the branches of its sublayers are to be multiplied by."""
    before, after = old.stack(stack), new.stack(stack)
    scale = after.residual_scale / before.residual_scale
    kept, skipped = before.inference_factors(), after.inference_factors()
    for layer, source in enumerate(layers.sources):
        yield tuple(scale * f / g for f, g in zip(kept[source], skipped[layer]))


def apply(tensors: Tensors, config: DLCLTransformerConfig, stack: str, layers: LayerPlan, way: Preserved) -> None:
    """Change the tensors of a stack that has grown by plan, so that it keeps its function.

    Args:
        tensors: of the new model; those changed are replaced
        config: options of the new model
        stack: "encoder" or "decoder"
        layers: how the stack grew
        way: what `preserve` found
    """
    scale_branches(tensors, stack, way.factors)
    for layer in way.identities:
        for name in sublayers(tensors, stack, layer):
            for key in projection(tensors, stack, layer, name):
                tensors[key] = torch.zeros_like(tensors[key])
            residual = f"{stack}.layers.{layer}.{name}_residual.weight"
            if residual in tensors:
                tensors[residual] = torch.ones_like(tensors[residual])
    if config.norm(stack).after:
        move_affine(tensors, list(norms_in_order(tensors, config, stack, way)))
    elif way.history is not None and way.chained:
        for group, output in enumerate(way.history.outputs):
            if output is None:
                set_identity(tensors, f"{stack}.history.layer_norms.{group - 1}")


def scale_branches(tensors: Tensors, stack: str, factors: Sequence[tuple[float, ...]]) -> None:
    """Multiply the branches of a stack's sublayers, layer by layer, by way of the projections that end them."""
    for layer, of_sublayers in enumerate(factors):
        for name, factor in zip(sublayers(tensors, stack, layer), of_sublayers):
            for key in projection(tensors, stack, layer, name) if factor != 1.0 else []:
                single = torch.promote_types(tensors[key].dtype, torch.float32)
                tensors[key] = (tensors[key].to(single) * factor).to(tensors[key].dtype)


def projection(tensors: Tensors, stack: str, layer: int, sublayer: str) -> list[str]:
    """The names of the matrix that ends a sublayer, and of its bias."""
    name = f"{stack}.layers.{layer}.{last_projection(sublayer)}"
    return [key for key in (f"{name}.weight", f"{name}.bias") if key in tensors]


def sublayers(tensors: Tensors, stack: str, layer: int) -> list[str]:
    """Return the names of a layer's sublayers, in their order."""
    return [name for name in SUBLAYERS if f"{stack}.layers.{layer}.{last_projection(name)}.weight" in tensors]


def norms_in_order(
    tensors: Tensors, config: DLCLTransformerConfig, stack: str, way: Preserved
) -> Iterator[tuple[str, bool]]:
    """The post-norms of a stack as they run, and whether each has to be the identity."""
    boundaries = config.stack(stack).boundaries or ()
    for layer in range(config.depth(stack) + 1):
        if way.history is not None and layer in boundaries[1:]:
            row = boundaries.index(layer) + 1
            yield f"{stack}.history.layer_norms.{row - 2}", way.chained and way.history.rows[row - 1] is None
        if layer < config.depth(stack):
            for name in sublayers(tensors, stack, layer):
                yield f"{stack}.layers.{layer}.{name}_layer_norm", layer in way.identities


def move_affine(tensors: Tensors, norms: list[tuple[str, bool]]) -> None:
    """Let each run of identities leave to its last norm gain and bias of the norm before the run."""
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
    """Gain 1 and bias 0."""
    tensors[f"{norm}.weight"] = torch.ones_like(tensors[f"{norm}.weight"])
    tensors[f"{norm}.bias"] = torch.zeros_like(tensors[f"{norm}.bias"])
