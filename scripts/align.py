"""The steps of align.sh: from the text of pairs to their alignments.

commands:
  align.py begin FOLDER OUT DATA [options]   check everything, and begin FOLDER, which keeps the work done; print "made"
                                           if OUT is there
  align.py work FOLDER [--workers N]       learn and align what is missing
  align.py finish FOLDER OUT               write the results
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from deepnmt import console
from deepnmt.alignment.align_job import AlignJob
from deepnmt.errors import UserError
from deepnmt.text import work_folder
from deepnmt.text.in_order import cores
from deepnmt.text.record import read_record, write_record
from deepnmt.text.settings import TextSettings

RECORD, PLACES = "align.json", "job.json"


def texts_of(data: str, subset: str, subwords: bool, languages: tuple[str | None, str | None]) -> tuple[Path, Path]:
    """Return the two texts that a command line names.

    Args:
        data: a data folder, or what the names of two files begin with
        subset: of the data folder
        subwords: its subwords, and not its words
        languages: of the two files

    Raises:
        UserError: the languages are missing, or given for a data folder, which knows its own
    """
    if Path(data).is_dir():
        if any(languages):
            raise UserError("--source-lang and --target-lang must not be given for a data folder, which has its own")
        own = TextSettings.read(Path(data)).languages
        one, other = (Path(data) / "text" / f"{subset}.{'bpe' if subwords else 'tok'}.{name}" for name in own)
        return one, other
    if not all(languages):
        kinds = "a folder made by preprocess.sh, or a prefix with --source-lang and --target-lang"
        raise UserError(f"DATA must be {kinds}, but is '{data}'")
    if subwords:
        raise UserError("--subwords must be given with a data folder, but DATA is a prefix")
    return Path(f"{data}.{languages[0]}"), Path(f"{data}.{languages[1]}")


def parse_job(words: Sequence[str]) -> AlignJob:
    """Return the job that a command line describes. Raises `UserError` if an argument is missing, unknown or wrong."""
    parser = console.Parser("align.sh", "", "")
    add = parser.add_argument
    add("data")
    add("--source-lang")
    add("--target-lang")
    add("--subset")
    add("--subwords", action="store_true")
    add("--raw", action="store_true")
    add("--lexicon", action="store_true")
    add("--learn-from", type=int)
    add("--rounds", type=int)
    add("--forward", type=Path)
    add("--reverse", type=Path)
    given = parser.parse_args(words)
    folder = Path(given.data).is_dir()
    for option, value in (("--raw", given.raw and folder), ("--subset", given.subset and not folder)):
        if value:
            other = "a prefix" if folder else "a data folder"
            raise UserError(f"{option} must be given with {other}, but DATA is '{given.data}'")
    learning = {"learn_from": given.learn_from, "rounds": given.rounds}
    for name, value in learning.items():
        if value is not None and (given.forward or given.reverse):
            raise UserError(
                f"--{name.replace('_', '-')} must not be given with --forward and --reverse: nothing is learnt"
            )
    texts = texts_of(given.data, given.subset or "train", given.subwords, (given.source_lang, given.target_lang))
    said = {name: value for name, value in learning.items() if value is not None}
    return AlignJob(*texts, given.raw, given.lexicon, forward=given.forward, reverse=given.reverse, **said)


def begin(folder: Path, output: Path, job: AlignJob) -> bool:
    """Check a job and begin the folder of its work; return whether the results are there already.

    Raises:
        UserError: something does not fit, or one of the folders is of something else
    """
    job.check()
    record = job.record()
    if work_folder.is_made(output, RECORD, record):
        return True
    work_folder.begin(folder, RECORD, record)
    # Places may change; what is there may not.
    with console.whole_file(folder / PLACES) as temporary:
        write_record(temporary, job.places())
    return False


def read_job(folder: Path) -> AlignJob:
    """Return the job that a folder was begun with."""
    return AlignJob.of(read_record(folder / PLACES))


def finish(folder: Path, output: Path) -> None:
    """Write the results and their record, and print what was measured."""
    output.mkdir(parents=True)
    pairs, rounds = read_job(folder).finish(folder, output)
    work_folder.finish(output, RECORD, read_record(folder / RECORD), {"pairs": pairs, "rounds": rounds})
    for number, entry in enumerate(rounds, start=1):
        line = f"round {number:2d}, {entry['model']}: log P {entry['forward']:.6g}, reverse {entry['reverse']:.6g}"
        print(line, file=sys.stderr)


def main() -> None:
    """Do what the command line says."""
    words = sys.argv[1:]
    if len(words) < 2 or words[0] not in ("begin", "work", "finish"):
        raise UserError("the first argument must be begin, work or finish, before FOLDER")
    command, folder, rest = words[0], Path(words[1]), words[2:]
    if command == "begin":
        if begin(folder, Path(rest[0]), parse_job(rest[1:])):
            print("made")
    elif command == "work":
        read_job(folder).align(folder, int(rest[0]) if rest else cores())
    else:
        finish(folder, Path(rest[0]))


if __name__ == "__main__":
    console.run(main)
