"""Makes a deep model shallower: a checkpoint of fewer layers, the way back from `deepnmt.checkpoints.grow`.

    lines = shrink_checkpoint(Path("12.pt"), Path("6.pt"), Shrinking(every={"encoder": 2}))

`deepnmt shrink` is the same as a command.
"""

from deepnmt.checkpoints.shrink.shrink_model import shrink, shrink_checkpoint
from deepnmt.checkpoints.shrink.shrink_stacks import Shrinking

__all__ = ["Shrinking", "shrink", "shrink_checkpoint"]
