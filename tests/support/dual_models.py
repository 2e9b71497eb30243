"""Small models of both directions."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import torch

from deepnmt.model.dual import DualConfig, DualModel
from support.models import SIZE, scramble, task


def build_dual(of: Namespace | None = None, seed: int = 1, **options: Any) -> DualModel:
    """Two models of `SIZE` in float64 and evaluation mode, whose parameters are all random."""
    torch.manual_seed(seed)
    model = DualModel.build_model(DualConfig(**{**SIZE, "dropout": 0.0, **options}), of or task())
    scramble(model)
    return model.double().eval()
