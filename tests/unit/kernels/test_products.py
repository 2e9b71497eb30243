"""Products of fewer bits against whole numbers and float64, and the rule that chooses a library."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch

from deepnmt.kernels import feed_forward, products
from deepnmt.kernels.kept import Kept
from deepnmt.kernels.products import (
    BFloat16Product,
    FullProduct,
    Int8Product,
    OnednnProduct,
    obstacle,
    product,
    quantised,
)

CPU = torch.device("cpu")
NEW = {"avx512_vnni": True, "avx512_bf16": True, "avx512_f": True, "cpu_name": "AMD EPYC"}


def needs(kind: str) -> None:
    if obstacle(kind, CPU) is not None:
        pytest.skip(f"this processor has no products of {kind}")


def rows(count: int, channels: int, seed: int) -> torch.Tensor:
    """Rows of very different sizes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, channels, generator=generator) * torch.logspace(-2, 2, count).unsqueeze(1)


@pytest.fixture(params=["vnni", "none"])
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's products of int8, or none, as with AVX2 alone."""
    if request.param == "none":
        monkeypatch.setattr(products, "_capabilities", lambda: {"avx2": True})
    elif not products._has(products.VNNI):
        pytest.skip("this processor has no products of int8")


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize(("count", "channels"), [(1, 600), (3, 600), (17, 600), (64, 600), (5, 1041), (5, 2500)])
def test_int8_is_exact_in_whole_numbers(count: int, channels: int) -> None:
    generator = torch.Generator().manual_seed(count)
    x = torch.randint(-127, 128, (count, channels), generator=generator)
    w = torch.randint(-127, 128, (40, channels), generator=generator)
    # The largest sums that there are: 16 bits do not hold two products.
    x[0], w[0], w[1] = 127, 127, -127
    x[:, 0] = w[:, 0] = 127  # so that all scales are 1
    assert torch.equal(Int8Product(w.float(), None)(x.float()), (x @ w.t()).float())


@pytest.mark.usefixtures("instructions")
def test_int8_has_no_reference_loop(capfd: pytest.CaptureFixture[str]) -> None:
    if not products._has(products.VNNI):
        pytest.skip("this processor has no products of int8")
    weighted = Int8Product(rows(64, 128, 1), None)
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        for count in (1, 256):
            weighted(rows(count, 128, 2))
    calls = [line for line in capfd.readouterr().out.splitlines() if ",exec,cpu,matmul," in line]
    assert len(calls) == 2
    assert not [call for call in calls if "matmul,ref" in call]


def test_int8_has_a_scale_for_each_row() -> None:
    x, w, b = rows(7, 48, 1), rows(33, 48, 2), torch.randn(33)
    s, t = (each.double().abs().amax(1, keepdim=True) / 127 for each in (x, w))
    q, p = (x.double() / s).round(), (w.double() / t).round()
    expected = (q @ p.t()) * s * t.t() + b.double()
    found = Int8Product(w, b)(x).double()
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)
    # The least row has lost as little as the largest, which is 10,000 times its size.
    exact = x.double() @ w.double().t()
    lost = (found - b - exact).norm(dim=1) / exact.norm(dim=1)
    assert lost.max() < 0.03


@pytest.mark.usefixtures("instructions")
def test_int8_of_a_row_does_not_depend_on_other_rows() -> None:
    x, w = rows(20, 64, 3), rows(80, 64, 4)
    function = Int8Product(w, None)
    assert torch.equal(torch.cat([function(row.unsqueeze(0)) for row in x]), function(x))


@pytest.mark.usefixtures("instructions")
def test_int8_of_zeros_and_of_what_is_no_number() -> None:
    w, b = rows(4, 16, 5), torch.arange(4.0)
    x = torch.zeros(3, 16)
    x[1, 2] = float("nan")
    found = Int8Product(w, b)(x)
    assert torch.equal(found[0], b)
    assert found[1].isnan().all()


