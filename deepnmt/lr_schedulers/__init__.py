"""Learning-rate schedules."""


def register() -> None:
    """Register the schedules with fairseq, for `--lr-scheduler`."""
    from fairseq.optim.lr_scheduler import register_lr_scheduler

    from deepnmt.lr_schedulers.inverse_sqrt_no_warmup import InverseSqrtNoWarmup, InverseSqrtNoWarmupConfig
    from deepnmt.lr_schedulers.inverse_sqrt_reset import InverseSqrtReset, InverseSqrtResetConfig

    register_lr_scheduler("inverse_sqrt_no_warmup", dataclass=InverseSqrtNoWarmupConfig)(InverseSqrtNoWarmup)
    register_lr_scheduler("inverse_sqrt_reset", dataclass=InverseSqrtResetConfig)(InverseSqrtReset)
