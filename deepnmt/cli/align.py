"""`deepnmt align`: word alignments of sentence pairs."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from deepnmt.console import Parser, add_workers, program, single_threaded
from deepnmt.errors import UserError
from deepnmt.jobs.job import Job
from deepnmt.text.in_order import cores
from deepnmt.text.settings import TextSettings

if TYPE_CHECKING:
    from deepnmt.corpus.alignment.align_job import AlignJob

NAME = "align"
RECORD = "align.json"
DESCRIPTION = """Learn word translations in both directions, and align the words of each pair. IBM model 1 is trained by
EM. Then comes a model with a prior for links along the diagonal and a variational Dirichlet prior, with fast_align's
formula and defaults."""
EPILOG = """OUT gets forward.align, reverse.align and joined.align (grow-diag-final), a line per pair, as in '0-0 1-2'.
It also gets align.json, and scores.tsv with a header and a line per pair. align_forward and align_reverse are the mean
log P, in nats, of a target word and of a source word. align is their mean; aligned is the share of linked words of both
sides. With --forward and --reverse, scores.tsv has the column aligned alone. Pairs with an empty side, or with more
than 400 words on one side, have no links and the lowest scores.

Unfinished work is kept in OUT.parts. The command can be stopped at any moment; run it again to resume. Any number of
starts and processes gives the same files. OUT appears only when everything is done.

example:
  deepnmt align data/de-en data/de-en-aligned --lexicon"""


def main(words: Optional[Sequence[str]] = None) -> None:
    """Align the pairs that a command line names."""
    given = parser().parse_args(words)
    single_threaded()
    align(job_of(given), given.out, given.workers)


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("data", metavar="DATA", help="data folder, or prefix of two texts, PREFIX.LANG (with the languages)")
    add("out", type=Path, metavar="OUT", help="folder to make")
    add("--source-lang", metavar="LANG", help="source language of PREFIX")
    add("--target-lang", metavar="LANG", help="target language of PREFIX")
    add("--subset", metavar="SUBSET", help="subset of DATA (default: train)")
    add("--subwords", action="store_true", help="align the subwords of DATA instead of its words")
    add("--raw", action="store_true", help="split words and signs first, and ignore case: PREFIX is not tokenised")
    add("--lexicon", action="store_true", help="write lexicon.forward.tsv and lexicon.reverse.tsv: word, translation, "
        "probability of at least 0.001")  # fmt: skip
    add("--learn-from", type=int, metavar="N", help="maximum number of pairs to learn from, evenly spread (default: "
        "1000000); memory grows by 60 bytes for each different word pair among them")  # fmt: skip
    add("--rounds", type=int, metavar="N", help="training rounds of each of the two models (default: 5)")
    add("--forward", type=Path, metavar="FILE", help="existing alignments, source words first; nothing is learnt")
    add("--reverse", type=Path, metavar="FILE", help="existing alignments of the other direction")
    add_workers(parser)
    return parser


def job_of(given: Namespace) -> "AlignJob":
    """Return the job that a command line describes. Raises `UserError` if two arguments conflict."""
    from deepnmt.corpus.alignment.align_job import AlignJob

    folder = Path(given.data).is_dir()
    for option, value in (("--raw", given.raw and folder), ("--subset", given.subset and not folder)):
        if value:
            other = "a prefix" if folder else "a data folder"
            raise UserError(f"{option} needs {other}, but DATA is '{given.data}'")
    learning = {"learn_from": given.learn_from, "rounds": given.rounds}
    for name, value in learning.items():
        if value is not None and (given.forward or given.reverse):
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{option} cannot be combined with --forward and --reverse: nothing is learnt")
    texts = texts_of(given.data, given.subset or "train", given.subwords, (given.source_lang, given.target_lang))
    said = {name: value for name, value in learning.items() if value is not None}
    return AlignJob(*texts, given.raw, given.lexicon, forward=given.forward, reverse=given.reverse, **said)


def texts_of(data: str, subset: str, subwords: bool, languages: tuple[str | None, str | None]) -> tuple[Path, Path]:
    """Return the two texts that a command line names, of a data folder or with a prefix.

    Raises:
        UserError: the languages are missing, or given for a data folder, which has its own
    """
    if Path(data).is_dir():
        if any(languages):
            raise UserError("--source-lang and --target-lang cannot be combined with a data folder, which has its own")
        own = TextSettings.read(Path(data)).languages
        one, other = (Path(data) / "text" / f"{subset}.{'bpe' if subwords else 'tok'}.{name}" for name in own)
        return one, other
    if not all(languages):
        kinds = "a folder made by deepnmt preprocess, or a prefix with --source-lang and --target-lang"
        raise UserError(f"DATA must be {kinds}, but is '{data}'")
    if subwords:
        raise UserError("--subwords needs a data folder, but DATA is a prefix")
    return Path(f"{data}.{languages[0]}"), Path(f"{data}.{languages[1]}")


def align(job: "AlignJob", out: Path, workers: Optional[int] = None) -> None:
    """Align the pairs of a job into a new folder, by default with a process per core.

    Raises:
        UserError: the texts do not match, or a folder belongs to another job
    """
    job.check()
    made = Job(program(NAME), out, RECORD, job.record())

    def work(parts: Path) -> None:
        job.align(parts, workers or cores())
        counts: dict[str, object] = {}
        with made.result(counts) as folder:
            counts["pairs"], rounds = job.finish(parts, folder)
            counts["rounds"] = rounds
        for number, entry in enumerate(rounds, start=1):
            line = f"round {number:2d}, {entry['model']}: log P {entry['forward']:.6g}, reverse {entry['reverse']:.6g}"
            print(line, file=sys.stderr)

    made.do(work)
