"""Results computed from tensors, kept until the tensors change."""

from collections.abc import Callable, Sequence
from typing import Generic, Optional, TypeVar

from torch import Tensor

T = TypeVar("T")
Stamp = tuple[tuple[int, int], ...]


class Kept(Generic[T]):
    """Keeps one result.

    A tensor counts as changed when it is another tensor, lies elsewhere, or was written to. Writes through
    `tensor.data`, as by fairseq's optimizers, are not noticed: in a training, nothing must be kept from one update to
    the next.
    """

    def __init__(self) -> None:
        self._tensors: Sequence[Tensor] = ()
        self._stamp: Stamp = ()
        self._result: Optional[T] = None

    def get(self, tensors: Sequence[Tensor], make: Callable[[], T]) -> T:
        """Return the result of `make`, which is called if these tensors differ from the previous call's."""
        stamp = tuple((each.data_ptr(), each._version) for each in tensors)
        same = len(tensors) == len(self._tensors) and all(a is b for a, b in zip(tensors, self._tensors))
        if self._result is None or not same or stamp != self._stamp:
            self._result = make()
            self._tensors, self._stamp = tuple(tensors), stamp
        return self._result
