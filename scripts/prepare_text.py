"""Check, normalise and tokenise one split of a parallel corpus, a pair of lines at a time.

Reads PREFIX.LANG and writes OUTPUT.tok.LANG (tokenised) and OUTPUT.raw.LANG (as it was, but for white
space) for both languages, still parallel, and reports what was skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from deepnmt import console
from deepnmt.errors import UserError

# Bounds the memory, since an executor's map takes all of its input at once.
BATCH = 20_000
CHUNK = 500
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Settings:
    """What is done to each pair; `max_len` and `max_ratio` count tokens, and 0 is no limit."""

    languages: tuple[str, str]
    pretokenized: bool
    lowercase: bool
    max_len: int
    max_ratio: float
    keep_punctuation: bool = False


@dataclass(frozen=True)
class Prepared:
    """A pair of tokenised sentences and its raw text, or the reason why it was skipped."""

    tokenised: tuple[str, str] = ("", "")
    raw: tuple[str, ...] = ()
    skipped: str = ""


class Preparer:
    """Turns the lines of one pair (source, target, and perhaps the raw text of both) into a `Prepared`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.normalisers = [MosesPunctNormalizer(lang=lang) for lang in settings.languages]
        self.tokenisers = [MosesTokenizer(lang=lang) for lang in settings.languages]

    def __call__(self, lines: tuple[str, ...]) -> Prepared:
        """Prepare one pair."""
        cleaned = [clean(line) for line in lines]
        source, target = self._tokenise(0, cleaned[0]), self._tokenise(1, cleaned[1])
        lengths = sorted((len(source.split()), len(target.split())))
        if lengths[0] == 0 or not all(cleaned):
            return Prepared(skipped="empty")
        if 0 < self.settings.max_len < lengths[1]:
            return Prepared(skipped="too_long")
        if 0 < self.settings.max_ratio * lengths[0] < lengths[1]:
            return Prepared(skipped="ratio")
        raw = cleaned[2:] if self.settings.pretokenized else cleaned
        return Prepared(tokenised=(source, target), raw=tuple(raw))

    def _tokenise(self, side: int, text: str) -> str:
        if not self.settings.pretokenized:
            if not self.settings.keep_punctuation:
                text = self.normalisers[side].normalize(text)
            text = self.tokenisers[side].tokenize(text, return_str=True)
        # After tokenisation, which tells abbreviations apart by their case.
        return text.lower() if self.settings.lowercase else text


def clean(line: str) -> str:
    """One line without control characters, and with single spaces for all white space.

    Other tools in the flow end a line at U+2028, U+0085 or a form feed too, which would make the two
    sides of the corpus slip apart.
    """
    return " ".join(CONTROL.sub(" ", line.replace("\ufeff", "")).split())


def count_lines(path: Path) -> int:
    """The number of lines of a file, the last of which need not be ended. Raises `UserError` if there are none."""
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    lines += last != b"\n"
    if lines == 0:
        raise UserError(f"{path} is empty")
    return lines


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, ended by a line feed alone. Raises `UserError` with the line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = line[error.start]
                raise UserError(
                    f"{path}:{number}: invalid UTF-8 (byte 0x{byte:02x} at position {error.start + 1} of the line)"
                ) from None


def check_parallel(paths: Iterable[Path]) -> int:
    """The number of lines of all the files, or a `UserError` if they differ."""
    counts = {path: count_lines(path) for path in paths}
    (first, lines), *others = counts.items()
    for path, other in others:
        if other != lines:
            raise UserError(f"{first} has {lines} lines, but {path} has {other}: line n of both must be one pair")
    return lines


def _start_worker(settings: Settings) -> None:
    # On Ctrl-C the main process ends the workers; they would each print a traceback of their own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    global _prepare
    _prepare = Preparer(settings)


def _work(lines: tuple[str, ...]) -> Prepared:
    return _prepare(lines)


_prepare: Preparer


