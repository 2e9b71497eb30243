"""The steps of ngram.sh: estimate a language model, and score lines by one.

commands:
  ngram.py train TEXT OUT.arpa [--order N] [--learn-from N] [--raw]
  ngram.py begin FOLDER MODEL.arpa TEXT OUT.tsv [--raw] [--column NAME]   check everything, and begin FOLDER
  ngram.py work FOLDER [--workers N]    score what is missing
  ngram.py finish FOLDER OUT.tsv        write the scores
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.ngram import arpa
from deepnmt.ngram.kneser_ney import HIGHEST_ORDER, estimate
from deepnmt.ngram.ngram_model import NgramModel
from deepnmt.text import work_folder
from deepnmt.text.in_order import cores, in_order
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.record import read_record, sha256, write_record
from deepnmt.text.words import spread, words_of

RECORD, PLACES = "ngram.json", "job.json"
LEAST_LINES = 100
BLOCK = 10_000  # lines of a file of results
Block = tuple[int, list[str]]


def check_text(text: Path) -> int:
    """Return the number of a text's lines. Raises `UserError` if there are none."""
    if not text.is_file():
        raise UserError(f"{text}: must be a text, but there is none")
    return count_lines(text)


def train(text: Path, output: Path, order: int, learn_from: int, raw: bool) -> None:
    """Write the model of a text.

    Raises:
        UserError: the order or the number of lines is out of range, or the text is missing or too short
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


def begin(folder: Path, model: Path, text: Path, output: Path, raw: bool, column: str) -> None:
    """Check what is to be scored and begin the folder of the work.

    Raises:
        UserError: a file is missing, the folder is of something else, or OUT is there
    """
    check_text(text)
    if not model.is_file():
        raise UserError(f"{model}: must be an ARPA file, but there is none")
    if not column or column.split() != [column]:
        raise UserError(f"--column must be a word, but is '{column}'")
    if output.exists():
        raise UserError(f"{output} exists; remove it or choose another OUT")
    record = {"raw": raw, "column": column, "inputs": {"model": sha256(model), "text": sha256(text)}}
    work_folder.begin(folder, RECORD, record)
    with console.whole_file(folder / PLACES) as temporary:
        write_record(temporary, {"model": str(model), "text": str(text)})


def block_path(folder: Path, start: int) -> Path:
    """Return the file of the scores of the lines from one on."""
    return folder / f"block-{start // BLOCK:06d}.tsv"


def blocks(text: Path, folder: Path) -> Iterator[Block]:
    """Yield the blocks of lines that have no scores yet."""
    lines, start = read_lines(text), 0
    while block := list(islice(lines, BLOCK)):
        if not block_path(folder, start).exists():
            yield start, block
        start += len(block)


def scorer(folder: Path, model: NgramModel, raw: bool) -> Callable[[Block], int]:
    """Return what scores a block, writes a line for each line of it, and returns their number."""

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


def work(folder: Path, workers: int) -> None:
    """Score the blocks that are missing."""
    places, record = read_record(folder / PLACES), read_record(folder / RECORD)
    text = Path(places["text"])
    total = count_lines(text)
    done = sum(min(BLOCK, total - start) for start in range(0, total, BLOCK) if block_path(folder, start).exists())
    if done == total:
        return
    # Read once, before the processes are started, which share it.
    model = arpa.read(Path(places["model"]))
    with console.progress(total, "scoring", " lines") as bar:
        # The estimate of the time left is of what this start does.
        bar.initial = bar.n = done
        for number in in_order(partial(scorer, folder, model, record["raw"]), blocks(text, folder), workers):
            bar.update(number)


def finish(folder: Path, output: Path) -> None:
    """Write the scores."""
    record = read_record(folder / RECORD)
    with console.whole_file(output) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{record['column']}\n")
        for start in range(0, count_lines(Path(read_record(folder / PLACES)["text"])), BLOCK):
            file.writelines(read_lines(block_path(folder, start)))


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser("ngram.sh", "", "")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("train").add_argument
    add("text", type=Path)
    add("output", type=Path)
    add("--order", type=int, default=3)
    add("--learn-from", type=int, default=2_000_000)
    add("--raw", action="store_true")
    add = commands.add_parser("begin").add_argument
    for name in ("folder", "model", "text", "output"):
        add(name, type=Path)
    add("--raw", action="store_true")
    add("--column", default="cross_entropy")
    add = commands.add_parser("work").add_argument
    add("folder", type=Path)
    add("--workers", type=int, default=cores())
    add = commands.add_parser("finish").add_argument
    add("folder", type=Path)
    add("output", type=Path)
    do(parser.parse_args())


def do(given: argparse.Namespace) -> None:
    """Do one of the commands."""
    if given.command == "train":
        train(given.text, given.output, given.order, given.learn_from, given.raw)
    elif given.command == "begin":
        begin(given.folder, given.model, given.text, given.output, given.raw, given.column)
    elif given.command == "work":
        work(given.folder, given.workers)
    else:
        finish(given.folder, given.output)


if __name__ == "__main__":
    console.run(main)
