"""Attention at the newest position of a beam search, with keys and values that stay in place during the search.

Twins: deepnmt/model/attention.py, deepnmt/model/relative_position.py, deepnmt/model/merged_attention.py

Shapes: N sentences of M hypotheses (1 in the first step, then the beam K); C channels in H heads of D; P positions so
far. These include the newest. S source positions; R relative distances. Rows are MN, hypothesis-major: the first
hypothesis of all sentences, then the second of all.

Target keys and values stay where they were written: the K hypotheses of a sentence lie side by side, position by
position. A hypothesis that moves within the beam takes no entries along. A mask marks the entries, among K P, from
which it descends. One product compares all hypotheses of a sentence with its entries. Source keys and values are
computed once and shared by the hypotheses.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from deepnmt.kernels.short_attention import REGISTER
from deepnmt.search.incremental.maps import Maps

# Initial room, in positions; then it doubles, so that the cost of a batch follows its actual length.
FIRST_CAPACITY = 16


@dataclass(frozen=True)
class Step:
    """One step of a search.

    Attributes:
        position: of the newest token, from 0
        sentences: N
        hypotheses: M
        mask: N x M x KP, for a model's attention NH x M x KP; 0 where a hypothesis descends from an entry, else -inf.
            Where KP is less than `REGISTER`, the mask has `REGISTER` entries
        padding: NH x 1 x entries, -inf at padding of the source, else 0; None: no padding
        parents: N x K, the hypothesis that each one continues; None in the first step
        backward_padding: as `padding`, for the states of a two-sided model
    """

    position: int
    sentences: int
    hypotheses: int
    mask: Tensor
    padding: Optional[Tensor] = None
    parents: Optional[Tensor] = None
    backward_padding: Optional[Tensor] = None

    def for_heads(self, source: Memory, backward: Optional[Memory], like: Optional[Tensor]) -> Step:
        """Return the step with the padding of a model's memory, and a mask for its heads in the type of `like`.

        `backward` are the states of a two-sided model. Without `like`, no layer reads the mask.
        """
        mask = self.mask
        if like is not None:
            mask = mask.type_as(like).unsqueeze(1).expand(-1, source.heads, -1, -1).flatten(0, 1)
        second = None if backward is None else backward.padding()
        return replace(self, mask=mask, padding=source.padding(), backward_padding=second)


class Memory:
    """The memory of all hypotheses of a sentence: the encoder's output, or the states of a two-sided model.

    Args:
        states: S x N x C
        padding: N x S
        heads: H

    Attributes:
        entries: room for keys and values, at least S
        unpadded: none of the S positions is padding
    """

    def __init__(self, states: Tensor, padding: Tensor, heads: int) -> None:
        self.states, self.heads, self.positions = states, heads, len(states)
        self.entries = max(self.positions, REGISTER)
        self.unpadded = not bool(padding.any())
        padding = F.pad(padding.bool(), (0, self.entries - self.positions), value=True)
        self._padding: Optional[Tensor] = None  # N x H x 1 x entries
        if bool(padding.any()):
            hidden = states.new_zeros(padding.shape).masked_fill(padding, -math.inf)
            self._padding = hidden[:, None, None].repeat(1, heads, 1, 1)

    def with_states(self, states: Tensor) -> Memory:
        """Return a memory of other states with the same padding, for reading alone."""
        found = copy.copy(self)
        found.states = states
        return found

    def padding(self) -> Optional[Tensor]:
        """Return `Step.padding`."""
        return None if self._padding is None else self._padding.flatten(0, 1)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """As `DecoderSteps.keep`."""
        if self._padding is not None:
            move(self._padding, holes, movers)
            self._padding = self._padding[:sentences]


def move(tensor: Tensor, holes: Tensor, movers: Tensor) -> None:
    """Put the entries `movers` of the first axis in the places `holes`; contiguous tensors are faster."""
    tensor.index_copy_(0, holes, tensor.index_select(0, movers))


class Carried:
    """A vector that each hypothesis takes along when it moves within the beam; float32 at least."""

    vectors: Optional[Tensor] = None  # M x N x C, of the step before

    def of_parents(self, step: Step) -> Optional[Tensor]:
        """Return the vector of the hypothesis that each one continues, MN x C; None in the first step."""
        if self.vectors is None:
            return None
        assert step.parents is not None
        channels = self.vectors.size(-1)
        chosen = step.parents.t().unsqueeze(-1).expand(-1, -1, channels)
        return self.vectors.gather(0, chosen).view(-1, channels)

    def take(self, vectors: Tensor, step: Step) -> None:
        """Keep a vector of each hypothesis, MN x C, for the next step."""
        self.vectors = vectors.view(step.hypotheses, -1, vectors.size(-1))

    def add(self, values: Tensor, step: Step) -> Tensor:
        """Add values, MN x C, to the vectors, and return the sums."""
        # In half precision the sum overflows.
        total, before = values.to(torch.promote_types(values.dtype, torch.float32)), self.of_parents(step)
        total = total if before is None else before + total
        self.take(total, step)
        return total

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """As `DecoderSteps.keep`."""
        assert self.vectors is not None
        # The next step reads no more rows than there are sentences.
        move(self.vectors.transpose(0, 1), holes, movers)


class AttentionSteps:
    """The common part of attention to the target and to the source, of a module of fairseq's and its model's maps."""

    # Each in the fastest layout for the products; views of one memory, for reading and for writing.
    keys: Tensor  # NH x D x entries
    values: Tensor  # NH x entries x D
    keys_of: Tensor  # N x H x D x entries
    values_of: Tensor  # N x H x entries x D

    def __init__(self, module: Any, maps: Maps) -> None:
        self.module = module
        self.heads, self.width = module.num_heads, module.head_dim
        self.channels = self.heads * self.width
        self.out = maps(module.out_proj)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """Continue with `sentences` sentences; the sentences `movers` take the places `holes`."""
        for kept in (self.keys_of, self.values_of):
            move(kept, holes, movers)
        self.hold(self.keys_of[:sentences], self.values_of[:sentences])

    def hold(self, keys: Tensor, values: Tensor) -> None:
        """Keep `keys_of` and `values_of`."""
        self.keys_of, self.values_of = keys, values
        self.keys, self.values = keys.flatten(0, 1), values.flatten(0, 1)

    def by_heads(self, x: Tensor, step: Step) -> Tensor:
        """Return a view NH x M x D of rows MN x C, hypothesis-major."""
        return x.view(step.hypotheses, -1, self.width).transpose(0, 1)

    def by_rows(self, x: Tensor) -> Tensor:
        """Return rows MN x C, hypothesis-major, of NH x M x D."""
        return x.transpose(0, 1).reshape(-1, self.channels)

    def softmax(self, scores: Tensor) -> Tensor:
        """Return probabilities over the last axis; their sums need float32, as in fairseq's attention."""
        if scores.dtype in (torch.float32, torch.float64):
            return torch.softmax(scores, -1)
        return torch.softmax(scores, -1, dtype=torch.float32).type_as(scores)


