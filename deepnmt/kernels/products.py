"""Products of rows with the weights of a map: in float32, or in numbers of fewer bits.

Shapes: R rows; C input and O output channels.

    float32     x W' + b
    bfloat16    x and W rounded to bfloat16, and their product; b added in float32
    int8        x_r = s_r q_r,  W_o = t_o p_o,  s_r = max |x_r| / 127,  t_o = max |W_o| / 127:
                s_r t_o <q_r, p_o> + b_o, where q and p are rounded to whole numbers and <q_r, p_o> is exact

float16 is a format of files alone, computed as float32.

oneDNN has fast products of signed rows with AMX alone. Elsewhere the rows are unsigned, q + 128, and the weight's
blocks have 128 times the sums of p, which it subtracts. A processor without VNNI, such as one with AVX2 alone, adds
products of int8 in pairs of 16 bits, which overflow. There q and p are float32: up to 1,040 channels at a time, sums of
such products are exact, and results the same.

A row has a scale of its own, so its result does not depend on the rest of the batch.

With AVX-512, MKL uses its fastest kernels on Intel's processors only. On AMD's, oneDNN replaces it for large products
of wide models. There its speed is 1.1 (Zen 4) to 2.2 times (Zen 5) MKL's (docs/performance.md).
"""

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from deepnmt.reference import reference_wanted

logger = logging.getLogger(__name__)

Product = Callable[[Tensor], Tensor]

# Computed in float32.
WHOLE = ("float32", "float16")
KINDS = (*WHOLE, "bfloat16", "int8")
# Features of the processor, by the names of `torch.cpu.get_capabilities`.
BFLOAT16, VNNI = ("avx512_bf16", "amx_bf16"), ("avx512_vnni", "avx_vnni")
AMX_INT8 = ("amx_int8",)
# Multiplications below which a call of oneDNN costs more than it saves.
FEW_MULTIPLICATIONS = 2**19
# Multiple to which the number of rows is rounded up for oneDNN, from four times as many on.
MULTIPLE = 32
# The side of a matrix below which oneDNN gains nothing.
SHORT_SIDE = 256
LARGEST = 127
# Channels of which float32 adds products of whole numbers up to LARGEST exactly.
EXACT_CHANNELS = 2**24 // LARGEST**2


def obstacle(kind: str, device: torch.device) -> Optional[str]:
    """Return why a kind of product cannot be computed here, or None."""
    if kind not in KINDS:
        return f"must be one of {', '.join(KINDS)}, but is {kind}"
    if kind in WHOLE:
        return None
    if device.type != "cpu":
        return "is for the CPU; a GPU computes in half precision by itself"
    if kind == "bfloat16" and not _has(BFLOAT16):
        return f"needs a processor with {' or '.join(BFLOAT16)}, which this one has not; use float32"
    return None


def _has(features: Sequence[str]) -> bool:
    """Return whether the processor has one of some features."""
    return any(_capabilities().get(name) for name in features)


def product(kind: str, weight: Tensor, bias: Optional[Tensor]) -> Product:
    """Return the map of rows, R x C, to R x O.

    Args:
        kind: of `KINDS`, and not float16; there must be no `obstacle`
        weight: W, O x C; copied
        bias: b, O
    """
    kinds: dict[str, Callable[[Tensor, Optional[Tensor]], Product]] = {
        "float32": OnednnProduct if prefers_onednn(weight) else FullProduct,
        "bfloat16": BFloat16Product,
        "int8": Int8Product,
    }
    return kinds[kind](weight, bias)


class FullProduct:
    """The product in the type of the weights."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor]) -> None:
        # With C x O, products of few rows take two thirds of the time.
        self.weight, self.bias = weight.t().contiguous(), bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W' + b."""
        return torch.mm(x, self.weight) if self.bias is None else torch.addmm(self.bias, x, self.weight)


class OnednnProduct:
    """The product in float32, by oneDNN where it is large."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor]) -> None:
        self.few_rows = FEW_MULTIPLICATIONS // weight.numel()
        self.small = FullProduct(weight, bias) if self.few_rows else None
        # In oneDNN's blocks, weights for few rows are read in half the time.
        self.blocks, self.bias = torch.ops.mkldnn._reorder_linear_weight(weight, None), bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W' + b."""
        if self.small is not None and x.size(0) <= self.few_rows:
            return self.small(x)
        return onednn_linear(padded_rows(x), self.blocks, self.bias)[: x.size(0)]


class BFloat16Product:
    """See above."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor]) -> None:
        self.weight, self.bias = weight.bfloat16(), bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W' + b, in the type of x."""
        result = F.linear(x.bfloat16(), self.weight).type_as(x)
        return result if self.bias is None else result.add_(self.bias)


class Int8Product:
    """See above."""

    def __init__(self, weight: Tensor, bias: Optional[Tensor]) -> None:
        rounded, scales = quantised(weight)
        self.product: Product = (_IntegerSums if _has(VNNI) else _FloatSums)(rounded, scales.squeeze(1))
        self.bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return x W' + b, in the type of x."""
        rounded, scales = quantised(padded_rows(x))
        result = self.product(rounded).type_as(x).mul_(scales)[: x.size(0)]
        return result if self.bias is None else result.add_(self.bias)