def test_bfloat16_rounds_the_factors() -> None:
    needs("bfloat16")
    x, w, b = rows(6, 40, 6), rows(9, 40, 7), torch.randn(9)
    exact = x.bfloat16().double() @ w.bfloat16().double().t()
    found = BFloat16Product(w, b)(x).double()
    # The result has eight bits, and the bias all of its own.
    assert ((found - b - exact).abs() <= exact.abs() / 256 + 1e-4).all()
    assert torch.equal(BFloat16Product(w, b)(torch.zeros_like(x))[0], b)


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_float32_by_both_libraries(monkeypatch: pytest.MonkeyPatch, onednn: bool, bias: bool) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: onednn)
    calls: list[int] = []
    linear = products.onednn_linear
    monkeypatch.setattr(products, "onednn_linear", lambda x, w, b: calls.append(len(x)) or linear(x, w, b))
    w, b = rows(512, 256, 8), torch.randn(512) if bias else None
    function = product("float32", w, b)
    for count in (1, 4, 5):
        x = rows(count, 256, 9)
        expected = x.double() @ w.double().t() + (0 if b is None else b)
        size = x.double().norm(dim=1, keepdim=True) * w.double().norm(dim=1)
        assert ((function(x) - expected).abs() <= 2e-6 * size + 1e-5).all()
    assert calls == ([5] if onednn else [])


def test_onednn_has_few_numbers_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps a kernel for each."""
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(products, "FEW_MULTIPLICATIONS", 0)
    seen: list[int] = []
    linear = products.onednn_linear
    monkeypatch.setattr(products, "onednn_linear", lambda x, w, b: seen.append(len(x)) or linear(x, w, b))
    w, b, x = rows(8, 6, 8), torch.randn(8), rows(300, 6, 9)
    function = OnednnProduct(w, b)
    for count in (1, 127, 128, 129, 160, 300):
        expected = x[:count].double() @ w.double().t() + b
        assert function(x[:count]).shape == expected.shape
        size = x[:count].double().norm(dim=1, keepdim=True) * w.double().norm(dim=1)
        assert ((function(x[:count]) - expected).abs() <= 2e-6 * size + 1e-5).all()
    assert seen[::2] == [1, 127, 128, 160, 160, 320]


def test_a_large_weight_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In oneDNN's blocks alone, by which even one row is multiplied."""
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(products, "FEW_MULTIPLICATIONS", 7)
    w, x = torch.eye(4, 2), torch.tensor([[3.0, 5.0]])
    function = OnednnProduct(w, None)
    assert function.small is None
    assert function(x).tolist() == [[3.0, 5.0, 0.0, 0.0]]


def test_only_float32_on_the_cpu_is_onednns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    assert products.prefers_onednn(torch.zeros(256, 256))
    assert not products.prefers_onednn(torch.zeros(256, 256, dtype=torch.float64))
    assert not products.prefers_onednn(torch.zeros(256, 256, device="meta"))


@pytest.mark.parametrize("shape", [(255, 256), (256, 255), (9712, 128)])
def test_onednn_keeps_no_kernels_where_it_gains_nothing(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    assert not products.prefers_onednn(torch.zeros(shape))
    assert isinstance(product("float32", torch.zeros(shape), None), FullProduct)


@pytest.mark.parametrize(
    ("capabilities", "faster"),
    [(NEW, True), ({**NEW, "cpu_name": "Intel(R) Xeon(R)"}, False), ({**NEW, "avx512_f": False}, False), ({}, False)],
)
def test_onednn_is_chosen_by_the_processor(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, Any], faster: bool
) -> None:
    monkeypatch.setattr(products, "_capabilities", lambda: capabilities)
    assert products.onednn_is_faster.__wrapped__() is faster


