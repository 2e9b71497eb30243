"""Run `benchmarks/gpu.py` on the made-up device, at a size at which it is quick: python -m ... PAGE."""

from __future__ import annotations

import sys
import traceback
from argparse import Namespace
from pathlib import Path
from unittest import mock

from support.fake_cuda import shim

shim.load()

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import fairseq  # noqa: E402, F401  before the package, which then registers itself
import gpu  # noqa: E402
import random_model  # noqa: E402
import random_training  # noqa: E402
import torch  # noqa: E402

import deepnmt  # noqa: E402, F401
from support.fake_cuda.device import FakeCuda  # noqa: E402

torch.set_num_threads(1)
gpu.WORDS, random_training.PAIRS = 3, 100
random_model.TYPES = random_training.TYPES = 60
options = Namespace(width=16, tokens=64, layers=[1], batch=3, minutes=60.0)


def measure(case: gpu.Case) -> gpu.Figures:
    """Without an error's text alone in a row, a fault shows where it arose."""
    try:
        return gpu.figures(case, options.width, options.tokens, updates=1)
    except Exception:
        traceback.print_exc()
        raise


with mock.patch.object(torch.Tensor, "pin_memory", lambda self, device=None: self), FakeCuda():
    gpu.write(Path(sys.argv[1]), gpu.page(options, {False: measure, True: measure}))
