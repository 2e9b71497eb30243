"""Hints: layers of a model learn to resemble layers of its teacher (Jiao 2020, EMNLP, arXiv 1909.10351).

    hint = h sum_(l, m) MSE(H_l W, H'_m) + a sum_(l, m) MSE(A_l, A'_m)                               (51)

H_l is the output of layer l of the model, A_l the probabilities of its attention; H'_m and A'_m are the teacher's. The
sums are over the pairs of the map, in both stacks. A squared error is the mean over channels, or over heads and keys,
and over all real positions. W is the identity where the widths are equal. Elsewhere it is trained, one for each stack.

The models are not changed: hooks on their layers see one forward pass.

Shapes: T x B x C is time, batch, channel; H heads; S keys.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Optional

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from deepnmt.errors import UserError
from deepnmt.model.attention import Attention
from deepnmt.model.row_state import exact
from deepnmt.model.shared_attention import LeadingSelfAttention
from deepnmt.model.stack import STACKS

UNIFORM = "uniform"
FORM = f"{UNIFORM}, or pairs of layers such as encoder=2:4,4:8/decoder=1:6"
ATTENTIONS = ("self_attn", "encoder_attn")
# Pairs of layers, the model's and the teacher's, from 0.
Pairs = Sequence[tuple[int, int]]
# The output of each layer in the order of the calls, and the probabilities of its attentions.
Seen = dict[str, list[dict[str, Tensor]]]


class Hints(nn.Module):
    """The hints of a teacher; W of (51) are its parameters.

    Args:
        weight: h
        attention_weight: a
        layer_map: as of --hint-map
        model: to be trained; fairseq's Transformer or this package's
        teacher: of the same kind

    Raises:
        UserError: a line for each layer, option or number of heads that does not fit
    """

    def __init__(self, weight: float, attention_weight: float, layer_map: str, model: Any, teacher: Any) -> None:
        super().__init__()
        self.weight, self.attention_weight = weight, attention_weight
        depths = {stack: tuple(len(_layers(each, stack)) for each in (model, teacher)) for stack in STACKS}
        try:
            self.pairs = {stack: _pairs(layer_map, stack, *depths[stack]) for stack in STACKS}
        except ValueError as error:
            raise UserError(f"--hint-map must be {error}") from None
        if faults := [*_faults(model), *(self._head_faults(model, teacher) if attention_weight else ())]:
            raise UserError(*faults)
        widths = {stack: [_width(each, stack) for each in (model, teacher)] for stack in STACKS}
        used = [stack for stack, (own, other) in widths.items() if self.pairs[stack] and own != other and weight]
        self.maps = nn.ModuleDict({stack: nn.Linear(widths[stack][0], widths[stack][1], bias=False) for stack in used})

    @contextmanager
    def watch(self, model: Any, teacher: Any) -> Iterator[tuple[Seen, Seen]]:
        """Within the context, the layers of both models note their outputs in one forward pass."""
        seen: list[Seen] = [{stack: [] for stack in STACKS} for _ in range(2)]
        with ExitStack() as handles:
            for notes, watched in zip(seen, (model, teacher)):
                for handle in _hooks(watched, notes, bool(self.attention_weight)):
                    handles.callback(handle.remove)
            yield seen[0], seen[1]

    def loss(self, seen: tuple[Seen, Seen], sample: dict[str, Any], padding: int) -> Tensor:
        """Return (51) for the outputs of a model and its teacher for a batch."""
        inputs = sample["net_input"]
        real = {"encoder": inputs["src_tokens"].ne(padding), "decoder": inputs["prev_output_tokens"].ne(padding)}
        terms = []
        for stack, pairs in self.pairs.items():
            for own, other in ((seen[0][stack][low], seen[1][stack][high]) for low, high in pairs):
                if self.weight:
                    state = own["state"]
                    state = self.maps[stack](state) if stack in self.maps else state
                    terms.append(self.weight * _state_error(state, other["state"], real[stack]))
                for name in ATTENTIONS if self.attention_weight else ():
                    # A sublayer that was skipped in this update has none.
                    if name in own and name in other:
                        keys = real["encoder" if name == "encoder_attn" else stack]
                        error = _attention_error(own[name], other[name], real[stack], keys)
                        terms.append(self.attention_weight * error)
        return torch.stack(terms).sum() if terms else torch.zeros((), device=inputs["src_tokens"].device)

    def _head_faults(self, model: Any, teacher: Any) -> Iterator[str]:
        compared = False
        for stack, pairs in self.pairs.items():
            for low, high in pairs:
                for name in ATTENTIONS:
                    own, other = (
                        _attention(_layers(each, stack)[index], name) for each, index in ((model, low), (teacher, high))
                    )
                    if own is None or other is None:
                        continue
                    compared = True
                    if own.num_heads != other.num_heads:
                        yield (
                            f"--hint-attention-weight needs equal numbers of heads, but {name} of {stack} layer "
                            f"{low + 1} has {own.num_heads}, and the teacher's layer {high + 1} {other.num_heads}"
                        )
                        return
        if not compared:
            yield "--hint-attention-weight needs an attention that model and teacher share in the layers of --hint-map"


def _faults(model: Any) -> Iterator[str]:
    for stack in STACKS:
        if type(getattr(model, stack).layers) is not nn.ModuleList:
            yield f"--hint-weight and --hint-attention-weight cannot be combined with --{stack}-layerdrop"
    # Attention is recomputed in the backward pass, and what is seen before has no gradient.
    if getattr(model.cfg, "checkpoint_activations", False):
        yield "--hint-weight and --hint-attention-weight cannot be combined with --checkpoint-activations"
    if getattr(model.cfg, "cross_self_attention", False):
        yield "--hint-weight and --hint-attention-weight cannot be combined with --cross-self-attention"


def _pairs(layer_map: str, stack: str, depth: int, teachers: int) -> Pairs:
    """Return the pairs of a map for a stack of `depth` layers. Raises `ValueError` with the requirement and value."""
    if layer_map == UNIFORM:
        # The last of every part of the teacher's stack.
        return [(layer, -(-(layer + 1) * teachers // depth) - 1) for layer in range(depth)]
    found: Optional[Pairs] = None
    named = set()
    for part in layer_map.split("/"):
        name, _, text = part.partition("=")
        pairs = [pair.split(":") for pair in text.split(",")]
        known = name in STACKS and name not in named
        if not known or any(len(pair) != 2 or not all(map(str.isdecimal, pair)) for pair in pairs):
            raise ValueError(f"{FORM}, but is {layer_map}")
        named.add(name)
        if name == stack:
            found = [(int(low) - 1, int(high) - 1) for low, high in pairs]
    for low, high in found or ():
        if not (0 <= low < depth and 0 <= high < teachers):
            raise ValueError(
                f"pairs of one of the model's {depth} layers of the {stack} and one of the teacher's {teachers}, "
                f"but has {low + 1}:{high + 1}"
            )
    return found or []


def _layers(model: Any, stack: str) -> list[Any]:
    """Return the layers of a stack by their places; one layer may have several."""
    layers = getattr(model, stack).layers
    return list(layers) if type(layers) is nn.ModuleList else list(layers.children())


def _width(model: Any, stack: str) -> int:
    return int(_layers(model, stack)[0].embed_dim)


def _attention(layer: Any, name: str) -> Optional[Any]:
    """Return an attention of a layer that gives its probabilities, or None."""
    found = getattr(layer, name, None)
    return found if isinstance(found, MultiheadAttention) and not isinstance(found, LeadingSelfAttention) else None


def _hooks(model: Any, seen: Seen, attentions: bool) -> Iterator[Any]:
    """Yield the handles of hooks that note the outputs of a model's layers."""
    for stack in STACKS:
        notes = seen[stack]
        for layer in dict.fromkeys(_layers(model, stack)):

            def begin(module: Any, inputs: Any, notes: Any = notes) -> None:
                notes.append({})

            def end(module: Any, inputs: Any, output: Any, notes: Any = notes) -> None:
                notes[-1]["state"] = output[0] if isinstance(output, tuple) else output

            yield layer.register_forward_pre_hook(begin)
            yield layer.register_forward_hook(end)
            for name in ATTENTIONS if attentions else ():
                if (attention := _attention(layer, name)) is not None:

                    def keep(module: Any, inputs: Any, output: Any, notes: Any = notes, name: str = name) -> None:
                        notes[-1][name] = output[1]

                    yield attention.register_forward_pre_hook(_ask, with_kwargs=True)
                    yield attention.register_forward_hook(keep)


def _ask(module: Any, inputs: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Let an attention return the probabilities of each head."""
    options = {**options, "need_weights": True, "need_head_weights": True}
    if type(module) in (MultiheadAttention, Attention):
        # torch's own function, which fairseq calls otherwise, returns the mean of the heads.
        options["static_kv"] = True
    return inputs, options


def _state_error(own: Tensor, other: Tensor, real: Tensor) -> Tensor:
    """Return the mean squared error of states, T x B x C, at real positions, B x T."""
    return _mean_square(own[real.t()] - other[real.t()])


def _attention_error(own: Tensor, other: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Return the mean squared error of probabilities, H x B x T x S, for real queries, B x T, and keys, B x S."""
    chosen = queries[:, :, None] & keys[:, None, :]
    return _mean_square(own[:, chosen] - other[:, chosen])


def _mean_square(differences: Tensor) -> Tensor:
    return differences.to(exact(differences.dtype)).square().mean()
