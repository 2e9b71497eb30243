"""Lines of validation and test among text that is to be trained on."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from deepnmt.errors import UserError
from deepnmt.text.data_folder import subsets_of
from deepnmt.text.like_folder import is_training
from deepnmt.text.lines import read_lines


class Held(NamedTuple):
    """Where a held-out line stands."""

    subset: str
    line: int


def held_out(data: Path, language: str) -> dict[str, Held]:
    """Return the tokenised lines of one language that a data folder validates or tests on.

    Raises:
        UserError: the folder lacks the text of such a subset
    """
    lines: dict[str, Held] = {}
    for subset in subsets_of(data):
        if is_training(subset):
            continue
        path = data / "text" / f"{subset}.tok.{language}"
        if not path.is_file():
            raise UserError(f"{path}: no such file; {data} must be a whole folder made by preprocess.sh")
        for number, line in enumerate(read_lines(path), start=1):
            lines.setdefault(line.strip(), Held(subset, number))
    return lines


def leaks(lines: Iterable[str], held: dict[str, Held]) -> Iterator[tuple[int, Held]]:
    """Yield the numbers, from 1, of the lines that are held out, and where they stand there."""
    for number, line in enumerate(lines, start=1):
        if (found := held.get(line.strip())) is not None:
            yield number, found


def check_leaks(text: Path, held: dict[str, Held], data: Path) -> None:
    """Refuse tokenised text that has lines which are held out.

    Args:
        text: to check
        held: lines that are held out
        data: the folder whose lines these are

    Raises:
        UserError: with their number and the first of them
    """
    found = list(leaks(read_lines(text), held))
    if found:
        number, where = found[0]
        raise UserError(
            f"{text}:{number}: must not be a line that {data} validates or tests on, but is line {where.line} of "
            f"{where.subset}, and so are {len(found) - 1} more; leave them out (binarise.sh --drop-overlap) or give "
            "--allow-overlap"
        )