@pytest.mark.parametrize(
    ("kind", "device", "capabilities", "expected"),
    [
        ("float32", "cuda", {}, None),
        ("int8", "cpu", NEW, None),
        ("bfloat16", "cpu", NEW, None),
        ("int8", "cpu", {"avx2": True}, None),
        ("float16", "cpu", {}, None),
        ("float16", "cuda", {}, None),
        ("bfloat16", "cpu", {"avx512_vnni": True}, "needs a processor with avx512_bf16 or amx_bf16"),
        ("int8", "cuda", NEW, "is for the CPU"),
        ("int4", "cpu", NEW, "must be one of float32, float16, bfloat16, int8, but is int4"),
    ],
)
def test_what_a_processor_cannot_compute(
    monkeypatch: pytest.MonkeyPatch, kind: str, device: str, capabilities: dict[str, Any], expected: str | None
) -> None:
    monkeypatch.setattr(products, "_capabilities", lambda: capabilities)
    found = obstacle(kind, torch.device(device))
    assert found is None if expected is None else str(found).startswith(expected)


def test_rounding_twice_changes_nothing() -> None:
    w = rows(30, 50, 10)
    rounded, scales = quantised(w)
    assert torch.equal(quantised(rounded * scales)[0], rounded)


def test_kinds_are_what_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    for faster, full in ((False, FullProduct), (True, OnednnProduct)):
        monkeypatch.setattr(products, "onednn_is_faster", lambda faster=faster: faster)
        kinds = [type(product(kind, torch.eye(256), None)) for kind in products.KINDS if kind != "float16"]
        assert kinds == [full, BFloat16Product, Int8Product]


def test_a_result_is_kept_while_its_tensors_are_unchanged() -> None:
    kept: Kept[float] = Kept()
    one, other = torch.ones(2), torch.ones(2)
    made: list[float] = []

    def result(*tensors: torch.Tensor) -> float:
        def make() -> float:
            made.append(0.0)
            return float(sum(each.sum() for each in tensors))

        return kept.get(tensors, make)

    assert [result(one), result(one), len(made)] == [2.0, 2.0, 1]
    one.add_(1)
    assert [result(one), result(one), len(made)] == [4.0, 4.0, 2]
    one.data = torch.zeros(2)
    assert [result(one), len(made)] == [0.0, 3]
    assert [result(other), result(other, one), result(other), len(made)] == [2.0, 2.0, 2.0, 6]


@pytest.mark.parametrize("shape", [(256, 300, 257), (256, 255, 256), (300, 256, 255), (255, 256, 300)])
def test_products_of_a_training_by_both_libraries(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int]) -> None:
    calls: list[int] = []
    linear = products.onednn_linear
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(products, "onednn_linear", lambda x, w, b: calls.append(1) or linear(x, w, b))
    a, b = torch.randn(shape[0], shape[1]), torch.randn(shape[1], shape[2])
    expected = a.double() @ b.double()
    # As they come in forward and backward passes: either may lie the other way round.
    for one in (a, a.t().contiguous().t()):
        for other in (b, b.t().contiguous().t()):
            assert (products.mm(one, other) - expected).abs().max() < 1e-3
    assert len(calls) == (4 if min(shape) >= 256 else 0)
    assert torch.equal(products.mm(a.double(), b.double()), expected)


def factors_of_a_training(converts: bool) -> None:
    """Compare products in a context of rounded factors with those of rounded factors in float64."""
    a, b = torch.randn(300, 200), torch.randn(200, 130)
    exact, rounded = a.double() @ b.double(), a.bfloat16().double() @ b.bfloat16().double()
    total = torch.ones(300, 130)
    # Half a unit in the last place of bfloat16, for results that are rounded as well, and sums of float32.
    most = rounded.abs() * (2**-8 if converts else 0) + 1e-4
    with products.rounded_factors():
        for one in (a, a.t().contiguous().t()):
            for other in (b, b.t().contiguous().t()):
                found = [products.mm(one, other), products.mm(one, other, out=torch.empty(300, 130))]
                found.append(products.addmm_(total.clone(), one, other) - 1)
                for each in found:
                    assert each.dtype == torch.float32
                    assert ((each - rounded).abs() <= most).all()
        # 257/256 lies between 1 and 129/128, and the even one is 1.
        assert torch.equal(
            products.mm(torch.full((40, 200), 257 / 256), torch.ones(200, 30)), torch.full((40, 30), 200.0)
        )
        # Everything else in the process keeps its precision, and so does what has more of it.
        assert (torch.mm(a, b) - exact).abs().max() < 1e-4
        assert (torch.bmm(a[None], b[None])[0] - exact).abs().max() < 1e-4
        assert torch.equal(products.mm(a.double(), b.double()), exact)
    assert (products.mm(a, b) - exact).abs().max() < 1e-4
    assert (exact - rounded).abs().max() > 1e-2


