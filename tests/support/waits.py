"""Counts the operations of a block of code, and those for which a GPU's host would have to wait."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# A number that Python asks for, a tensor made from Python's numbers, and shapes that depend on values.
WAITS = {
    aten._local_scalar_dense.default,
    aten.lift_fresh.default,
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
}
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}


class Waits(TorchDispatchMode):
    """Within the context, counts in `waits` by operation, and in `operations` all but views.

    A mask as an index waits for the number of its true elements. A list as an index is a tensor made from numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: dict[str, int] = {}
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masked = func in INDEXED and any(i is not None and i.dtype == torch.bool for i in args[1])
        if func in WAITS or masked:
            self.waits[str(func)] = self.waits.get(str(func), 0) + 1
        self.operations += not func.is_view
        return func(*args, **(kwargs or {}))
