"""`inverse_sqrt_reset`, the schedule of progressive training (methods 12: Li 2020, EMNLP, arXiv 2010.03737)."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler
from omegaconf import II

from deepnmt.errors import UserError
from deepnmt.lr_schedulers.inverse_sqrt import cooldown_faults, cooled, decayed, low_fault, peak_faults
from deepnmt.options.option_table import described

RESETS = "resets"


@dataclass
class InverseSqrtResetConfig(FairseqDataclass):  # type: ignore[misc]
    """The options; `lr` is fairseq's --lr, the peak, and must be one rate."""

    warmup_updates: int = described(4000, "number of initial updates with linear warm-up of the rate (0: none)")
    warmup_init_lr: float = described(-1, "learning rate at the start of the warm-up (negative: 0)")
    decay_period: int = described(
        0, "c in the rate lr sqrt(c / (c + s)), s updates after the last peak (0: --warmup-updates)"
    )
    # Text on the command line; a file for Hydra may also have a list or a single number.
    reset_updates: Any = described(
        "", "numbers of updates after which the rate returns to its peak, without warm-up: 10000,20000"
    )
    cooldown_updates: int = described(
        0, "number of updates before --max-update in which the rate falls linearly to zero (0: none)"
    )
    lr: list[float] = field(default=II("optimization.lr"))
    max_update: int = II("optimization.max_update")


def with_reset(state: Mapping[str, Any], update: int) -> dict[str, Any]:
    """Return a schedule's state whose rate returns to the peak after `update` updates; for growing a checkpoint.

    Args:
        state: `optimizer_history[-1]["lr_scheduler_state"]` of a fairseq checkpoint, for any schedule; it is not
            changed
        update: number of updates done, `optimizer_history[-1]["num_updates"]`

    Raises:
        ValueError: `update` is negative
    """
    if update < 0:
        raise ValueError(f"update must be at least 0, but is {update}")
    return {**state, RESETS: sorted({*state.get(RESETS, ()), update})}


class InverseSqrtReset(FairseqLRScheduler):  # type: ignore[misc]
    """With w the warm-up, c the decay period and t updates done, the rate is

        lr = init + (peak - init) t / w,  t < w                                                         (16)
        lr = peak sqrt(c / (c + t - w)),  from t = w on; for c = w this is peak sqrt(w / t)             (16)
        lr = peak sqrt(c / (c + s)),  s updates after the last reset                                    (17)

    times the factor of the cool-down (27). A reset during the warm-up ends it. The resets are read from --reset-updates
    and from the checkpoint, which lists past resets, planned or added by `with_reset`. A checkpoint omits future
    resets, so a restart may change them. The rate is a function of t and the resets alone.

    Raises:
        UserError: every option that is out of range, a line each
    """

    def __init__(self, cfg: InverseSqrtResetConfig, optimizer: FairseqOptimizer) -> None:
        super().__init__(cfg, optimizer)
        faults = list(_faults(cfg))
        if faults:
            raise UserError(*faults)
        self.peak = cfg.lr[0]
        self.warmup_updates = cfg.warmup_updates
        self.warmup_init_lr = max(0.0, cfg.warmup_init_lr)
        self.decay_period = cfg.decay_period or cfg.warmup_updates
        self.planned = _update_numbers(cfg.reset_updates)
        # Read once: it is a reference, which takes longer to follow than the rate to compute.
        self.cooldown = cfg.cooldown_updates
        self.end = cfg.max_update if self.cooldown else 0
        self.seen: list[int] = []
        self.num_updates = 0
        self.step_update(0)

    def rate(self, update: int) -> float:
        """Return the rate of the update after `update` updates, before the cool-down."""
        reset = max((r for r in (*self.planned, *self.seen) if r <= update), default=None)
        if reset is not None:
            return decayed(self.peak, self.decay_period, update - reset)
        if update < self.warmup_updates:
            return self.warmup_init_lr + update * ((self.peak - self.warmup_init_lr) / self.warmup_updates)
        return decayed(self.peak, self.decay_period, update - self.warmup_updates)

    def step_update(self, num_updates: int) -> float:
        """Set the rate of the update after `num_updates` updates, and return it."""
        self.num_updates = num_updates
        rate = self.rate(num_updates)
        if self.cooldown:
            rate = cooled(rate, num_updates, self.end, self.cooldown)
        self.optimizer.set_lr(rate)
        return rate

    def state_dict(self) -> dict[str, Any]:
        """Return fairseq's state, and past resets, each as its number of completed updates."""
        come = (r for r in self.planned if r <= self.num_updates)
        return {**super().state_dict(), RESETS: sorted({*self.seen, *come})}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the resets of a checkpoint, beside the planned ones; another schedule's state lacks them."""
        super().load_state_dict({"best": None, **state_dict})
        self.seen = list(state_dict.get(RESETS, ()))


def _update_numbers(value: Any) -> list[int]:
    """Return the numbers in `10000,20000` or in a list. Raises `ValueError` for other texts."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(map(str, value))
    return [int(number) for number in str(value).split(",")] if value != "" else []


def _faults(cfg: InverseSqrtResetConfig) -> Iterator[str]:
    yield from peak_faults(cfg.lr)
    yield from low_fault("--warmup-updates", cfg.warmup_updates, 0)
    yield from low_fault("--decay-period", cfg.decay_period, 0)
    if cfg.warmup_updates == cfg.decay_period == 0:
        yield "--decay-period must be at least 1 with --warmup-updates 0, but is 0"
    yield from cooldown_faults(cfg.cooldown_updates, lambda: cfg.max_update)
    if not math.isfinite(cfg.warmup_init_lr):
        yield f"--warmup-init-lr must be a finite number, but is {cfg.warmup_init_lr}"
    elif cfg.warmup_updates == 0 and cfg.warmup_init_lr >= 0:
        yield f"--warmup-init-lr needs --warmup-updates of at least 1, but is {cfg.warmup_init_lr}"
    try:
        resets = _update_numbers(cfg.reset_updates)
    except ValueError:
        yield f"--reset-updates must be numbers of updates such as 10000,20000, but is {cfg.reset_updates}"
        return
    if any(low >= high for low, high in zip([0, *resets], resets)):
        numbers = ",".join(map(str, resets))
        yield f"--reset-updates must be increasing numbers of at least 1, but is {numbers}"
