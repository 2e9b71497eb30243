"""Training criterions; importing the package registers them with fairseq."""

from deepnmt.criterions import r_drop, simcut

__all__ = ["r_drop", "simcut"]
