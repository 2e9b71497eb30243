"""The products of an update that benchmarks/tiny_step.py times alone."""

from __future__ import annotations

import pytest
import tiny_step
import torch

from deepnmt.kernels import products


@pytest.mark.parametrize("onednn", [False, True])
def test_products_of_both_libraries_are_counted(onednn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if onednn and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch has no products of oneDNN")
    monkeypatch.setattr(products, "onednn_is_faster", lambda: onednn)
    a, b = torch.randn(300, 512), torch.randn(512, 256)
    with tiny_step.Products() as found:
        products.mm(a, b)
        torch.bmm(a.view(3, 100, 512), b.expand(3, -1, -1))
        a.add(1)
    assert len(found.calls) == 2
    assert found.operations == 2 * 2 * 300 * 512 * 256
    found.again()