class _IntegerSums:
    """Exact products of int8, by the processor's instructions for them."""

    def __init__(self, weight: Tensor, scales: Tensor) -> None:
        # In oneDNN's blocks, a product takes half the time.
        self.blocks, self.scales = torch.ops.onednn.qlinear_prepack(weight, None), scales
        self.zeros = torch.zeros_like(scales, dtype=torch.int32)
        self.zero = 0 if _has(AMX_INT8) else 128

    def __call__(self, x: Tensor) -> Tensor:
        """Return the sums times the scales, R x O, in float32."""
        if self.zero:
            x = (x ^ -128).view(torch.uint8)
        # Scale and zero of the result are 1 and 0.
        weight = self.blocks, self.scales, self.zeros
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            x, 1.0, self.zero, *weight, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return result


class _FloatSums:
    """The same sums in floating point, with blocks of as many channels as float32 adds exactly."""

    def __init__(self, weight: Tensor, scales: Tensor) -> None:
        self.blocks = [block.t().float().contiguous() for block in torch.split(weight, EXACT_CHANNELS, dim=1)]
        self.scales = scales

    def __call__(self, x: Tensor) -> Tensor:
        """Return the sums times the scales, R x O, in float32."""
        parts = zip(torch.split(x.float(), EXACT_CHANNELS, dim=1), self.blocks)
        first, *others = (torch.mm(part, block) for part, block in parts)
        return (sum(others, first.double()).float() if others else first).mul_(self.scales)


def padded_rows(x: Tensor) -> Tensor:
    """Return rows and further ones: oneDNN compiles a kernel for each number of rows, and keeps it, about 1 MiB."""
    missing = -x.size(0) % MULTIPLE
    return F.pad(x, (0, 0, 0, missing)) if missing and x.size(0) >= 4 * MULTIPLE else x


def quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows rounded to int8, of the shape of x, and their scales, R x 1."""
    # Without a tensor of absolute values: a third of the time.
    largest = torch.maximum(x.amax(1, keepdim=True), x.amin(1, keepdim=True).neg_())
    scales = largest.div_(LARGEST).clamp_min_(torch.finfo(x.dtype).tiny)
    return (x / scales).round_().to(torch.int8), scales


def rounded(kind: str, x: Tensor) -> Tensor:
    """Return the numbers by which a kind of product replaces rows of x or of a weight, for other products of them."""
    if kind == "int8":
        numbers, scales = quantised(x)
        return numbers * scales
    return x.bfloat16() if kind == "bfloat16" else x


def prefers_onednn(weight: Tensor) -> bool:
    """Return whether oneDNN computes large products of a matrix faster than MKL.

    Without a gain, its compiled kernels are only a loss: a search for batches of many sizes keeps hundreds of them.
    """
    usable = weight.device.type == "cpu" and weight.dtype == torch.float32 and not reference_wanted()
    return usable and min(weight.shape) >= SHORT_SIDE and onednn_is_faster()


def mm(a: Tensor, b: Tensor, out: Optional[Tensor] = None) -> Tensor:
    """Return `torch.mm(a, b)` by the faster library; the result may lie in `out`, but need not."""
    if _rounds.factors and a.device.type == "cpu":
        if _converts() and a.dtype == b.dtype == torch.float32:
            result = torch.mm(a.bfloat16(), b.bfloat16())
            return result.float() if out is None else out.copy_(result)
        with _rounded():
            return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)
    if prefers_onednn(a) and prefers_onednn(b):
        return onednn_linear(a, b.t(), None)
    return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)


def addmm_(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Add `torch.mm(a, b)` to `total`, and return it."""
    if _rounds.factors and a.device.type == "cpu":
        if _converts() and a.dtype == b.dtype == torch.float32:
            return total.add_(torch.mm(a.bfloat16(), b.bfloat16()))
        with _rounded():
            return total.addmm_(a, b)
    return total.addmm_(a, b)


class _Rounds:
    factors = False


_rounds = _Rounds()


@contextmanager
def rounded_factors() -> Iterator[None]:
    """In this context, `mm` and `addmm_` round factors in float32 to bfloat16 on the CPU.

    Sums stay in float32. oneDNN does it where the processor has `amx_bf16` and torch is 2.9 or newer. With
    `avx512_bf16` alone it would not: there the factors are converted, so that a result is also rounded once. Otherwise
    nothing changes. torch's own setting would round batched products as well, and thereby slow them down: attention's
    products are too small.
    """
    before, _rounds.factors = _rounds.factors, hasattr(torch.backends.mkldnn, "matmul")
    try:
        yield
    finally:
        _rounds.factors = before


@functools.cache
def _converts() -> bool:
    """Return whether factors must be converted, since oneDNN would not round them."""
    found = _capabilities()
    return bool(found.get("avx512_bf16")) and not found.get("amx_bf16")


@contextmanager
def _rounded() -> Iterator[None]:
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


def onednn_linear(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """Return x W' + b in float32, by oneDNN."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


@functools.cache
def onednn_is_faster() -> bool:
    """Return whether oneDNN is faster than MKL at large products of float32."""
    # A rule, not a measurement: the same machine must give the same results each time.
    capabilities = _capabilities()
    name = str(capabilities.get("cpu_name", ""))
    found = (
        name.startswith("AMD")
        and bool(capabilities.get("avx512_f"))
        and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
    if found:
        logger.info(f"large products in float32 are computed by oneDNN, which is faster than MKL on {name}")
    return found


@functools.cache
def _capabilities() -> dict[str, Any]:
    """Return torch's facts about the processor; nothing in versions without them."""
    return dict(getattr(torch.cpu, "get_capabilities", dict)())
