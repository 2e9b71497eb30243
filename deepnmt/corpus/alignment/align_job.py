"""The work of `deepnmt align`, in a folder: from two texts to alignments, scores and lexicons."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from deepnmt import console
from deepnmt.corpus.alignment.best_links import PairAligner, aligned_share
from deepnmt.corpus.alignment.grow_diag import Link, grow_diag_final, line_of, parse_line
from deepnmt.corpus.alignment.learning import SIDES, Learning
from deepnmt.corpus.alignment.lexicon import Entry, link_entries, table_entries, write_lexicon
from deepnmt.corpus.alignment.parallel_text import ParallelText
from deepnmt.errors import UserError
from deepnmt.text.in_order import blocks, in_order
from deepnmt.text.lines import check_parallel, count_lines, read_lines
from deepnmt.text.record import sha256
from deepnmt.text.words import Words

# Pairs of a file of results.
BLOCK = 10_000
ALIGNMENTS = ("forward.align", "reverse.align", "joined.align")
SCORES = "scores.tsv"
COLUMNS = ("align", "align_forward", "align_reverse", "aligned")
LEXICONS = ("lexicon.forward.tsv", "lexicon.reverse.tsv")
Lines = Sequence[tuple[str, str]]
# The alignments of a block, or where they are given their lines, and the number of the block's first pair.
Block = tuple[int, Lines, Lines]


@dataclass(frozen=True)
class AlignJob:
    """Texts and options of an alignment.

    Attributes:
        raw: the texts are not tokenised
        rounds: rounds of each model
        forward: existing alignments to join instead of learning any
        reverse: existing alignments of the other direction
    """

    source: Path
    target: Path
    raw: bool = False
    lexicon: bool = False
    learn_from: int = 1_000_000
    rounds: int = 5
    forward: Path | None = None
    reverse: Path | None = None

    def __post_init__(self) -> None:
        faults = [
            f"--{name} must be at least 1, but is {value}"
            for name, value in (("learn-from", self.learn_from), ("rounds", self.rounds))
            if value < 1
        ]
        if self.rounds > 40:
            faults.append(f"--rounds must be at most 40, but is {self.rounds}")
        if (self.forward is None) != (self.reverse is None):
            faults.append("--forward and --reverse must be given together")
        if faults:
            raise UserError(*faults)

    @property
    def text(self) -> ParallelText:
        """Both sides."""
        return ParallelText(self.source, self.target, self.raw)

    @property
    def given(self) -> list[Path]:
        """The files of alignments from elsewhere."""
        return [path for path in (self.forward, self.reverse) if path is not None]

    def record(self) -> dict[str, object]:
        """Return the inputs and options that determine the result."""
        inputs = {"source": self.source, "target": self.target}
        inputs |= dict(zip(("forward", "reverse"), self.given))
        options: dict[str, object] = {"raw": self.raw, "lexicon": self.lexicon}
        if not self.given:
            options |= {"learn_from": self.learn_from, "rounds": self.rounds}
        return {**options, "inputs": {name: sha256(path) for name, path in inputs.items()}}

    def check(self) -> int:
        """Return the number of pairs. Raises `UserError` if files are missing, empty or of different lengths."""
        for path in (self.source, self.target, *self.given):
            if not path.is_file():
                raise UserError(f"{path}: text not found")
        return check_parallel([self.source, self.target, *self.given])

    def learning(self, folder: Path, workers: int) -> Learning:
        """Return the learning of the tables."""
        return Learning(folder, self.text, count_lines(self.source), self.learn_from, self.rounds, workers)

    def align(self, folder: Path, workers: int) -> None:
        """Align the blocks that are missing, after learning if need be."""
        learning = self.learning(folder, workers)
        if not self.given:
            learning.run()
        starts = (start for start in range(0, learning.pairs, BLOCK) if block_path(folder, start).exists())
        aligned = sum(min(BLOCK, learning.pairs - start) for start in starts)
        with console.progress(learning.pairs, "aligning", " pairs", aligned) as bar:
            for done in in_order(partial(_block_writer, self, folder), self._missing(folder), workers):
                bar.update(done)

    def _missing(self, folder: Path) -> Iterator[Block]:
        given = zip(*map(read_lines, self.given)) if self.given else iter(())
        for number, lines in enumerate(blocks(self.text.pairs(), BLOCK)):
            alignments = list(islice(given, BLOCK))
            if not block_path(folder, number * BLOCK).exists():
                yield number * BLOCK, lines, alignments

    def finish(self, folder: Path, output: Path) -> tuple[int, list[dict[str, float | str]]]:
        """Write the results to a new folder, and return the number of pairs and the measurements of each round."""
        pairs = count_lines(self.source)
        with ExitStack() as stack:
            files = [
                stack.enter_context((output / name).open("w", encoding="utf-8", newline="\n"))
                for name in (*ALIGNMENTS, SCORES)
            ]
            files[3].write("\t".join(COLUMNS if not self.given else COLUMNS[3:]) + "\n")
            for start in range(0, pairs, BLOCK):
                for line in read_lines(block_path(folder, start)):
                    for file, field in zip(files, line.rstrip("\n").split("\t", 3)):
                        file.write(field + "\n")
        for reverse in (False, True) if self.lexicon else ():
            write_lexicon(output / LEXICONS[reverse], self._entries(folder, output, reverse), reverse)
        return pairs, [] if self.given else self.learning(folder, 1).history()

    def _entries(self, folder: Path, output: Path, reverse: bool) -> Iterator[Entry]:
        if not self.given:
            learning = self.learning(folder, 1)
            words = (learning.words(SIDES[0]).words(), learning.words(SIDES[1]).words())
            return table_entries(learning.word_pairs(), learning.tables(), words, reverse)
        return link_entries(self._linked(output / ALIGNMENTS[2]), reverse)

    def _linked(self, path: Path) -> Iterator[tuple[Words, Words, list[Link]]]:
        words = self.text.words
        for (source, target), line in zip(self.text.pairs(), read_lines(path)):
            pair = words(source), words(target)
            yield *pair, parse_line(line, len(pair[0]), len(pair[1]), str(path))


def block_path(folder: Path, start: int) -> Path:
    """Return the file of the block that starts with a pair."""
    return folder / f"block-{start // BLOCK:06d}.tsv"


def _block_writer(job: AlignJob, folder: Path) -> Callable[[Block], int]:
    """Return the function that aligns a block, writes a line for each pair, and returns their number."""
    align = None
    if not job.given:
        learning = job.learning(folder, 1)
        source, target = (learning.words(side) for side in SIDES)
        align = PairAligner(source, target, learning.word_pairs(), learning.tables())

    def write(block: Block) -> int:
        start, lines, alignments = block
        pairs = [(job.text.words(source), job.text.words(target)) for source, target in lines]
        path = block_path(folder, start)
        with console.whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            if align is not None:
                for found in align(pairs):
                    links = (line_of(each) for each in found[:3])
                    file.write("\t".join((*links, *(f"{score:.6g}" for score in found.scores))) + "\n")
            else:
                for number, (pair, given) in enumerate(zip(pairs, alignments), start=start + 1):
                    file.write("\t".join(_joined(job.given, number, pair, given)) + "\n")
        return len(lines)

    return write


def _joined(files: Sequence[Path], number: int, pair: tuple[Words, Words], given: tuple[str, str]) -> list[str]:
    """Return the fields of a pair whose alignments are given."""
    source, target = map(len, pair)
    forward, reverse = (parse_line(line, source, target, f"{path}:{number}") for path, line in zip(files, given))
    joined = grow_diag_final(forward, reverse)
    share = aligned_share(joined, source, target)
    return [*(line_of(links) for links in (forward, reverse, joined)), f"{share:.6g}"]
