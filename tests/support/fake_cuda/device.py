"""The device: a mode in which "cuda" exists, see the package."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from support.fake_cuda.shadows import on_shadows

aten = torch.ops.aten
CUDA = torch.device("cuda", 0)
# The shape of the result depends on values: Python waits for them, and FakeTensorMode has no answer.
BY_VALUE = {
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
    aten.repeat_interleave.Tensor,
}
# Beside views, these launch nothing.
NO_KERNEL = {
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
    aten.detach.default,
    aten.lift_fresh.default,
    aten._unsafe_view.default,
}
INDEXING = (aten.index.Tensor, aten.index_put.default, aten.index_put_.default)
MASKS = (torch.bool, torch.uint8)


class FakeCuda(TorchDispatchMode):
    """A mode in which tensors can be on "cuda".

    Attributes:
        kernels: operations so far that would launch a kernel
        waits: places in the package or in fairseq at which Python would wait for the GPU, and how often
    """

    known: dict[object, list[torch.dtype | None] | None] = {}  # noqa: RUF012  what an operation gives, for all modes

    def __init__(self) -> None:
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.kernels = 0
        self.waits: Counter[str] = Counter()
        self.stack = ExitStack()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and the guard against it would be asked at each operation.
        return False

    def reset(self) -> None:
        self.kernels = 0
        self.waits.clear()

    def __enter__(self) -> FakeCuda:
        for target, names in self._patches().items():
            for name, value in names.items():
                self.stack.enter_context(mock.patch.object(target, name, value, create=True))
        self.stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        self.stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH))
        # torch.tensor(1.0, device="cuda") is made on the CPU and copied, here as there.
        before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        self.stack.callback(torch._C._set_only_lift_cpu_tensors, before)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.stack.close()

    def _patches(self) -> dict[Any, dict[str, Any]]:
        def nothing(*_: object, **__: object) -> None:
            return None

        def tolist(tensor: Any) -> Any:
            self._wait("tolist")
            return tensor.shadow.tolist()

        def new(tensor: Tensor, *size: Any, **_: object) -> Tensor:
            # FakeTensor's own asks its mode, which knows no shadows.
            shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
            return torch.empty(tuple(shape), dtype=tensor.dtype, device=tensor.device)

        made_up = SimpleNamespace(name="made up", major=8, minor=0, total_memory=80 * 2**30)
        return {
            torch.cuda: {
                **dict.fromkeys(("_lazy_init", "manual_seed", "manual_seed_all", "empty_cache", "set_device"), nothing),
                **dict.fromkeys(("reset_peak_memory_stats", "synchronize", "set_rng_state"), nothing),
                **dict.fromkeys(("current_device", "max_memory_allocated"), lambda *_: 0),
                "is_available": lambda: True,
                "is_initialized": lambda: False,
                "device_count": lambda: 1,
                "get_device_capability": lambda device=None: (8, 0),
                "get_device_properties": lambda device: made_up,
                "get_rng_state": lambda device=None: torch.get_rng_state(),
            },
            torch: {"inference_mode": torch.no_grad},  # in which no FakeTensor can be made
            FakeTensor: {"tolist": tolist, "data_ptr": lambda tensor: tensor.shadow.data_ptr(), "new": new},
        }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device
        flat = [*_entries(args), *_entries(kwargs.values())]
        wanted = kwargs.get("device")
        to_cuda = wanted is not None and torch.device(wanted).type == "cuda"
        if not to_cuda and not any(isinstance(value, FakeTensor) for value in flat):
            return func(*args, **kwargs)
        assert all(hasattr(value, "shadow") for value in flat if isinstance(value, FakeTensor)), func
        copied = self._read_or_copied(func, args, kwargs)
        if copied is not None:
            return copied[0]
        results = on_shadows(func, *_mapped(_shadow_of, args, kwargs))
        self._count(func)
        by_mask = func is aten.index.Tensor and any(i is not None and i.dtype in MASKS for i in args[1])
        if func in BY_VALUE or by_mask:
            if func in BY_VALUE:
                self._wait(func.__name__)
            return _each(self._on_cuda, results)
        return self._as_fake_mode_has_it(func, args, kwargs, flat, results)

    def _read_or_copied(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        """Note what waits; a tuple of the result where an operation ends on the CPU."""
        first = args[0] if args else None
        if func is aten._local_scalar_dense.default:
            self._wait("item")
            return (first.shadow.item(),)
        if func is aten.equal.default:
            self._wait("equal")
            return (first.shadow.equal(args[1].shadow),)
        if func is aten._to_copy.default:
            wanted = kwargs.get("device")
            if not isinstance(first, FakeTensor):
                self._copy_in(kwargs.get("non_blocking", False))
            elif wanted is not None and torch.device(wanted).type == "cpu":
                self._wait("to the CPU")
                return (first.shadow.to(kwargs.get("dtype") or first.dtype, copy=True),)
        elif func is aten.copy_.default:
            if not isinstance(first, FakeTensor):
                self._wait("to the CPU")
                return (first.copy_(args[1].shadow),)
            if not isinstance(args[1], FakeTensor):
                self._copy_in(len(args) > 2 and args[2])
        elif func in INDEXING:
            given = [index for index in args[1] if index is not None]
            for index in given:
                if not isinstance(index, FakeTensor):
                    self._copy_in(False)  # a list of numbers, say
            if any(index.dtype in MASKS for index in given) and not (len(args) > 2 and args[2].numel() == 1):
                self._wait("a mask as index")
        return None

    def _as_fake_mode_has_it(self, func: Any, args: Any, kwargs: Any, flat: Iterable[Any], results: Any) -> Any:
        """The results on "cuda", of the types that FakeTensorMode says; asked once for a signature."""
        number = len(results) if isinstance(results, (list, tuple)) else 1
        key = (func, number, *(_signature(value) for value in flat))
        if key not in self.known or func is aten.resize_.default:
            with self.fake:
                fake_args, fake_kwargs = _mapped(self._for_fake_mode, args, kwargs)
                out = func(*fake_args, **fake_kwargs)
            if _written(func, args, kwargs) is None:
                fakes = list(_entries([out]))
                for fake, shadow in zip(fakes, _entries([results]), strict=True):
                    if isinstance(fake, FakeTensor):
                        assert fake.device.type == "cuda", f"{func} leaves the device"
                        assert fake.shape == shadow.shape, f"{func}: {fake.shape}, but the CPU has {shadow.shape}"
                self.known[key] = [fake.dtype if isinstance(fake, FakeTensor) else None for fake in fakes]
            else:
                self.known[key] = None
        dtypes = self.known[key]
        if dtypes is None:
            return _written(func, args, kwargs)
        types = iter(dtypes)

        def typed(shadow: Any) -> Any:
            dtype = next(types)
            return shadow if dtype is None else self._on_cuda(shadow.to(dtype))

        return _each(typed, results)

    def _on_cuda(self, shadow: Any) -> Any:
        if not isinstance(shadow, Tensor):
            return shadow
        # In a mode's own dispatch it is switched off, and there is no other.
        meta = torch.empty_strided(shadow.size(), shadow.stride(), dtype=shadow.dtype, device="meta")
        fake: Any = FakeTensor(self.fake, meta, CUDA)
        fake.shadow = shadow
        return fake

    def _for_fake_mode(self, value: Any) -> Any:
        plain = isinstance(value, Tensor) and not isinstance(value, FakeTensor)
        return FakeTensor(self.fake, _meta(value), torch.device("cpu")) if plain else value

    def _copy_in(self, non_blocking: bool) -> None:
        if not non_blocking:
            self._wait("from the CPU")

    def _count(self, func: Any) -> None:
        self.kernels += _launches(func)

    def _wait(self, kind: str) -> None:
        frame: Any = sys._getframe(1)
        while frame is not None:
            for part in ("/deepnmt/", "/fairseq/"):
                if part in frame.f_code.co_filename:
                    place = f"{part[1:]}{frame.f_code.co_filename.rsplit(part, 1)[1]}:{frame.f_lineno}"
                    self.waits[f"{place} ({kind})"] += 1
                    return
            frame = frame.f_back
        self.waits[f"elsewhere ({kind})"] += 1


@functools.cache
def _launches(func: Any) -> bool:
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return not (func.is_view or func in NO_KERNEL or composite)


def _entries(values: Iterable[Any]) -> Iterator[Any]:
    """The values, with those of lists and tuples in their place: an operation's arguments are nested no deeper."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    """A value, or each of a list or tuple, changed by a function."""
    return type(value)(map(function, value)) if type(value) in (list, tuple) else function(value)


