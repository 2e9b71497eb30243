"""Grow a shallow model into a deep one while it trains (Li 2020, EMNLP, arXiv 2010.03737).

    lines = grow_checkpoint(Path("6.pt"), Path("12.pt"), Growth({"encoder": 12}, strategy="stack"))

`deepnmt grow` is the same as a command.
"""

from deepnmt.checkpoints.grow.grow_model import grow, grow_checkpoint
from deepnmt.checkpoints.grow.grow_plan import STRATEGIES
from deepnmt.checkpoints.grow.grow_stacks import Growth

__all__ = ["STRATEGIES", "Growth", "grow", "grow_checkpoint"]
