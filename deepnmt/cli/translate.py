"""`deepnmt translate`: translate raw text."""

import argparse
import gc
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Optional

from deepnmt.console import Parser, program, progress, whole_file
from deepnmt.engines.engine import FUSION, MORE, RERANKING, Value
from deepnmt.errors import UserError
from deepnmt.options.option_table import SEARCHES, option
from deepnmt.reference import add_reference_option
from deepnmt.text.lines import count_lines, open_file
from deepnmt.translator.line_stream import LineStream, as_json, numbered, plain, scored
from deepnmt.translator.translator import BATCH, Translator

CHUNK = 2_000
OWN = ("beam", "lenpen", "max_len_a", "max_len_b", "nbest")
EPILOG = """Each input line gives one output line, and its sentences are translated one by one. An empty line gives an
empty line, and so does a line that is too long for the model, with a warning. At a terminal, each line is answered at
once.

examples:
  deepnmt translate model < raw.de > raw.en
  deepnmt translate checkpoints/de-en/average.pt --data data/de-en raw.de --output raw.en"""


def main(words: Optional[Sequence[str]] = None) -> None:
    """Translate the text that the command line names."""
    arguments = parse(words)
    # The fast paths in use do not matter here.
    logging.getLogger("deepnmt").setLevel(logging.WARNING)
    _check(arguments)
    given = _given(arguments)
    collects = gc.isenabled()
    # Imports leave no garbage, but looking for it takes a fifth of their time.
    gc.disable()
    try:
        translator = _translator(arguments)
    finally:
        if collects:
            gc.enable()
    if (beam := given.get("beam")) and "nbest" not in given:
        # The model's own number was not requested.
        given["nbest"] = min(translator.search.nbest, int(beam))
    settings = translator.settings(**given)
    several = bool(arguments.nbest) or settings.nbest > 1
    written = as_json if arguments.json else numbered if several else scored if arguments.scores else plain
    glossary, sizes = translator.glossary(arguments.glossary), (arguments.batch_size, arguments.buffer)
    splits = not arguments.no_split
    stream = LineStream(translator, settings, written, *sizes, arguments.strict, glossary, splits)
    with ExitStack() as stack:
        source, total = _input(arguments.input, stack)
        if arguments.output:
            output: BinaryIO = stack.enter_context(stack.enter_context(whole_file(arguments.output)).open("wb"))
        else:
            output = sys.stdout.buffer
        if source.isatty():
            stream.chunk = 1
            stream.run(source, "line", output, lambda lines: None)
            return
        bar = _Bar(total, stack)
        stream.run(source, str(arguments.input or "standard input"), output, bar.update)


class _Bar:
    """A progress bar; of a text of unknown length it appears after a second, since a sentence takes less than it."""

    def __init__(self, total: int | None, stack: ExitStack) -> None:
        self._stack, self._start, self._before = stack, time.monotonic(), 0
        self._bar = None if total is None else self._shown(total)

    def update(self, lines: int) -> None:
        """Count further lines."""
        if self._bar is None and time.monotonic() > self._start + 1:
            self._bar = self._shown(None)
            lines += self._before
        if self._bar is None:
            self._before += lines
        else:
            self._bar.update(lines)

    def _shown(self, total: int | None) -> Any:
        return self._stack.enter_context(progress(total, "translating", " sentences"))


def _input(path: Path | None, stack: ExitStack) -> tuple[BinaryIO, int | None]:
    """Return the text to translate, and its number of lines if known."""
    if path is None:
        return sys.stdin.buffer, None
    total = count_lines(path) if path.is_file() and path.stat().st_size else None
    return stack.enter_context(open_file(path)), total


def _translator(arguments: argparse.Namespace) -> Translator:
    if arguments.data is not None:
        return Translator.from_checkpoint(arguments.model, arguments.data, arguments.threads)
    path = Path(arguments.model.split(os.pathsep)[0])
    if path.is_file():
        raise UserError(f"{path} is a checkpoint, which needs --data DATA, the folder of its training")
    return Translator(arguments.model, arguments.threads)


def _given(arguments: argparse.Namespace) -> dict[str, Value]:
    """Return the given options of the search; the engine knows their permitted values."""
    values = {name: getattr(arguments, name) for name in [*OWN, *MORE]}
    # 0 is a value, though it equals False.
    given: dict[str, Value] = {name: each for name, each in values.items() if each is not None and each is not False}
    if arguments.rerank:
        from deepnmt.reranking.weights_file import as_option  # here, since it imports sacrebleu

        given["rerank"] = as_option(arguments.rerank, RERANKING)
    return given


