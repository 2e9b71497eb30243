"""Check a data folder before fairseq reads it: its own answer to a damaged one is a traceback, or a wrong number."""

from pathlib import Path
from typing import Any

import numpy
from fairseq.data.data_utils import infer_language_pair
from fairseq.tasks.translation import TranslationTask
from fairseq.utils import split_paths

from deepnmt.errors import UserError, in_place_of
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.data_folder import check_dictionaries, check_subset, parts_of
from deepnmt.text.index_file import Dictionary
from deepnmt.text.settings import RECORD, TextSettings


def local_folders(cfg: Any) -> list[Path]:
    """Return the data folders of a task; none where they are not on this machine.

    Raises:
        UserError: one of them is no folder
    """
    paths = split_paths(cfg.data or "")
    if any("://" in path for path in paths):
        return []
    for path in paths:
        if not Path(path).is_dir():
            hint = "; a colon separates folders" if len(paths) > 1 else ""
            raise in_place_of(
                FileNotFoundError, f"{path}: data must be a folder made by fairseq-preprocess, but there is none{hint}"
            )
    return [Path(path) for path in paths]


def task_languages(cfg: Any, folder: Path) -> tuple[str, str]:
    """Return source and target language: a task's own, else their names from fairseq or deepnmt preprocess.

    Raises:
        UserError: the folder has no languages, or other ones than given
    """
    given = (cfg.source_lang, cfg.target_lang)
    source, target = infer_language_pair(str(folder)) if None in given else given
    if (folder / RECORD).exists() and not all((folder / f"dict.{each}.txt").exists() for each in (source, target)):
        # fairseq takes dict.zh-CN.txt for the languages zh and CN.
        source, target = TextSettings.read(folder).languages
    if source is None or target is None:
        raise UserError(f"{folder}: contains no files such as train.de-en.de.idx")
    for side, name, language in zip(("source", "target"), given, (source, target)):
        if name not in (None, language):
            raise in_place_of(FileNotFoundError, f"--{side}-lang must be {language}, as in {folder}, but is {name}")
    return source, target


@replaces(
    TranslationTask, "setup_task", order=10, why="name a faulty line of a dictionary; allow languages with a hyphen"
)
def check_dictionaries_first(stock: Any, cls: Any, cfg: Any, **kwargs: Any) -> Any:
    """Name the line of a dictionary that is faulty, and the folder that has no languages."""
    if cfg.num_batch_buckets > 0 and not numpy.__version__.startswith("1."):
        raise UserError(
            f"--num-batch-buckets must be 0 with numpy {numpy.__version__}, in which fairseq's buckets fail, "
            f"but is {cfg.num_batch_buckets}"
        )
    for folder in local_folders(cfg)[:1]:
        cfg.source_lang, cfg.target_lang = task_languages(cfg, folder)
        check_dictionaries(folder, (cfg.source_lang, cfg.target_lang))
    return stock(cls, cfg, **kwargs)


@replaces(
    TranslationTask, "load_dataset", order=10, why="name a data file that is missing, cut or of another dictionary"
)
def check_subsets_first(stock: Any, self: Any, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> Any:
    """Name the file that is missing, truncated, or of another dictionary; also at once for later epochs."""
    checked: set[str] = self.__dict__.setdefault("_checked_subsets", set())
    if split not in checked and self.cfg.dataset_impl in (None, "mmap"):
        folders = local_folders(self.cfg)
        for folder in folders if split == self.cfg.train_subset else folders[:1]:
            # fairseq-generate and fairseq-validate, which give this, can do without a reference.
            check_parts(self, folder, split, combine, target_needed="task_cfg" not in kwargs)
        checked.add(split)
    return stock(self, split, epoch=epoch, combine=combine, **kwargs)


def check_parts(task: Any, folder: Path, split: str, combine: bool, target_needed: bool) -> None:
    """Check a subset of a folder; where fairseq combines train, train1, train2, ..., all of them."""
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    dictionaries = {
        language: Dictionary(folder / f"dict.{language}.txt", len(dictionary))
        for language, dictionary in zip(languages, (task.src_dict, task.tgt_dict))
    }
    for part in parts_of(folder, split, languages) if combine else (split,):
        check_subset(folder, part, languages, dictionaries, target_needed)
