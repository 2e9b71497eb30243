"""The number of torch's threads. In small products they wait for each other, and spin meanwhile: work that is lost.

With two threads, searches of Transformer-Tiny for 1, 16 and 64 sentences take 0.95, 0.80 and 0.80 of the time. The
processor works 1.9, 1.6 and 1.6 times as long as for one thread (benchmarks/results/2026-12-01_epyc-avx512_2cores.md).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Channels of the widest models that are narrow; rows from which their products are large enough for several threads.
NARROW, ROWS = 128, 256


@contextmanager
def threads_for(rows: int, channels: float) -> Iterator[None]:
    """In this context, let torch compute with one thread if it multiplies few rows with the weights of a narrow model.

    Args:
        rows: of the products, such as the hypotheses of a batch
        channels: of the widest model
    """
    threads = torch.get_num_threads()
    if channels > NARROW or rows >= ROWS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
