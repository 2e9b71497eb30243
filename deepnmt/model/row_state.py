"""The incremental state of modules that keep a few vectors for each hypothesis, instead of keys and values.

fairseq's generator holds it in a dictionary, and reorders it by a method of the module, by that name.
"""

import uuid
from typing import Optional

import torch
from torch import Tensor, nn

IncrementalState = Optional[dict[str, dict[str, Optional[Tensor]]]]


class RowState(nn.Module):
    """A module with such a state: tensors with a row for each entry of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self._state_name = str(uuid.uuid4())

    def saved(self, incremental_state: IncrementalState) -> dict[str, Tensor]:
        """Return the tensors that the last step left; empty before the first one."""
        found = (incremental_state or {}).get(self._state_name) or {}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def save(self, incremental_state: IncrementalState, **tensors: Tensor) -> None:
        """Keep copies of tensors for the next step."""
        if incremental_state is not None:
            # As a view of all steps of a prefix, the last one would keep them alive.
            incremental_state[self._state_name] = {name: tensor.clone() for name, tensor in tensors.items()}

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> IncrementalState:
        """Let entry `new_order[i]` of the batch become entry i; called by fairseq."""
        if saved := self.saved(incremental_state):
            self.save(incremental_state, **{name: each.index_select(0, new_order) for name, each in saved.items()})
        return incremental_state


class AttentionFree(RowState):
    """A module in place of a decoder layer's self-attention, which is called as fairseq's is."""

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: IncrementalState = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
    ) -> tuple[Tensor, None]:
        """Return F(x), T x B x C, and no attention weights.

        Args:
            query: x, T x B x C
            key, value, need_weights, attn_mask: exist only for fairseq's call; no position sees a later one
            key_padding_mask: B x T, true at padding, which leaves the state as it is
            incremental_state: holds the state of the last step; `query` is then the newest steps
        """
        found, last = self.compute(query, key_padding_mask, self.saved(incremental_state))
        self.save(incremental_state, **last)
        return found, None

    def compute(
        self, x: Tensor, padding: Optional[Tensor], before: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return F(x), T x B x C, and the state after the last position.

        Args:
            x: T x B x C
            padding: B x T, true at padding
            before: the state after the last position of an earlier call, or nothing
        """
        raise NotImplementedError


def exact(dtype: torch.dtype) -> torch.dtype:
    """Return the type of sums over positions: at least float32, since long ones overflow or stand still in half."""
    return torch.promote_types(dtype, torch.float32)