def _mapped(function: Callable[[Any], Any], args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    return [_each(function, value) for value in args], {name: _each(function, value) for name, value in kwargs.items()}


def host(tensor: Any) -> Tensor:
    """The values of a tensor, wherever it is."""
    values: Tensor = tensor.shadow if isinstance(tensor, FakeTensor) else tensor.detach()
    return values


def _shadow_of(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return value.shadow  # type: ignore[attr-defined]
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value


def _meta(tensor: Tensor) -> Tensor:
    with _disable_current_modes():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _signature(value: Any) -> object:
    """All that device and type of a result can depend on: of its shape, whether it is a single number."""
    if isinstance(value, Tensor):
        return value.dim() == 0, value.dtype, isinstance(value, FakeTensor)
    if type(value) in (int, float):
        return type(value)
    return type(value), value if value.__hash__ is not None else repr(value)


def _written(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation in place, or with `out`, returns: the tensors that it was given; None for others."""
    schema = func._schema
    if not any(result.alias_info is not None and result.alias_info.is_write for result in schema.returns):
        return None
    values = {**dict(zip((argument.name for argument in schema.arguments), args)), **kwargs}
    found = [
        next(
            values[argument.name]
            for argument in schema.arguments
            if argument.alias_info is not None
            and argument.alias_info.is_write
            and argument.alias_info.before_set == result.alias_info.before_set
        )
        for result in schema.returns
    ]
    return found[0] if len(found) == 1 else tuple(found)
