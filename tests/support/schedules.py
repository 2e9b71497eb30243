"""Learning-rate schedules as fairseq builds them, and their formulas written out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import fairseq.benchmark  # noqa: F401  registers the task dummy_mt
import torch
from fairseq import optim
from fairseq.optim.lr_scheduler import FairseqLRScheduler, build_lr_scheduler
from omegaconf import OmegaConf

import deepnmt.lr_schedulers  # noqa: F401  registers the schedules

CLOSE = {"rel": 1e-13, "abs": 0}
# Warm-up, its initial rate as given, decay period, resets.
RESET_CASES: dict[str, tuple[int, float, int, list[int]]] = {
    "no reset": (400, -1, 0, []),
    "resets": (400, -1, 0, [1000, 1001, 2500]),
    "own decay period": (400, -1, 90, [1000]),
    "initial rate": (400, 1e-4, 0, [600]),
    "reset in warm-up": (400, 1e-4, 700, [150, 399, 1600]),
    "reset as warm-up ends": (400, -1, 300, [400]),
    "no warm-up": (0, -1, 250, []),
    "no warm-up, resets": (0, -1, 250, [1, 900]),
    "warm-up of one": (1, -1, 0, [2]),
}


def adam(cfg: Any) -> optim.FairseqOptimizer:
    return optim.build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.ones(1))])


def build(name: str, lr: Any = 0.003, max_update: int = 0, **settings: Any) -> FairseqLRScheduler:
    """The schedule as the trainer has it, from a configuration such as Hydra gives."""
    cfg = OmegaConf.create(
        {
            "common": {"tpu": False},
            "optimization": {"lr": lr if isinstance(lr, list) else [lr], "max_update": max_update},
            "optimizer": {"_name": "adam", "lr": [0.25]},
            "lr_scheduler": {"_name": name, **settings},
        }
    )
    return build_lr_scheduler(cfg.lr_scheduler, adam(cfg))


def build_reset(case: str, **settings: Any) -> FairseqLRScheduler:
    warmup, initial, period, resets = RESET_CASES[case]
    given = {"warmup_updates": warmup, "warmup_init_lr": initial, "decay_period": period, "reset_updates": resets}
    return build("inverse_sqrt_reset", **{**given, **settings})


def rates(scheduler: FairseqLRScheduler, updates: Iterable[int]) -> list[float]:
    """What the optimizer has after each of these numbers of updates."""
    result = []
    for update in updates:
        returned = scheduler.step_update(update)
        result.append(scheduler.optimizer.get_lr())
        assert returned == result[-1]
    return result


def reset_formula(updates: int, warmup: int, initial: float, period: int, resets: list[int]) -> list[float]:
    """(16) and (17), update by update, for a peak of 0.003."""
    peak, top, result = 0.003, warmup, []
    for t in range(updates):
        top = t if t in resets else top
        if t < top:
            start = initial if initial > 0 else 0.0
            result.append(start * (1 - t / warmup) + peak * t / warmup)
        else:
            result.append(peak * (1 + (t - top) / (period or warmup)) ** -0.5)
    return result
