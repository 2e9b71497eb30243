"""What becomes of one stack of a model that gets another depth: what growing and shrinking have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from torch import Tensor

from deepnmt.checkpoints.plans import HistoryPlan, LayerPlan
from deepnmt.checkpoints.tensors import planned_tensors
from deepnmt.model.stack import StackOptions


@dataclass(frozen=True)
class StackPlan(ABC):
    """One stack.

    Attributes:
        old: its numbers before
        new: its numbers after
        layers: where its layers come from
        history: where its connections come from; None where it is plain or keeps its depth
        softmax: the weights of its connections are logits
    """

    old: StackOptions
    new: StackOptions
    layers: LayerPlan
    history: Optional[HistoryPlan]
    softmax: bool

    @abstractmethod
    def weight(self, old: Tensor) -> Tensor:
        """Return the new W from the old one; there is a `history`."""

    @abstractmethod
    def settle(self, tensors: dict[str, Tensor]) -> None:
        """Change what the new depth asks for in the tensors of the new model; those changed are replaced."""

    def tensors(self, old: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the model after this stack has changed, from those before, in the model's order."""
        changes = self.layers.changes
        new = planned_tensors(old, self.new.name, self.layers, self.history, self.weight) if changes else dict(old)
        self.settle(new)
        return new
