"""The published layout of a DLCL model: random parameters by their published names, and a slow forward pass of them.

Written from the equations, for one sentence at a time and one position after the other, in double precision; it knows
nothing of the package.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

WIDTH, FEED_FORWARD, HEADS = 8, 12, 2
PAD = 1


@dataclass(frozen=True)
class Layout:
    """How the parameters are named and shaped, and what they leave open.

    Attributes:
        layers: of encoder and decoder
        pre: pre-norm rather than post-norm
        fused: one tensor for the three projections of an attention
        numbered_norms: layer_norms.0, .1, .2 in each layer
        groups: layers per group of the encoder's history; of the decoder's; 0: none
        slices: weights per output, 0 for a weight without that dimension; several are interleaved
        norms_from_one: a history's norms are numbered as in Wang's code, where number 0 has no parameters
        relative: r; 0: none
        relative_name: "relative_position_{}" or another spelling
        relative_values: a table for values too
        learned: rows of learned positions; 0: sinusoidal
        output: name of the output projection; "" where it is tied
        window: as --dlcl-window
        softmax: as --dlcl-softmax
    """

    layers: tuple[int, int] = (4, 2)
    pre: bool = False
    fused: bool = True
    numbered_norms: bool = True
    groups: tuple[int, int] = (1, 1)
    slices: int = 0
    norms_from_one: bool = False
    relative: int = 2
    relative_name: str = "relative_position_{}"
    relative_values: bool = False
    learned: int = 0
    output: str = ""
    shared: bool = True
    window: int = 0
    softmax: bool = False


def published_state(layout: Layout, types: tuple[int, int], seed: int = 1) -> dict[str, Tensor]:
    """Random parameters, all different, under their published names."""
    torch.manual_seed(seed)
    state: dict[str, Tensor] = {}
    for number, stack in enumerate(("encoder", "decoder")):
        embedding = torch.randn(types[number], WIDTH) * 0.3
        if stack == "decoder" and layout.shared:
            embedding = state["encoder.embed_tokens.weight"]
        state[f"{stack}.embed_tokens.weight"] = embedding
        if layout.learned:
            state[f"{stack}.embed_positions.weight"] = torch.randn(layout.learned, WIDTH) * 0.3
        for layer in range(layout.layers[number]):
            state.update({f"{stack}.layers.{layer}.{name}": t for name, t in layer_state(layout, stack)})
        if layout.groups[number]:
            groups = layout.layers[number] // layout.groups[number]
            size = (groups + 1, groups + 1) + ((layout.slices,) if layout.slices else ())
            state[f"{stack}.history.weight"] = torch.rand(size)
            for group in range(groups):
                state.update(norm_state(f"{stack}.history.layer_norms.{group + layout.norms_from_one}"))
        if layout.pre:
            state.update(norm_state(f"{stack}.layer_norm"))
    if layout.output:
        state[f"decoder.{layout.output}"] = torch.randn(types[1], WIDTH) * 0.3
    return state


def layer_state(layout: Layout, stack: str) -> Iterator[tuple[str, Tensor]]:
    """The parameters of one layer."""
    attentions = ["self_attn"] if stack == "encoder" else ["self_attn", "encoder_attn"]
    for attention in attentions:
        if layout.fused:
            yield f"{attention}.in_proj_weight", torch.randn(3 * WIDTH, WIDTH) * 0.4
            yield f"{attention}.in_proj_bias", torch.randn(3 * WIDTH) * 0.4
        else:
            for name in ("q_proj", "k_proj", "v_proj"):
                yield from linear_state(f"{attention}.{name}", WIDTH, WIDTH)
        yield from linear_state(f"{attention}.out_proj", WIDTH, WIDTH)
    if layout.relative:
        for part in ["keys", "values"] if layout.relative_values else ["keys"]:
            name = f"self_attn.{layout.relative_name.format(part)}"
            yield name, torch.randn(2 * layout.relative + 1, WIDTH // HEADS) * 0.4
    yield from linear_state("fc1", FEED_FORWARD, WIDTH)
    yield from linear_state("fc2", WIDTH, FEED_FORWARD)
    for number, name in enumerate([*attentions, "final"]):
        norm = f"layer_norms.{number}" if layout.numbered_norms else f"{name}_layer_norm"
        yield from norm_state(norm).items()


def linear_state(name: str, rows: int, columns: int) -> Iterator[tuple[str, Tensor]]:
    yield f"{name}.weight", torch.randn(rows, columns) * 0.4
    yield f"{name}.bias", torch.randn(rows) * 0.4


def norm_state(name: str) -> dict[str, Tensor]:
    return {f"{name}.weight": 1 + torch.randn(WIDTH) * 0.2, f"{name}.bias": torch.randn(WIDTH) * 0.2}


def known_state() -> dict[str, Tensor]:
    """A state dict that says all there is to say, with what fairseq 0.6 has beside the parameters."""
    state = published_state(Layout(), (14, 14))
    state |= {f"{stack}.version": torch.tensor([3.0]) for stack in ("encoder", "decoder")}
    return {**state, "encoder.embed_positions._float_tensor": torch.zeros(1)}


def dictionaries(folder: Path, types: tuple[int, int]) -> Path:
    """A data folder with nothing but dictionaries."""
    folder.mkdir()
    for language, count in zip("ab", types):
        (folder / f"dict.{language}.txt").write_text("".join(f"w{n} 1\n" for n in range(count - 4)), encoding="utf-8")
    return folder


def saved(path: Path, state: Any) -> Path:
    torch.save(state, path)
    return path


class SlowModel:
    """The forward pass of `published_state`, for one sentence."""

    def __init__(self, layout: Layout, state: dict[str, Tensor]) -> None:
        self.layout = layout
        self.state = {name: tensor.double() for name, tensor in state.items()}

    def logits(self, source: list[int], target: list[int]) -> Tensor:
        """T x V, for a source with its end and a target that begins with that."""
        encoded = self.stack("encoder", source, [])
        output = self.state.get(f"decoder.{self.layout.output}", self.state["decoder.embed_tokens.weight"])
        return torch.stack(self.stack("decoder", target, encoded)) @ output.t()

    def stack(self, stack: str, tokens: list[int], encoded: list[Tensor]) -> list[Tensor]:
        """What a stack puts out for each position."""
        layout, number = self.layout, ("encoder", "decoder").index(stack)
        table = self.state[f"{stack}.embed_tokens.weight"]
        x = [table[token] * math.sqrt(WIDTH) + self.position(stack, at) for at, token in enumerate(tokens)]
        if not layout.groups[number]:
            for layer in range(layout.layers[number]):
                x = self.layer(stack, layer, x, encoded)
        else:
            outputs = [x]
            for group in range(layout.layers[number] // layout.groups[number]):
                x = self.combine(stack, group + 1, outputs)
                for layer in range(group * layout.groups[number], (group + 1) * layout.groups[number]):
                    x = self.layer(stack, layer, x, encoded)
                norm = f"{stack}.history.layer_norms.{group + layout.norms_from_one}"
                outputs.append([self.norm(norm, one) for one in x] if layout.pre else x)
            x = self.combine(stack, len(outputs), outputs)
        return [self.norm(f"{stack}.layer_norm", one) for one in x] if layout.pre else x

    def combine(self, stack: str, row: int, outputs: list[list[Tensor]]) -> list[Tensor]:
        """Row `row` of W, (5) and (6)."""
        weight = self.state[f"{stack}.history.weight"][row - 1]
        first = max(0, row - self.layout.window) if self.layout.window else 0
        weight = weight[first:row].softmax(dim=0) if self.layout.softmax else weight[first:row]
        if weight.dim() == 2:
            weight = torch.stack([weight[:, channel % weight.size(1)] for channel in range(WIDTH)], dim=1)
        result = []
        for position in range(len(outputs[0])):
            total = torch.zeros(WIDTH, dtype=torch.float64)
            for factor, output in zip(weight, outputs[first:]):
                total = total + factor * output[position]
            if not self.layout.pre and row > 1:
                total = self.norm(f"{stack}.history.layer_norms.{row - 2 + self.layout.norms_from_one}", total)
            result.append(total)
        return result

    def layer(self, stack: str, layer: int, x: list[Tensor], encoded: list[Tensor]) -> list[Tensor]:
        """One layer, (1) or (2)."""
        start = f"{stack}.layers.{layer}."
        names = ["self_attn", *(["encoder_attn"] if stack == "decoder" else []), "final"]
        for number, name in enumerate(names):
            norm = start + (f"layer_norms.{number}" if self.layout.numbered_norms else f"{name}_layer_norm")
            y = [self.norm(norm, one) for one in x] if self.layout.pre else x
            if name == "final":
                y = [self.linear(f"{start}fc2", self.linear(f"{start}fc1", one).clamp(min=0)) for one in y]
            else:
                memory = y if name == "self_attn" else encoded
                y = self.attend(start + name, y, memory, causal=stack == "decoder" and name == "self_attn")
            x = [old + new for old, new in zip(x, y)]
            x = x if self.layout.pre else [self.norm(norm, one) for one in x]
        return x

    def attend(self, name: str, queries: list[Tensor], memory: list[Tensor], causal: bool) -> list[Tensor]:
        """Attention, with (7) where there are relative positions."""
        size = WIDTH // HEADS
        q, k, v = ([self.project(name, which, x) for x in seq] for which, seq in enumerate((queries, memory, memory)))
        tables = {
            part: self.state.get(f"{name}.{self.layout.relative_name.format(part)}") for part in ("keys", "values")
        }
        result = []
        for i in range(len(queries)):
            heads = []
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                reach = range(i + 1) if causal else range(len(memory))
                at = [
                    max(-self.layout.relative, min(j - i, self.layout.relative)) + self.layout.relative for j in reach
                ]
                keys = [k[j][part] + (0 if tables["keys"] is None else tables["keys"][r]) for j, r in zip(reach, at)]
                values = [
                    v[j][part] + (0 if tables["values"] is None else tables["values"][r]) for j, r in zip(reach, at)
                ]
                scores = torch.stack([q[i][part] @ key / math.sqrt(size) for key in keys])
                heads.append(sum(p * value for p, value in zip(scores.softmax(dim=0), values)))
            result.append(self.linear(f"{name}.out_proj", torch.cat(heads)))  # type: ignore[arg-type]
        return result

    def project(self, name: str, which: int, x: Tensor) -> Tensor:
        """Query (0), key (1) or value (2)."""
        if not self.layout.fused:
            return self.linear(f"{name}.{'qkv'[which]}_proj", x)
        rows = slice(which * WIDTH, (which + 1) * WIDTH)
        return self.state[f"{name}.in_proj_weight"][rows] @ x + self.state[f"{name}.in_proj_bias"][rows]

    def linear(self, name: str, x: Tensor) -> Tensor:
        return self.state[f"{name}.weight"] @ x + self.state[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        deviation = x - x.mean()
        return (
            deviation / torch.sqrt((deviation**2).mean() + 1e-5) * self.state[f"{name}.weight"]
            + self.state[f"{name}.bias"]
        )

    def position(self, stack: str, at: int) -> Tensor:
        """The absolute position `at`, from 0."""
        if self.layout.learned:
            return self.state[f"{stack}.embed_positions.weight"][at + PAD + 1]
        half = WIDTH // 2
        angles = torch.tensor([(at + PAD + 1) * 10000.0 ** (-k / (half - 1)) for k in range(half)], dtype=torch.float64)
        return torch.cat([angles.sin(), angles.cos()])
