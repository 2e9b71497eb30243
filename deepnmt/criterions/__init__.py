"""Training criterions; importing the package registers them with fairseq."""

from deepnmt.criterions import fused, r_drop, simcut

__all__ = ["fused", "r_drop", "simcut"]