class SelfAttentionSteps(AttentionSteps):
    """A layer's self-attention, for a beam of K in each of at first N sentences."""

    weights: Tensor  # the last step's probabilities, NH x M x KP

    def __init__(self, module: Any, maps: Maps, sentences: int, beam: int) -> None:
        super().__init__(module, maps)
        self.beam = beam
        self.query_key_value = maps(module.q_proj, module.k_proj, module.v_proj, scale=module.scaling)
        keys = module.k_proj.weight.new_empty(sentences, self.heads, self.width, FIRST_CAPACITY * beam)
        self.hold(keys, keys.new_empty(sentences, self.heads, FIRST_CAPACITY * beam, self.width))
        # Entries hidden by the mask must still be finite.
        self.keys[..., :REGISTER].zero_()
        self.values[:, :REGISTER].zero_()

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the sublayer's function of the newest position, MN x C."""
        each = self.query_key_value(x).view(step.hypotheses, -1, 3, self.heads, self.width)
        query, key, value = each.unbind(2)  # M x N x H x D
        self._write(key, value, step)
        query, entries = query.flatten(1, 2).transpose(0, 1), step.mask.size(-1)
        self.weights = self.softmax(self._score(query, self.keys.narrow(2, 0, entries), step))
        return self.out(self.by_rows(self._attend(self.weights, self.values.narrow(1, 0, entries), step)))

    def _write(self, key: Tensor, value: Tensor, step: Step) -> None:
        """Keep a key and a value, M x N x H x D; in the first step, one hypothesis stands for all."""
        start = step.position * self.beam
        if start == self.keys.size(2):
            more = torch.empty_like(self.keys_of), torch.empty_like(self.values_of)
            self.hold(torch.cat([self.keys_of, more[0]], dim=3), torch.cat([self.values_of, more[1]], dim=2))
        self.keys_of.narrow(3, start, self.beam).copy_(key.permute(1, 2, 3, 0))
        self.values_of.narrow(2, start, self.beam).copy_(value.permute(1, 2, 0, 3))

    def _score(self, query: Tensor, keys: Tensor, step: Step) -> Tensor:
        return torch.baddbmm(step.mask, query, keys)

    def _attend(self, weights: Tensor, values: Tensor, step: Step) -> Tensor:
        return torch.bmm(weights, values)


