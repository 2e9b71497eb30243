"""Training sets in parts, `train` and `train1`: fairseq's default fails on them, and checkpoints record their kind."""

from pathlib import Path
from typing import Any

from fairseq.tasks.translation import TranslationTask
from fairseq.utils import split_paths

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.inline_targets import STATE, TRAINING
from deepnmt.text.record import read_record
from deepnmt.text.settings import RECORD


@replaces(TranslationTask, "load_dataset", order=20, why="the default of --upsample-primary fails (issue 3644)")
def load_parts(stock: Any, self: Any, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> Any:
    """Load a subset, of a training set all its parts."""
    if combine and split == "train":
        if self.cfg.upsample_primary == -1:
            self.cfg.upsample_primary = 1
        records = (Path(folder) / RECORD for folder in split_paths(self.cfg.data))
        if any(TRAINING in read_record(path) for path in records if path.is_file()):
            self.state.merge_state_dict({STATE: True})
    return stock(self, split, epoch=epoch, combine=combine, **kwargs)
