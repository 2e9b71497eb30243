"""Estimates for a GPU that is not there, from the operations and bytes of an update on the CPU.

PyTorch runs one operation after the other, and each takes the longest of three times:

    seconds = max(START, products / (REACHED * rate), bytes / (REACHED * bandwidth))

`products` are multiplications and additions in products of matrices, `bytes` all tensors that it reads and writes.
`rate` and `bandwidth` are the GPU's, by its data sheet. START and REACHED are assumptions, not measured. As `deepnmt
train` uses FP16 on GPUs, a float32 tensor counts with half of its bytes. Memory is

    parameters * FIXED + optimizer + the most bytes that all other tensors, gradients included, need at once

with the weights, and the FP32 master weights and their gradients, as the fixed bytes of a parameter.
"""

import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from deepnmt.console import as_number
from deepnmt.errors import UserError

START, REACHED = 1e-5, 0.5
FIXED = 2 + 4 + 4
GIB, TERA, GIGA = 2**30, 1e12, 1e9
Operation = tuple[int, int]


class Gpu(NamedTuple):
    """A GPU by its data sheet.

    Attributes:
        memory: GiB
        rate: TFLOP/s of dense FP16 products that add up in FP32
        bandwidth: GB/s of its memory
    """

    memory: float
    rate: float
    bandwidth: float

    def seconds(self, operations: Iterable[Operation]) -> float:
        """Return the estimated seconds of operations, each given by its products and bytes."""
        rate, bandwidth = REACHED * self.rate * TERA, REACHED * self.bandwidth * GIGA
        return sum(max(START, products / rate, size / bandwidth) for products, size in operations)


GPUS = {
    "t4": Gpu(16, 65, 320),
    "v100": Gpu(32, 125, 900),
    "rtx3090": Gpu(24, 71, 936),
    "rtx4090": Gpu(24, 165, 1008),
    "a100": Gpu(80, 312, 2039),
    "h100": Gpu(80, 989, 3350),
    "h200": Gpu(141, 989, 4800),
}


def read_gpu(text: str) -> Gpu:
    """Return the GPU of a name in `GPUS`, or of its numbers. Raises `UserError` for any other text."""
    if text in GPUS:
        return GPUS[text]
    numbers = [as_number(word) for word in text.split(",")]
    if len(numbers) != len(Gpu._fields) or not all(0 < number < 1e9 for number in numbers):
        raise UserError(f"--gpu must be {', '.join(GPUS)}, or GIB,TFLOPS,GB/S such as 80,312,2039, but is '{text}'")
    return Gpu(*numbers)


class OperationCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that run under it.

    Attributes:
        operations: products and bytes of each; a view is no operation
        peak: the most bytes that the operations' results need at once
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self.peak = self._live = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for each operation."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        read, written = _tensors((args, kwargs)), _tensors(result)
        known = {_storage(tensor) for tensor in read}
        new = {_storage(tensor): tensor for tensor in written if _storage(tensor) not in known}
        for tensor in new.values():
            self._hold(tensor)
        if new or func._schema.is_mutable:
            size = sum(tensor.numel() * _width(tensor) for tensor in [*read, *new.values()])
            self.operations.append((_products(func, args, kwargs, result), size))
        return result

    def _hold(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        size = storage.nbytes() * _width(tensor) // tensor.element_size()
        self._live += size
        self.peak = max(self.peak, self._live)
        weakref.finalize(storage, self._free, size)

    def _free(self, size: int) -> None:
        self._live -= size


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _width(tensor: Tensor) -> int:
    return 2 if tensor.dtype == torch.float32 else tensor.element_size()


def _products(func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> int:
    if func.overloadpacket in flop_registry:
        return int(flop_registry[func.overloadpacket](*args, **kwargs, out_val=result))
    # oneDNN's linear map, of x and weight.
    if func.name() == "mkldnn::_linear_pointwise":
        return 2 * int(args[0].numel()) * int(args[1].shape[0])
    return 0
