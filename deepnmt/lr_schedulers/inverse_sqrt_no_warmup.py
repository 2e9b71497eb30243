"""`inverse_sqrt_no_warmup`, T-Fixup's schedule (methods 5: Huang 2020, ICML)."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler
from omegaconf import II

from deepnmt.errors import UserError
from deepnmt.lr_schedulers.inverse_sqrt import cooldown_faults, cooled, decayed, low_fault, peak_faults
from deepnmt.options.option_table import described


@dataclass
class InverseSqrtNoWarmupConfig(FairseqDataclass):  # type: ignore[misc]
    """The options; `lr` is fairseq's --lr, the peak, and must be one rate."""

    decay_period: int = described(4000, "c in the rate lr sqrt(c / (c + t)) after t updates, at least 1")
    cooldown_updates: int = described(
        0, "number of updates before --max-update in which the rate falls linearly to zero (0: none)"
    )
    lr: list[float] = field(default=II("optimization.lr"))
    max_update: int = II("optimization.max_update")


class InverseSqrtNoWarmup(FairseqLRScheduler):  # type: ignore[misc]
    """After t updates the rate is

        lr = peak sqrt(c / (c + t)),  from t = 0 on                                                     (10)

    times the factor of the cool-down (27): a function of t alone, so a restart needs no state from the checkpoint.

    Raises:
        UserError: every option that is out of range, a line each
    """

    def __init__(self, cfg: InverseSqrtNoWarmupConfig, optimizer: FairseqOptimizer) -> None:
        super().__init__(cfg, optimizer)
        faults = [
            *peak_faults(cfg.lr),
            *low_fault("--decay-period", cfg.decay_period, 1),
            *cooldown_faults(cfg.cooldown_updates, lambda: cfg.max_update),
        ]
        if faults:
            raise UserError(*faults)
        self.peak = cfg.lr[0]
        self.decay_period = cfg.decay_period
        # Read once: it is a reference, which takes longer to follow than the rate to compute.
        self.cooldown = cfg.cooldown_updates
        self.end = cfg.max_update if self.cooldown else 0
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set the rate of the update after `num_updates` updates, and return it."""
        rate = decayed(self.peak, self.decay_period, num_updates)
        if self.cooldown:
            rate = cooled(rate, num_updates, self.end, self.cooldown)
        self.optimizer.set_lr(rate)
        return rate
