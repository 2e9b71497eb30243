"""Estimates for a GPU: operations are counted as by hand, and each takes its longest time."""

from __future__ import annotations

import pytest
import torch

from deepnmt import cli
from deepnmt.errors import UserError
from deepnmt.runs.gpu_estimate import GPUS, Gpu, OperationCount, read_gpu


def test_products_and_bytes_of_operations() -> None:
    x, w, b = torch.ones(3, 4), torch.ones(4, 5, requires_grad=True), torch.ones(5)
    with OperationCount() as count:
        y = torch.addmm(b, x, w)
        y.view(5, 3).t().sum().backward()
        b.add_(1)
        torch.arange(6)
    # A float32 number counts as one of FP16, two bytes.
    assert count.operations[0] == (2 * 3 * 4 * 5, 2 * (5 + 12 + 20 + 15))
    # The sum of a view; its gradient is 15 ones, all of which are one number in memory.
    assert count.operations[1] == (0, 2 * (15 + 1))
    # The weights' gradient is of x and the result's.
    assert (2 * 3 * 4 * 5, 2 * (12 + 15 + 20)) in count.operations
    assert count.operations[-2:] == [(0, 2 * 5), (0, 8 * 6)]


def test_the_most_bytes_at_once() -> None:
    x = torch.ones(100)
    with OperationCount() as count:
        y = x + 1
        z = y + 1
        del y
        z = z[:10] + 1
        del z
        torch.ones(150)
    # Two results of 100 numbers; then at most 150 numbers.
    assert count.peak == 2 * 200


def test_an_operation_takes_the_longest_of_three_times() -> None:
    gpu = Gpu(memory=80, rate=300, bandwidth=2000)
    # 10 us; 3e12 products at 150 TFLOP/s; 5e9 bytes at 1,000 GB/s.
    assert gpu.seconds([(10, 10)]) == pytest.approx(1e-5)
    assert gpu.seconds([(3 * 10**12, 10**9)]) == pytest.approx(0.02)
    assert gpu.seconds([(3 * 10**11, 5 * 10**9), (10, 10)]) == pytest.approx(0.00501)


def test_gpus_have_names_or_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_gpu("a100") == Gpu(80, 312, 2039) == read_gpu("80,312,2039")
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.call("plan", ["--help"])
    said = capsys.readouterr().out
    assert all(f" {name}," in said.replace("\n", " ") for name in GPUS)
    for text in ("none", "80,312", "80,312,0", "80,312,x", "80,312,nan", "80,312,inf", "1,2,3,4"):
        with pytest.raises(UserError, match=rf"^--gpu must be t4, v100, .*, or GIB,TFLOPS,GB/S .*, but is '{text}'$"):
            read_gpu(text)
