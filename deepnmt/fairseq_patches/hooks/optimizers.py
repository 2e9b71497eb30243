"""`--optimizer adam` in one pass over the memory (`deepnmt/training/fused_adam.py`)."""

from __future__ import annotations

from typing import Any

from fairseq.optim.adam import Adam, FairseqAdam

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.training.fused_adam import FusedAdam


@replaces(FairseqAdam, "__init__", order=10, why="Adam in one pass over the memory")
def build_fused_adam(stock: Any, self: Any, cfg: Any, params: Any) -> None:
    """Build `FusedAdam` where it would be fairseq's own Adam; `--use-old-adam` stays fairseq's."""
    stock(self, cfg, params)
    if type(self._optimizer) is Adam and not getattr(cfg, "use_old_adam", False):
        self._optimizer = FusedAdam(self._optimizer.param_groups, **self.optimizer_config)
