"""Checkpoints name their training, and a folder takes the checkpoints of one training alone.

An average of the last checkpoints, --validate-average and --keep-last-epochs take any numbered checkpoints in a folder.
Checkpoints of an earlier training, whose checkpoint_last.pt was removed, would pass for this one's.
"""

import hashlib
import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq.file_io import PathManager
from fairseq.trainer import Trainer
from fairseq.utils import split_paths
from omegaconf import DictConfig, OmegaConf

from deepnmt.checkpoints.one_training import difference, kept_checkpoints, passes
from deepnmt.checkpoints.state import TRAINING, CheckpointState
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.data_record import identity_of_data

GROUPS = ("task", "model", "criterion", "optimizer", "lr_scheduler")
OTHERS = (
    ("common", "seed"), ("optimization", "lr"), ("optimization", "update_freq"), ("optimization", "clip_norm"),
    ("dataset", "max_tokens"), ("dataset", "batch_size"), ("dataset", "train_subset"),
    ("checkpoint", "reset_dataloader"), ("checkpoint", "reset_lr_scheduler"), ("checkpoint", "reset_meters"),
)  # fmt: skip
# A training that is made longer is the same, as one in another place is.
LEFT_OUT = {"data", "max_update", "cooldown_updates", "total_num_update", "nbest_file"}


@replaces(
    Trainer, "load_checkpoint", order=40, why="a --save-dir with numbered checkpoints of another training is refused"
)
def begin_in_a_folder_of_its_own(
    stock: Any, self: Any, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any
) -> Any:
    """Give the training its name, which checkpoints keep.

    Raises:
        UserError: --save-dir has numbered checkpoints of another training
    """
    extra_state = stock(self, filename, reset_optimizer, *args, **kwargs)
    # A program's own trainer may have no folder.
    folder = Path(getattr(self.cfg.checkpoint, "save_dir", None) or "")
    if folder.name and self.data_parallel_rank == 0 and not PathManager.path_requires_pathmanager(str(folder)):
        resumed = extra_state is not None and not reset_optimizer
        before = (extra_state or {}).get(TRAINING) if resumed else None
        self.training = name_of(self, before)
        if not self.cfg.checkpoint.no_save:
            now = CheckpointState.of(Path(filename), numbers=False) if resumed else None
            check_folder(folder, self.checkpoint_suffix, self.training, now)
    return extra_state


@replaces(Trainer, "save_checkpoint", order=50, why="checkpoints name their training: no average spans two of them")
def save_its_name(stock: Any, self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
    """Put the name of the training into each checkpoint."""
    training = getattr(self, "training", None)
    return stock(self, filename, {**extra_state, TRAINING: training} if training else extra_state)


def check_folder(folder: Path, suffix: str, training: str, resumed: CheckpointState | None) -> None:
    """Refuse a folder with numbered checkpoints of another training.

    Args:
        folder: --save-dir
        suffix: --checkpoint-suffix
        training: the name of this training
        resumed: the checkpoint that it goes on from; None: it begins

    Raises:
        UserError: names one of them
    """
    for path in kept_checkpoints(folder, suffix):
        state = CheckpointState.of(path, numbers=False)
        name = state.training()
        if name is None:  # of an earlier version
            is_other = resumed is None or difference(resumed, state) is not None
        else:
            is_other = not passes(training, name, state.updates())
        if is_other:
            raise UserError(
                f"--save-dir {folder} has {path.name} of another training; remove its checkpoints or choose another "
                "folder"
            )


def name_of(trainer: Any, before: str | None) -> str:
    """Return the name of a training, as `deepnmt.checkpoints.one_training` describes it.

    The same command begins the same training. A training killed before its first checkpoint_last.pt can therefore
    begin again. With the same options, it may also go back to any of its checkpoints.

    Args:
        trainer: trainer with all options and the weights to begin with
        before: the name in the checkpoint that the training continues; None: it begins
    """
    options = _digest_of_options(trainer.cfg)
    if before is not None and before.split()[-1].startswith(options):
        return before
    digest = hashlib.sha256()
    for parameter in trainer.get_model().parameters():
        digest.update(parameter.detach().float().cpu().contiguous().numpy().tobytes())
    word = f"{options}-{digest.hexdigest()}"
    return word if before is None else f"{before} {trainer.get_num_updates()} {word}"


def _digest_of_options(cfg: Any) -> str:
    """Return the SHA-256 of the data and of all options that change a training's weights."""
    options = {group: _plain(cfg[group]) for group in GROUPS}
    options |= {name: str(cfg[group][name]) for group, name in OTHERS}
    data = getattr(cfg.task, "data", None)
    options["data"] = [identity_of_data(Path(each)) for each in split_paths(data)] if isinstance(data, str) else None
    return hashlib.sha256(json.dumps(options, sort_keys=True, default=str).encode()).hexdigest()


def _plain(group: Any) -> Any:
    """Return the options of a group; of one without a dataclass, which has all of a training, its name alone."""
    if isinstance(group, DictConfig):
        values: Any = OmegaConf.to_container(group, resolve=True, enum_to_str=True)
        if isinstance(values, Mapping):
            return {str(name): value for name, value in values.items() if name not in LEFT_OUT}
        return values
    return getattr(group, "_name", None) if isinstance(group, Namespace) else None