def _check(arguments: argparse.Namespace) -> None:
    """Raise `UserError` for faults that must not wait until a model is loaded."""
    faults = [
        f"--{name.replace('_', '-')} must be at least 1, but is {value}"
        for name in ("batch_size", "buffer", "threads")
        if (value := getattr(arguments, name)) is not None and value < 1
    ]
    if arguments.scores and arguments.nbest:
        faults.append("--scores cannot be combined with --nbest, which prints scores anyway")
    if arguments.json and arguments.scores:
        faults.append("--scores cannot be combined with --json, which has scores anyway")
    if arguments.output and not arguments.output.parent.is_dir():
        faults.append(f"--output: folder {arguments.output.parent} not found")
    if arguments.output and arguments.output.is_dir():
        faults.append(f"--output: {arguments.output} must be a file, but is a folder")
    # Not by `Path.resolve`, which fails at a link to itself.
    places = {os.path.realpath(path) for path in (arguments.input, arguments.output) if path}
    if arguments.input and arguments.output and len(places) == 1:
        faults.append(f"--output: {arguments.output} must not be the text to translate")
    if arguments.input and not os.path.lexists(arguments.input):
        faults.append(f"{arguments.input}: no such file")
    elif arguments.input and arguments.input.is_dir():
        faults.append(f"{arguments.input}: must be a text, but is a folder")
    # A process may be started without them.
    if not arguments.input and sys.stdin is None:
        faults.append("INPUT must be given, since standard input is closed")
    if not arguments.output and sys.stdout is None:
        faults.append("--output must be given, since standard output is closed")
    if faults:
        raise UserError(*faults)


def parse(words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Return the command line."""
    parser = Parser(program("translate"), "Translate raw text, a sentence a line.", EPILOG)
    add = parser.add_argument
    add("model", metavar="MODEL", help="model folder made by deepnmt export; with --data, CHECKPOINT[:CHECKPOINT...] "
        "of fairseq-train")  # fmt: skip
    add("input", type=Path, nargs="?", metavar="INPUT", help="text to translate (default: standard input)")
    add("--output", type=Path, metavar="FILE", help="file to write, complete or not at all (default: standard output)")
    add("--data", metavar="DATA", help="folder, made by deepnmt preprocess, of a checkpoint's training, to translate "
        "with it")  # fmt: skip
    add("--beam", type=int, metavar="K", help="number of hypotheses kept per step (default: the model's, usually 5)")
    add("--lenpen", type=float, metavar="A", help="exponent of the length that divides scores (default: the model's)")
    add("--max-len-a", type=float, metavar="A", help="longest translation: A times the subwords of the longest source "
        "of its batch ...")  # fmt: skip
    add("--max-len-b", type=int, metavar="B", help="... plus B (default: the model's, usually 0 and 200); "
        "--max-len-ratio applies to each source")  # fmt: skip
    add("--rerank", type=Path, metavar="FILE", help="weights, found by deepnmt rerank --tune, to choose from the beam")
    add("--glossary", type=Path, metavar="FILE", help="glossary, a line each: term, tab, translation; for models of "
        "deepnmt preprocess --glossary-training")  # fmt: skip
    add("--nbest", type=int, metavar="N", help="translations per line to print, as LINE, score and text, tabs between")
    add("--scores", action="store_true", help="print the score and a tab before each translation")
    add("--json", action="store_true", help="print a JSON object per line: translations, scores, subwords")
    add("--no-split", action="store_true", help="translate each line at once, not sentence by sentence")
    add("--strict", action="store_true", help="treat a line that is too long as an error")
    add("--batch-size", type=int, default=BATCH, metavar="N", help=f"maximum lines per batch (default: {BATCH})")
    add("--buffer", type=int, default=CHUNK, metavar="N", help=f"lines to read before sorting (default: {CHUNK:,})")
    add("--threads", type=int, metavar="N", help="threads of the engine (default: the engine's)")
    add_reference_option(parser)
    more = parser.add_argument_group("options of the torch engine", "docs/search.md explains them").add_argument
    for name, row in SEARCHES.items():
        kind: dict[str, Any] = {"metavar": row.metavar} if row.metavar else {"action": "store_true"}
        more(option(name), help=row.help, **kind)
    for name, metavar in FUSION.items():
        more(option(name), metavar=metavar)
    return parser.parse_intermixed_args(words)
