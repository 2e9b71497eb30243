"""Learning-rate schedules; importing the package registers them with fairseq."""

from deepnmt.lr_schedulers import inverse_sqrt_no_warmup, inverse_sqrt_reset

__all__ = ["inverse_sqrt_no_warmup", "inverse_sqrt_reset"]
