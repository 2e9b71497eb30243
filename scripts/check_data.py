"""Check the data of a training: check_data.py DATA[:DATA1...] [fairseq-train options]"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from deepnmt import console
from deepnmt.text.data_folder import check_training_data

TASKS = ("translation", "deep_translation")


def main() -> None:
    """Check the folders and subsets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("data")
    parser.add_argument("--train-subset", default="train")
    parser.add_argument("--valid-subset", default="valid")
    parser.add_argument("--task", default="translation")
    parser.add_argument("--dataset-impl")
    for side in ("source", "target"):
        parser.add_argument(f"-{side[0]}", f"--{side}-lang")
    options, _ = parser.parse_known_args()
    # Other tasks and formats have other files, which fairseq itself has to check.
    if options.task not in TASKS or options.dataset_impl not in (None, "mmap"):
        return
    folders = [Path(folder) for folder in options.data.split(os.pathsep)]
    languages = (options.source_lang, options.target_lang)
    check_training_data(
        folders, options.train_subset, options.valid_subset.split(","), languages if all(languages) else None
    )


if __name__ == "__main__":
    console.run(main)