def test_factors_of_a_training_are_rounded_where_it_is_asked_for() -> None:
    if not products._capabilities().get("amx_bf16"):
        pytest.skip("oneDNN rounds factors with AMX alone")
    assert not products._converts()
    factors_of_a_training(converts=False)


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, True),
        ({"avx512_bf16": True, "amx_bf16": True}, False),
        ({"avx512_bf16": False}, False),
        ({}, False),
    ],
)
def test_factors_are_converted_where_onednn_would_not_round_them(
    monkeypatch: pytest.MonkeyPatch, has: dict[str, bool], expected: bool
) -> None:
    monkeypatch.setattr(products, "_capabilities", lambda: has)
    products._converts.cache_clear()
    try:
        assert products._converts() == expected
        if expected:
            factors_of_a_training(converts=True)
    finally:
        products._converts.cache_clear()


def test_an_older_torch_rounds_no_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.randn(300, 200), torch.randn(200, 130)
    monkeypatch.setattr(torch.backends, "mkldnn", object())
    with products.rounded_factors():
        assert torch.equal(products.mm(a, b), torch.mm(a, b))


def test_a_wide_sublayer_has_the_gradients_of_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    torch.manual_seed(1)
    inner, outer, x = torch.nn.Linear(256, 320), torch.nn.Linear(320, 256), torch.randn(300, 1, 256)
    found = []
    for function in (feed_forward.feed_forward, feed_forward.reference):
        kind = torch.float32 if function is feed_forward.feed_forward else torch.float64
        maps = [copy.deepcopy(each).to(kind) for each in (inner, outer)]
        y = x.clone().to(kind).requires_grad_()
        function(y, *maps).square().sum().backward()
        found.append([y.grad, *(p.grad for each in maps for p in each.parameters())])
    for mine, exact in zip(*found):
        assert mine is not None
        assert exact is not None
        assert float((mine - exact).norm() / exact.norm()) < 1e-5


def test_a_resumed_training_computes_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where oneDNN computes it, in a model that was made anew."""
    calls: list[int] = []
    linear = products.onednn_linear
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(products, "onednn_linear", lambda x, w, b: calls.append(1) or linear(x, w, b))

    def train(kept: bytes, updates: range) -> bytes:
        maps = torch.nn.ModuleList([torch.nn.Linear(256, 320), torch.nn.Linear(320, 256)])
        optimizer = torch.optim.Adam(maps.parameters())
        if kept:
            for part, state in zip((maps, optimizer), torch.load(io.BytesIO(kept))):
                part.load_state_dict(state)
        for update in updates:
            x = torch.randn(300, 1, 256, generator=torch.Generator().manual_seed(update))
            optimizer.zero_grad()
            feed_forward.feed_forward(x, *maps).square().mean().backward()
            optimizer.step()
        file = io.BytesIO()
        torch.save([maps.state_dict(), optimizer.state_dict()], file)
        return file.getvalue()

    start = train(b"", range(0))
    whole, resumed = train(start, range(4)), train(train(start, range(2)), range(2, 4))
    assert calls
    assert torch.load(io.BytesIO(start))[0].keys() == torch.load(io.BytesIO(whole))[0].keys()
    for (name, one), other in zip(
        torch.load(io.BytesIO(whole))[0].items(), torch.load(io.BytesIO(resumed))[0].values()
    ):
        assert torch.equal(one, other), name
        assert not torch.equal(one, torch.load(io.BytesIO(start))[0][name])