def prepare_all(pairs: Iterator[tuple[str, ...]], settings: Settings, workers: int) -> Iterator[Prepared]:
    """Prepare every pair, in order, with that many processes."""
    if workers <= 1:
        yield from map(Preparer(settings), pairs)
        return
    with ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(settings,)) as pool:
        while batch := list(islice(pairs, BATCH)):
            yield from pool.map(_work, batch, chunksize=CHUNK)


def prepare_split(inputs: list[Path], output: str, settings: Settings, workers: int) -> Counter[str]:
    """Prepare the files of one split (source, target, perhaps raw source and target); returns what was counted."""
    total = check_parallel(inputs)
    counts = Counter(read=total, kept=0, empty=0, too_long=0, ratio=0)
    kinds = ["tok"] if settings.pretokenized and len(inputs) == 2 else ["tok", "raw"]
    pairs = zip(*map(read_lines, inputs))
    with ExitStack() as stack:
        open_text = partial(open, mode="w", encoding="utf-8", newline="\n")
        files = [
            stack.enter_context(open_text(f"{output}.{kind}.{language}"))
            for kind in kinds
            for language in settings.languages
        ]
        bar = stack.enter_context(console.progress(total, f"preparing {Path(output).name}", " lines"))
        for prepared in prepare_all(pairs, settings, min(workers, 1 + total // CHUNK)):
            bar.update()
            counts[prepared.skipped or "kept"] += 1
            if not prepared.skipped:
                for file, text in zip(files, prepared.tokenised + prepared.raw):
                    file.write(text + "\n")
    if counts["kept"] == 0:
        raise UserError(f"no pair of {inputs[0]} and {inputs[1]} is left: {describe(counts)}")
    return counts


def describe(counts: Counter[str]) -> str:
    """What was kept and skipped, in one line."""
    return (
        f"{counts['kept']} of {counts['read']} pairs kept; skipped {counts['empty']} with an empty side, "
        f"{counts['too_long']} too long, {counts['ratio']} by length ratio"
    )


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: prepare_text.py --source-lang en --target-lang de --input raw/train --output text/train",
    )
    add = parser.add_argument
    add("--source-lang", required=True, metavar="LANG")
    add("--target-lang", required=True, metavar="LANG")
    add("--input", required=True, metavar="PREFIX", help="reads PREFIX.LANG")
    add("--output", required=True, metavar="PREFIX", help="writes PREFIX.tok.LANG and PREFIX.raw.LANG")
    add("--raw", metavar="PREFIX", help="untokenised text of the same lines, where the input is tokenised")
    add("--pretokenized", action="store_true", help="the input is normalised and tokenised already")
    add("--keep-punctuation", action="store_true", help="tokenise alone, without punctuation normalisation")
    add("--lowercase", action="store_true", help="lower-case the tokenised text")
    add("--max-len", type=int, default=0, metavar="N", help="skip pairs with more tokens on a side; 0: keep all (0)")
    add("--max-ratio", type=float, default=0, metavar="R", help="skip pairs of a higher length ratio; 0: keep all (0)")
    add("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (one per core)")
    add("--counts", metavar="FILE", help="write what was counted to this file, as JSON")
    arguments = parser.parse_args()
    if arguments.raw and not arguments.pretokenized:
        parser.error("--raw is for --pretokenized input alone; otherwise the input is the raw text")
    return arguments


def main() -> None:
    """Prepare the split named on the command line."""
    arguments = parse_arguments()
    languages = (arguments.source_lang, arguments.target_lang)
    settings = Settings(
        languages,
        arguments.pretokenized,
        arguments.lowercase,
        arguments.max_len,
        arguments.max_ratio,
        arguments.keep_punctuation,
    )
    prefixes = [arguments.input] + ([arguments.raw] if arguments.raw else [])
    inputs = [Path(f"{prefix}.{language}") for prefix in prefixes for language in languages]
    counts = prepare_split(inputs, arguments.output, settings, arguments.workers)
    print(f"{arguments.input}: {describe(counts)}", file=sys.stderr)
    if arguments.counts:
        Path(arguments.counts).write_text(json.dumps(counts), encoding="utf-8")


if __name__ == "__main__":
    console.run(main)