class RelativeSelfAttentionSteps(SelfAttentionSteps):
    """Self-attention with relative positions, equation (7)."""

    def _score(self, query: Tensor, keys: Tensor, step: Step) -> Tensor:
        by_distance = torch.matmul(query, self.module.relative_keys.t())  # NH x M x R
        bias = by_distance.index_select(-1, self._distances(step, step.mask))
        return torch.baddbmm(bias.add_(step.mask), query, keys)

    def _attend(self, weights: Tensor, values: Tensor, step: Step) -> Tensor:
        attended = torch.bmm(weights, values)
        if self.module.relative_values is None:
            return attended
        # In half precision, many small numbers added one by one would be lost beside their sum.
        exact = torch.promote_types(weights.dtype, torch.float32)
        by_distance = weights.new_zeros(*weights.shape[:2], len(self.module.relative_values), dtype=exact)
        by_distance.index_add_(-1, self._distances(step, weights), weights.to(exact))
        return attended + torch.matmul(by_distance.type_as(weights), self.module.relative_values)

    def _distances(self, step: Step, like: Tensor) -> Tensor:
        """Return the row of aK and aV for each entry of the last axis of `like`; later entries are hidden."""
        longest: int = self.module.max_length
        position = torch.arange(like.size(-1), device=like.device) // self.beam
        return (position - step.position).clamp(-longest, longest) + longest


class SourceAttentionSteps(AttentionSteps):
    """A layer's attention to the source, whose memory is the encoder's output."""

    weights: Tensor  # the last step's probabilities, NH x M x entries
    attended: Tensor  # the last step's heads side by side, MN x C

    def __init__(self, module: Any, maps: Maps, memory: Memory) -> None:
        super().__init__(module, maps)
        self.query = maps(module.q_proj, scale=module.scaling)
        (positions, sentences, channels), entries = memory.states.shape, memory.entries
        both = maps(module.k_proj, module.v_proj)(memory.states.reshape(-1, channels))
        both = both.view(positions, sentences, 2, self.heads, self.width)
        keys = both.new_zeros(sentences, self.heads, self.width, entries)
        values = both.new_zeros(sentences, self.heads, entries, self.width)
        keys[..., :positions] = both[:, :, 0].permute(1, 2, 3, 0)
        values[:, :, :positions] = both[:, :, 1].permute(1, 2, 0, 3)
        self.hold(keys, values)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the sublayer's function of the newest position, MN x C; `weights` are its probabilities."""
        self.attended = self._attend(self.query(x), step)
        return self.out(self.attended)

    def _attend(self, query: Tensor, step: Step) -> Tensor:
        query, padding = self.by_heads(query, step), step.padding
        scores = torch.bmm(query, self.keys) if padding is None else torch.baddbmm(padding, query, self.keys)
        self.weights = self.softmax(scores)
        return self.by_rows(torch.bmm(self.weights, self.values))


class MergedAttentionSteps(SourceAttentionSteps):
    """Merged attention, equation (12): for the target, a sum is kept."""

    def __init__(self, module: Any, maps: Maps, memory: Memory) -> None:
        super().__init__(module, maps, memory)
        self.value, self.total = maps(module.v_proj), Carried()

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """As `SourceAttentionSteps`."""
        attended, value = self._attend(self.query(x), step), self.value(x)
        mean = self.total.add(value, step) / (step.position + 1)
        return self.out((attended + mean).type_as(attended))

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """As `AttentionSteps.keep`."""
        super().keep(sentences, holes, movers)
        self.total.keep(sentences, holes, movers)
