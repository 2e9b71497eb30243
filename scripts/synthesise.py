"""The steps of synthesise.sh: from text and models to synthetic pairs.

commands:
  synthesise.py begin FOLDER OUT KIND ... [options]  check everything, and begin FOLDER, which keeps the work done,
                                                     unless OUT has been made
  synthesise.py translate FOLDER SHARDS SHARD        translate the chunks of a shard that are missing
  synthesise.py left FOLDER                          print how many chunks are missing
  synthesise.py finish FOLDER OUT                    chunks to pairs, as a data folder
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Optional

import manifest

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.synthetic.chunks import Chunks
from deepnmt.synthetic.closest import closest
from deepnmt.synthetic.decoding import LineDecoder, Method
from deepnmt.synthetic.noise import NO_NOISE, Noise
from deepnmt.synthetic.pairs import Pair, PairRules
from deepnmt.synthetic.synthesis import COPY, DISTIL, KINDS, METHODS, Job, Options
from deepnmt.text.like_folder import TRAIN, binarise_text, copy_frame
from deepnmt.text.lines import read_lines
from deepnmt.text.record import read_record, selected_on, sha256, write_record
from deepnmt.text.subwords import CODES, join_bpe

BATCHES = 8  # in a chunk
RECORD, PLACES = "preprocess.json", "job.json"


def begin(folder: Path, out: Path, job: Job) -> None:
    """Check a job and begin the folder of its work, or see that this or its result was made with the same.

    Raises:
        UserError: something does not fit, or either folder was made with something else
    """
    job.check()
    record = job.record()
    if (out / RECORD).exists():
        manifest.check_same(out / RECORD, record, "OUT")
        return
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / RECORD).exists():
        old, new = (manifest.flat(each) for each in (read_record(folder / RECORD, inputs=dict), record))
        if what := manifest.difference(old, new):
            raise UserError(f"{folder} was begun with {what}; remove it or choose another OUT")
    # Places may change; what is there may not.
    with console.whole_file(folder / PLACES) as temporary:
        write_record(temporary, job.places())
    with console.whole_file(folder / RECORD) as temporary:
        write_record(temporary, record)


def chunks_of(folder: Path, job: Job) -> Chunks:
    """Return the chunks of a job."""
    return Chunks(folder, job.lines(), BATCHES * job.options.batch_size)


def read_job(folder: Path) -> Job:
    """Return the job that a folder was begun with."""
    return Job.of(read_record(folder / PLACES, options=dict))


def translate(folder: Path, shards: int, shard: int) -> None:
    """Make the missing chunks of a shard."""
    job = read_job(folder)
    chunks, options = chunks_of(folder, job), job.options
    todo = chunks.missing(shard, shards)
    if not todo:
        return
    texts = lines_of(job.text("bpe"))
    references = lines_of(job.text("tok", job.languages[1])) if options.closest else []
    decode = None
    if options.kind != COPY:
        method = Method(options.method, options.beam, options.top, options.nbest)
        try:
            decode = LineDecoder(job.checkpoints, job.data, job.model_languages, method, options.batch_size)
        except UserError:
            # Work that was begun for a faulty model would refuse the command with the right one.
            if shards == 1 and len(todo) == len(chunks.of_shard(0, 1)):
                shutil.rmtree(folder)
            raise
    total, left = (sum(len(chunks.lines_of(n)) for n in numbers) for numbers in (chunks.of_shard(shard, shards), todo))
    with console.progress(total, "translating", " sentences") as bar:
        # The estimate of the time left is of what this start has done.
        bar.initial = bar.n = total - left
        for chunk in todo:
            lines = chunks.lines_of(chunk)
            text = texts[lines.start : lines.stop]
            if decode is None:
                chunks.write(chunk, text)
                bar.update(len(text))
                continue
            found = decode(text, f"{options.seed} {chunk}", bar.update)
            chunks.write(
                chunk,
                [
                    choose(best, references[n] if references else None, job.languages[1])
                    for best, n in zip(found, lines)
                ],
            )


def choose(translations: Optional[Sequence[str]], reference: Optional[str], language: str) -> Optional[str]:
    """Return the translation to keep, of a language: the best, or with a reference the one closest to it."""
    if not translations or reference is None:
        return translations[0] if translations else None
    chosen = closest([join_bpe(translation) for translation in translations], reference, language)
    return next(translation for translation in translations if join_bpe(translation) == chosen)


def finish(folder: Path, output: Path) -> None:
    """Write the pairs as a data folder: DATA's, with these as its training text."""
    job = read_job(folder)
    options, (source, target) = job.options, job.languages
    (output / "text").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / RECORD, output / RECORD)
    copy_frame(job.data, output)
    for name in (source, target):
        shutil.copyfile(job.folder / f"dict.{name}.txt", output / f"dict.{name}.txt")
    noise = Noise.parse(options.noise) if options.noise else NO_NOISE
    rules = PairRules(
        job.data / CODES, job.languages, options.synthetic_source, options.max_ratio, noise, options.tag, options.seed
    )  # fmt: skip
    counts: Counter[str] = Counter(read=0, kept=0, empty=0, too_long=0, ratio=0)
    text = zip(stripped(job.text("tok")), stripped(job.text("bpe")))
    pairs = rules.pairs(text, chunks_of(folder, job).read(), counts)
    kinds = [("tok", source), ("tok", target), ("bpe", source), ("bpe", target)]
    with ExitStack() as stack:
        files = [
            stack.enter_context((output / "text" / f"{TRAIN}.{kind}.{name}").open("w", encoding="utf-8", newline="\n"))
            for kind, name in kinds
        ]
        for pair in chain(pairs, real_pairs(job, counts) if options.keep_real else ()):
            for file, line in zip(files, pair):
                file.write(line + "\n")
    if not counts["kept"]:
        raise UserError(f"no pair of the {counts['read']} is left: {describe(counts)}")
    print(describe(counts), file=sys.stderr)
    binarise_text(output, TRAIN)
    (output / "counts").mkdir()
    (output / "counts" / f"{TRAIN}.json").write_text(json.dumps(counts), encoding="utf-8")
    manifest.finish(output / RECORD, output, [output / "counts" / f"{TRAIN}.json"])
    shutil.rmtree(output / "counts")
    with console.whole_file(output / RECORD) as temporary:
        made = sorted(path for path in output.iterdir() if path.name.startswith(f"{TRAIN}."))
        record = {**read_record(output / RECORD), "checksums": {p.name: sha256(p) for p in made}}
        # Where it is DATA's own text that is translated.
        chosen = selected_on([read_record(job.data / RECORD)]) if options.kind == DISTIL else {}
        write_record(temporary, record | chosen)


