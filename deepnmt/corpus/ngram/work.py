"""The work of `deepnmt ngram`: estimate a language model from a text, and score the lines of a text by one."""

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from deepnmt import console
from deepnmt.corpus.ngram import arpa
from deepnmt.corpus.ngram.kneser_ney import HIGHEST_ORDER, estimate
from deepnmt.corpus.ngram.ngram_model import NgramModel
from deepnmt.errors import UserError
from deepnmt.jobs.job import Job
from deepnmt.text.in_order import blocks, in_order
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.record import sha256
from deepnmt.text.words import spread, words_of

RECORD = "ngram.json"
LEAST_LINES = 100
BLOCK = 10_000  # lines of a file of results
Block = tuple[int, list[str]]


def check_text(text: Path) -> int:
    """Return the number of a text's lines. Raises `UserError` if it has no lines."""
    if not text.is_file():
        raise UserError(f"{text}: text not found")
    return count_lines(text)


def train(text: Path, output: Path, order: int, learn_from: int, raw: bool) -> None:
    """Write the model of a text.

    Raises `UserError` if the order or the number of lines is out of range, or the text is missing or too short.
    """
    if not 1 <= order <= HIGHEST_ORDER:
        raise UserError(f"--order must be from 1 to {HIGHEST_ORDER}, but is {order}")
    if learn_from < LEAST_LINES:
        raise UserError(f"--learn-from must be at least {LEAST_LINES}, but is {learn_from}")
    total = check_text(text)
    if os.path.realpath(output) == os.path.realpath(text):
        raise UserError(f"OUT must be another file than TEXT, but is {output}")
    if total < LEAST_LINES:
        raise UserError(f"{text}: must have at least {LEAST_LINES} lines to learn from, but has {total}")
    # A place that nobody can write to shows before the work.
    output.absolute().parent.mkdir(parents=True, exist_ok=True)
    with console.progress(min(total, learn_from), "reading", " lines") as bar:
        lines = (words_of(line, raw) for line in _shown(bar.update, spread(read_lines(text), learn_from, total)))
        model = estimate(lines, order)
    arpa.write(output, model)
    for size, level in enumerate(model.levels, start=1):
        print(f"{len(level.keys)} {size}-grams", file=sys.stderr)


def _shown(show: Callable[[], object], lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        show()


def block_path(folder: Path, start: int) -> Path:
    """Return the file of the scores of the lines from one on."""
    return folder / f"block-{start // BLOCK:06d}.tsv"


def missing(text: Path, folder: Path) -> Iterator[Block]:
    """Yield the blocks of lines that have no scores yet."""
    numbered = enumerate(blocks(read_lines(text), BLOCK))
    return ((n * BLOCK, block) for n, block in numbered if not block_path(folder, n * BLOCK).exists())


def scorer(folder: Path, model: NgramModel, raw: bool) -> Callable[[Block], int]:
    """Return the function that scores a block, writes a line for each line of it, and returns their number."""

    def score(block: Block) -> int:
        start, lines = block
        values = model.cross_entropies(words_of(line, raw) for line in lines)
        with (
            console.whole_file(block_path(folder, start)) as temporary,
            temporary.open("w", encoding="utf-8", newline="\n") as file,
        ):
            file.writelines(f"{value:.6g}\n" for value in values)
        return len(lines)

    return score


def score(program: str, model: Path, text: Path, output: Path, raw: bool, column: str, workers: int) -> None:
    """Write the cross entropy of each line of a text; the header names its `column`. `raw` text is not tokenised.

    Raises `UserError` if a file is missing, OUT is there, or its unfinished work is of something else.
    """
    total = check_text(text)
    if not model.is_file():
        raise UserError(f"{model}: ARPA file not found")
    if not column or column.split() != [column]:
        raise UserError(f"--column must be a word, but is '{column}'")
    record = {"raw": raw, "column": column, "inputs": {"model": sha256(model), "text": sha256(text)}}
    job = Job(program, output, RECORD, record, files={"scores": output})
    # Begun work that is still there is of a command that was killed at its very end.
    if output.exists() and not (job.parts / RECORD).exists():
        raise UserError(f"{output} exists; remove it or choose another OUT")

    def work(parts: Path) -> None:
        starts = range(0, total, BLOCK)
        done = sum(min(BLOCK, total - start) for start in starts if block_path(parts, start).exists())
        if done < total:
            # Read once, before the processes are started, which share it.
            make = partial(scorer, parts, arpa.read(model), raw)
            with console.progress(total, "scoring", " lines", done) as bar:
                for number in in_order(make, missing(text, parts), workers):
                    bar.update(number)
        with console.whole_file(output) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{column}\n")
            for start in starts:
                file.writelines(read_lines(block_path(parts, start)))

    job.do(work)
