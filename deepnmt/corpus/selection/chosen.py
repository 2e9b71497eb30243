"""Which lines of a text are chosen: those with the highest scores."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt

from deepnmt.text.in_order import in_order
from deepnmt.text.words import Words, counted_words

# Lines that a process scores at a time.
BLOCK = 2_000
Scores = npt.NDArray[np.float64]
Scorer = Callable[[Sequence[Words]], Scores]


def score_all(
    scorer: Scorer, lines: Iterable[str], language: str, workers: int, show: Callable[[int], object] = lambda _: None
) -> Scores:
    """Return the scores of all lines.

    Args:
        scorer: of some lines' words
        lines: in tokens
        language: of the lines
        workers: processes
        show: told how many lines more are scored
    """
    scores = []
    for some in in_order(partial(_worker, scorer, language), _blocks(lines), workers):
        scores.append(some)
        show(len(some))
    return np.concatenate(scores) if scores else np.zeros(0)


def best(scores: Scores, number: int) -> npt.NDArray[np.int64]:
    """Return the places of the highest scores in rising order; of equal ones, the first."""
    order = np.argsort(-scores, kind="stable")[:number]
    return np.sort(order)


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(lines)
    while block := list(islice(remaining, BLOCK)):
        yield block


def _worker(scorer: Scorer, language: str) -> Callable[[list[str]], Scores]:
    def score(lines: list[str]) -> Scores:
        return scorer([counted_words(line, language, tokens=True) for line in lines])

    return score
