"""The data of a training, as the arguments of fairseq-train name it."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from deepnmt.text.data_folder import check_training_data

# Others have other files, which fairseq itself has to check.
TASKS, FORMATS = ("translation", "deep_translation"), (None, "mmap")


def check_named_data(data: str, arguments: Sequence[str]) -> list[Path]:
    """Check folders and subsets, and return the folders.

    Args:
        data: DATA, or DATA0:DATA1:..., which are trained on in turn
        arguments: of fairseq-train

    Raises:
        UserError: with the first fault
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--train-subset", default="train")
    parser.add_argument("--valid-subset", default="valid")
    parser.add_argument("--task", default="translation")
    parser.add_argument("--dataset-impl")
    for side in ("source", "target"):
        parser.add_argument(f"-{side[0]}", f"--{side}-lang")
    options, _ = parser.parse_known_args(arguments)
    folders = [Path(folder) for folder in data.split(os.pathsep)]
    if options.task in TASKS and options.dataset_impl in FORMATS:
        languages = (options.source_lang, options.target_lang)
        check_training_data(
            folders, options.train_subset, options.valid_subset.split(","), languages if all(languages) else None
        )
    return folders