def describe(counts: Counter[str]) -> str:
    """Return what was kept and dropped, in one line."""
    line = (
        f"{counts['kept']} of {counts['read']} pairs kept; dropped {counts['empty']} with an empty side, "
        f"{counts['too_long']} longer than the positions, {counts['ratio']} by length ratio"
    )
    return f"{line}; {counts['real']} real pairs added" if counts["real"] else line


def real_pairs(job: Job, counts: Counter[str]) -> Iterator[Pair]:
    """Yield the real pairs of DATA."""
    texts = [job.text(kind, language) for kind in ("tok", "bpe") for language in job.languages]
    for lines in zip(*map(stripped, texts)):
        counts["real"] += 1
        yield Pair(*lines)


def stripped(path: Path) -> Iterator[str]:
    """Yield the lines of a text without their line feeds."""
    return (line.rstrip("\n") for line in read_lines(path))


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text without their line feeds."""
    return list(stripped(path))


def parse_job(words: Sequence[str]) -> Job:
    """Return the job that a command line describes.

    Raises:
        UserError: an argument is missing, unknown or of another type
    """
    parser = console.Parser("synthesise.sh", "", "")
    add = parser.add_argument
    add("kind", choices=KINDS)
    add("places", nargs="*")
    add("--method", nargs="+", default=["beam"])
    add("--beam", type=int)
    add("--nbest", type=int)
    add("--max-ratio", type=float)
    add("--noise")
    add("--tag")
    add("--seed", type=int)
    add("--batch-size", type=int)
    for flag in ("closest", "keep-real", "reverse", "allow-overlap"):
        add(f"--{flag}", action="store_true", default=None)
    given = parser.parse_args(joined_method(words))
    names = {COPY: ("DATA", "MONO"), DISTIL: ("TEACHER", "DATA")}.get(given.kind, ("MODEL", "DATA", "MONO"))
    if len(given.places) != len(names):
        raise UserError(f"{given.kind} must be followed by {', '.join(names)} and OUT (see --help)")
    places = dict(zip(names, given.places))
    values = {item.name: getattr(given, item.name, None) for item in fields(Options)}
    values.update(method=given.method[0], top=_top(given.method))
    models = [] if given.kind == COPY else given.places[0].split(":")
    if not all(models):
        raise UserError(
            f"{names[0]} must be a checkpoint, or several with colons between them, but is '{given.places[0]}'"
        )
    return Job(
        Options(**{name: value for name, value in values.items() if value is not None}),
        tuple(map(Path, models)),
        Path(places["DATA"]),
        Path(places["MONO"]) if "MONO" in places else None,
    )


def joined_method(words: Sequence[str]) -> list[str]:
    """Return a command line whose --method has its value, of one or two words, in one place at the end."""
    result, method = list(words), []
    if "--method" in result:
        start = result.index("--method")
        size = 3 if result[start + 1 : start + 2] == ["top-k"] else 2
        method = result[start : start + size]
        del result[start : start + size]
    return [*result, *method]


def _top(method: Sequence[str]) -> int:
    if method[0] not in METHODS or len(method) != 1 + (method[0] == "top-k"):
        raise UserError(f"--method must be beam, greedy, sampling or top-k K, but is '{' '.join(method)}'")
    if method[0] != "top-k":
        return 0
    if not method[1].isdecimal():
        raise UserError(f"--method top-k must be a whole number of at least 1, but is {method[1]}")
    return int(method[1])


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("begin", add_help=False, prefix_chars="\0")
    command.add_argument("folder", type=Path)
    command.add_argument("out", type=Path)
    command.add_argument("words", nargs=argparse.REMAINDER)
    command = commands.add_parser("translate")
    command.add_argument("folder", type=Path)
    command.add_argument("shards", type=int)
    command.add_argument("shard", type=int)
    command = commands.add_parser("left")
    command.add_argument("folder", type=Path)
    command = commands.add_parser("finish")
    command.add_argument("folder", type=Path)
    command.add_argument("output", type=Path)
    given = parser.parse_args()
    if given.command == "begin":
        begin(given.folder, given.out, parse_job(given.words))
    elif given.command == "translate":
        translate(given.folder, given.shards, given.shard)
    elif given.command == "left":
        print(len(chunks_of(given.folder, read_job(given.folder)).missing()))
    else:
        finish(given.folder, given.output)


if __name__ == "__main__":
    console.run(main)
