"""`label_smoothed_cross_entropy_r_drop`: two dropout passes of a batch should agree."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from dataclasses import dataclass
from typing import Any

from deepnmt.criterions.consistency import ConsistencyConfig, ConsistencyCriterion
from deepnmt.errors import UserError
from deepnmt.kernels.linear_consistency import Coefficients
from deepnmt.options.option_table import described


@dataclass
class RDropConfig(ConsistencyConfig):
    """The options of consistency training, and the weight of the divergence."""

    r_drop_alpha: float = described(5.0, "weight of the divergence between two dropout passes of a batch, at least 0")


class RDrop(ConsistencyCriterion):
    """R-Drop (Liang 2021, NeurIPS, arXiv 2106.14448); P1 and P2 differ by their dropout masks alone:

        loss = NLL_1 + NLL_2 + alpha (KL(P1|P2) + KL(P2|P1)) / 2                                      (18)

    In training, the log has this as `loss`, about twice the loss of a validation. Its `nll_loss`, and the perplexity,
    are the mean of both passes; its `kl_loss` is the mean of both directions.

    Raises:
        UserError: alpha is not a finite number of at least 0
    """  # fmt: skip

    def __init__(self, task: Any, cfg: RDropConfig) -> None:
        super().__init__(task, cfg)
        if not 0 <= cfg.r_drop_alpha < math.inf:
            raise UserError(f"--r-drop-alpha must be a finite number of at least 0, but is {cfg.r_drop_alpha}")
        self.alpha = cfg.r_drop_alpha
        self.coefficients = Coefficients((1.0, 1.0), (self.alpha / 2, self.alpha / 2))
        self.shown = (0.5, 0.5)
