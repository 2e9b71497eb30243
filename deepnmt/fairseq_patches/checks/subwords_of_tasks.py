"""Checkpoints know the dictionaries, codes and text settings of their training; no other data is taken for them."""

from pathlib import Path
from typing import Any, Optional

from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from fairseq.utils import split_paths

from deepnmt.checkpoints.data_fit import check_subwords
from deepnmt.checkpoints.state import TRAINED_ON, CheckpointState
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.subword_identity import SOURCE, TARGET, SubwordIdentity


def identity_of(task: Any) -> Optional[SubwordIdentity]:
    """Return the identity of a task's data; None for tasks that neither translate nor model a language.

    Raises:
        UserError: the record of the data folder is faulty
    """
    if isinstance(task, TranslationTask):
        dictionaries = {SOURCE: task.src_dict, TARGET: task.tgt_dict}
        options = task.cfg
    elif isinstance(task, LanguageModelingTask):
        dictionaries, options = {TARGET: task.dictionary}, task.args
    else:
        return None
    # Types that only a pre-training has stand at the end.
    known = dict(zip((SOURCE, TARGET), getattr(task, "known_types", ())))
    types = {side: each.symbols[: known.get(side)] for side, each in dictionaries.items() if each is not None}
    data = getattr(options, "data", None)
    folders = split_paths(data) if isinstance(data, str) else []
    if not folders or "://" in folders[0]:
        return SubwordIdentity(folders[0] if folders else "these dictionaries", types)
    return SubwordIdentity.of(types, Path(folders[0]))


def check_task(state: CheckpointState, task: Any) -> None:
    """Refuse a checkpoint of other subwords than a task's.

    Raises:
        UserError: names the difference
    """
    here = identity_of(task)
    if here is not None:
        check_subwords(state, here)


@replaces(Trainer, "save_checkpoint", order=40, why="checkpoints record dictionaries, codes and text settings")
def save_what_it_was_trained_on(stock: Any, self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
    """Put the record of the subwords into each checkpoint."""
    if "subwords" not in vars(self):
        identity = identity_of(self.task)
        self.subwords = None if identity is None else identity.record()
    return stock(self, filename, {**extra_state, TRAINED_ON: self.subwords} if self.subwords else extra_state)
