"""The last step: kept and rejected pairs as files, and examples of the pairs that each filter has removed."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepnmt.corpus.cleaning.chunk_results import KEPT
from deepnmt.corpus.cleaning.clean_job import CleanJob
from deepnmt.corpus.cleaning.decisions import Decisions
from deepnmt.corpus.cleaning.filter_recipe import Filter

EXAMPLES = 5


@dataclass(frozen=True)
class Example:
    """A pair that a filter has removed, with the number of its line, from 1."""

    line: int
    source: str
    target: str


@dataclass(frozen=True)
class Outcome:
    """The result of a filter: numbers of pairs, and examples of failed pairs, evenly spaced over the corpus."""

    filter: Filter
    reached: int
    removed: int
    examples: tuple[Example, ...]

    @property
    def share(self) -> float:
        """The share of the pairs that came as far which did not pass."""
        return self.removed / max(self.reached, 1)


def write_pairs(
    job: CleanJob, decisions: Decisions, kept: Path, rejected: Path | None, tell: Callable[[int], object]
) -> list[Outcome]:
    """Write kept pairs, byte for byte and in their order, and perhaps rejected ones; return the filters' results.

    `kept` and `rejected` are prefixes of files; rejected pairs get a file of reasons, too. `tell` is called with the
    number of pairs of each chunk.
    """
    languages, files = job.options.languages, [job.files["source"], job.files["target"]]
    wanted = {line: number for number in range(len(decisions.filters)) for line in spaced(decisions.reasons, number)}
    examples: list[list[Example]] = [[] for _ in decisions.filters]
    with ExitStack() as stack:

        def opened(path: str) -> Callable[[bytes], object]:
            return stack.enter_context(Path(path).open("wb")).write

        outputs = [opened(f"{kept}.{name}") for name in languages]
        rest = [opened(f"{rejected}.{name}") for name in (*languages, "reason")] if rejected else []
        for chunk in range(job.chunks):
            numbers = files[0].lines_of(chunk)
            reasons = decisions.reasons[numbers.start : numbers.stop]
            sides = [file.read(chunk) for file in files]
            for write, lines in zip(outputs, sides):
                write(joined(compress(lines, reasons == KEPT)))
            if rest:
                for write, lines in zip(rest, sides):
                    write(joined(compress(lines, reasons != KEPT)))
                gone = np.flatnonzero(reasons != KEPT)
                labels = (f"{numbers[row] + 1}\t{decisions.filters[reasons[row]].label}" for row in gone.tolist())
                rest[2](joined(label.encode() for label in labels))
            for line in sorted(wanted.keys() & set(numbers)):
                texts = [lines[line - numbers.start].decode() for lines in sides]
                examples[wanted[line]].append(Example(line + 1, *texts))
            tell(len(numbers))
    return [
        Outcome(each, decisions.reached(number), decisions.removed(number), tuple(examples[number]))
        for number, each in enumerate(decisions.filters)
    ]


def spaced(reasons: NDArray[np.uint8], number: int) -> list[int]:
    """Return the numbers of some pairs that a filter has removed, evenly spaced over all of them."""
    removed = np.flatnonzero(reasons == number)
    places = np.linspace(0, len(removed) - 1, min(len(removed), EXAMPLES)).round().astype(int)
    return [int(line) for line in removed[places]]


def joined(lines: Iterable[bytes]) -> bytes:
    """Return lines with a line feed after each."""
    return b"".join(line + b"\n" for line in lines)
