"""Initialisers: functions of model and options; some also need batches of the training data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from torch import Tensor

from deepnmt.model.stack import StackOptions


class InitializerOptions(Protocol):
    """The options for initialisers."""

    encoder_embed_path: Any
    decoder_embed_path: Any
    ds_init_alpha: float
    initializer: Any
    residual_scale: Any

    def stack(self, name: str) -> StackOptions:
        """Return the numbers of a stack."""


# Sets the weights of a complete `dlcl_transformer` before any loading.
Initializer = Callable[[Any, InitializerOptions], None]


def keep(model: Any, options: InitializerOptions) -> None:
    """Leave the weights as the modules' constructors drew them."""


class BatchInitializer(ABC):
    """An initialiser that needs batches. It measures each batch of the first update by itself, before that update.

    The numbers are averaged over all batches of all workers: the distribution of batches does not matter. `base` sets
    the weights that need no data, when the model is built.
    """

    def __init__(self, base: Initializer = keep) -> None:
        self.base = base

    def __call__(self, model: Any, options: InitializerOptions) -> None:
        """Set the weights that need no data."""
        self.base(model, options)

    def faults(self, options: InitializerOptions) -> Iterator[str]:
        """Yield the values of other options that this initialiser forbids, each with the requirement."""
        yield from ()

    @abstractmethod
    def is_pending(self, model: Any) -> bool:
        """Return whether the weights still have their initial values; else they were set or trained before."""

    @abstractmethod
    def size(self, model: Any) -> int:
        """Return the number of values per batch."""

    @abstractmethod
    def measure(self, model: Any, net_input: dict[str, Tensor]) -> list[float]:
        """Return the numbers of one batch. It may change the weights that `set_weights` sets."""

    @abstractmethod
    def set_weights(self, model: Any, means: Sequence[float]) -> str:
        """Set the weights from the mean of the results of `measure`, and return a summary for the log."""
