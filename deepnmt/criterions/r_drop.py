"""`label_smoothed_cross_entropy_r_drop`: two dropout passes of a batch should agree."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import math
from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from torch import Tensor

from deepnmt.criterions.consistency import ConsistencyCriterion
from deepnmt.errors import UserError


@dataclass
class RDropConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and the weight of the divergence."""

    r_drop_alpha: float = field(
        default=5.0, metadata={"help": "weight of the divergence between two dropout passes of a batch, at least 0"}
    )


class RDrop(ConsistencyCriterion):
    """R-Drop (Liang 2021, NeurIPS, arXiv 2106.14448); P1 and P2 differ by their dropout masks alone:

        loss = NLL_1 + NLL_2 + alpha (KL(P1|P2) + KL(P2|P1)) / 2                                      (18)

    In training, the log has this as `loss`, about twice that of a validation; as `nll_loss`, and the perplexity, the
    mean of both passes; as `kl_loss` the mean of both directions.

    Raises:
        UserError: alpha is not a finite number of at least 0
    """  # fmt: skip

    def __init__(self, task: Any, cfg: RDropConfig) -> None:
        super().__init__(task, cfg)
        if not 0 <= cfg.r_drop_alpha < math.inf:
            raise UserError(f"--r-drop-alpha must be a finite number of at least 0, but is {cfg.r_drop_alpha}")
        self.alpha = cfg.r_drop_alpha

    def combine(self, nll: Tensor, kl: Tensor) -> Tensor:
        """Equation (18)."""
        return nll[0] + nll[1] + self.alpha * (kl[0] + kl[1]) / 2

    def report(self, values: Tensor) -> Tensor:
        """The mean of both passes or directions."""
        return values.mean(dim=0)
