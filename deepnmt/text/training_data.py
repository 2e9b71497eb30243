"""The data of a training, as the arguments of fairseq-train name it, and whether its sentences fit into batches."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_training_data, parts_of, subset_prefix
from deepnmt.text.index_file import read_lengths

if TYPE_CHECKING:
    from numpy import integer
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Limits:
    """Limits on the length of a sentence.

    Attributes:
        option: option that sets the tokens
        tokens: maximum tokens of a batch, and so of either side of a sentence; None: any number
        positions: maximum positions of source and target
        batch_leaves_out: sentences that no batch holds are left out, and not an error
        positions_leave_out: sentences that are longer than the positions are left out, and not an error
    """

    option: str
    tokens: Optional[int]
    positions: tuple[int, int]
    batch_leaves_out: bool
    positions_leave_out: bool


def check_lengths(
    folder: Path, subset: str, languages: tuple[str, str], limits: Limits, joined: bool = False
) -> Optional[str]:
    """Return a line about the sentences that are left out because no batch holds them; None if all fit.

    `check_subset` names faults of the files. With `joined`, `subset` includes all that fairseq joins to it. Raises
    `UserError` if no sentence is left, or leaving sentences out is not permitted.
    """
    import numpy as np

    sides = _lengths(folder, list(parts_of(folder, subset, languages)) if joined else [subset], languages)
    if sides is None:
        return None
    source, target = sides
    possible = (source <= limits.positions[0]) & (target <= limits.positions[1])
    most = np.maximum(source, target)
    if not limits.positions_leave_out and not possible.all():
        raise UserError(
            "--max-source-positions and --max-target-positions must be at least the tokens of a sentence, but are "
            f"{' and '.join(map(str, limits.positions))}. {(~possible).sum()} of the {len(source)} sentences of "
            f"{subset} in {folder} have more, up to {most.max()}; --skip-invalid-size-inputs-valid-test leaves them out"
        )
    tokens = most[possible]
    longer = 0 if limits.tokens is None else int((tokens > limits.tokens).sum())
    if not longer:
        return None
    found = f"{longer} of the {len(source)} sentences of {subset} in {folder} have more, up to {tokens.max()}"
    if limits.batch_leaves_out and longer < len(tokens):
        return f"{limits.option} is {limits.tokens}: {found}, and are left out"
    raise UserError(f"{limits.option} must be at least the tokens of a sentence, but is {limits.tokens}: {found}")


def _lengths(
    folder: Path, parts: list[str], languages: tuple[str, str]
) -> Optional[tuple["NDArray[integer]", "NDArray[integer]"]]:
    """Return the tokens of each sentence on both sides; None if they cannot be read, or the sides differ."""
    import numpy as np

    sources, targets = [], []
    for part in parts:
        prefix = subset_prefix(folder, part, languages)
        source, target = (read_lengths(f"{prefix}.{language}") if prefix else None for language in languages)
        if source is None or target is None or len(source) != len(target):
            return None
        sources.append(source)
        targets.append(target)
    return np.concatenate(sources), np.concatenate(targets)


# Others have other files, which fairseq itself has to check.
TASKS, FORMATS = ("translation", "deep_translation", "deep_dual"), (None, "mmap")


def check_named_data(data: str, arguments: Sequence[str]) -> list[Path]:
    """Check folders and subsets, and return the folders.

    DATA may be DATA0:DATA1:..., which are trained on in turn; `arguments` are of fairseq-train. Raises `UserError` for
    the first fault.
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
