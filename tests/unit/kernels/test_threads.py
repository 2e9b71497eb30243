"""One thread for products that are too small for several."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from deepnmt.kernels.threads import threads_for


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("rows", "channels", "threads"), [(1, 128, 1), (255, 64, 1), (256, 128, 3), (1, 129, 3), (640, 512, 3)]
)
def test_few_rows_of_a_narrow_model_have_one_thread(rows: int, channels: int, threads: int) -> None:
    with threads_for(rows, channels):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 3


def test_the_threads_come_back_after_a_fault() -> None:
    with pytest.raises(ValueError, match=r"^a fault$"), threads_for(1, 128):
        raise ValueError("a fault")
    assert torch.get_num_threads() == 3
