"""Translate a subset by fairseq-generate's own code, in this process.

fairseq's printed and logged output goes to a file. The translations come from the search itself, batch by batch.
"""

import logging
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import torch
from fairseq import options, tasks
from fairseq_cli import generate

import deepnmt
from deepnmt import console
from deepnmt.checkpoints.data_fit import check_checkpoint
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import user_message
from deepnmt.fairseq_patches.process.refusals import refusal
from deepnmt.text.lines import read_text
from deepnmt.text.record import DATASTORE, read_record, selection_texts

PROGRAM = "fairseq-generate"


class SearchFailed(Exception):
    """fairseq has refused its options, or failed; the argument says why."""


def check_checkpoints(paths: Sequence[Path], data: Path, reverse: bool, datastores: Sequence[Path] = ()) -> list[Any]:
    """Check that all checkpoints fit a data folder, in this or the other direction.

    Return the texts that the pairs of models and datastores were chosen to be like, as their data folders record them.
    The search checks datastores.

    Raises:
        UserError: a checkpoint cannot be read, or was not trained on data like this
    """
    states: list[Mapping[str, Any]] = []
    for path in paths:
        check_checkpoint(path, data, reverse)
        states.append(CheckpointState.of(path, numbers=False).task_state())
    records = (store / DATASTORE for store in datastores)
    return selection_texts([*states, *(read_record(record) for record in records if record.is_file())])


def search(words: Sequence[str], log: Path, total: int) -> dict[int, str]:
    """Translate a subset, on the GPU in half precision if there is one, else on the CPU.

    Return the best translation of each sentence that was translated, in tokens, by its number.

    Args:
        words: command line of fairseq-generate
        log: file that all output of fairseq is added to
        total: sentences, for the progress bar

    Raises:
        SearchFailed: fairseq has refused its options, or failed; the log says more
    """
    deepnmt.register()
    # Given options override these, as they come last.
    command = [PROGRAM, *words[:3], "--fp16" if torch.cuda.is_available() else "--cpu", *words[3:]]
    print("+", shlex.join(command), file=sys.stderr)
    terminal = sys.stderr
    with log.open("a", encoding="utf-8", newline="\n") as file, ExitStack() as bars, _running(command, file):
        print("+", shlex.join(command))

        def new_bar() -> Any:
            with redirect_stderr(terminal):
                return bars.enter_context(console.progress(total, "translating", " sentences"))

        try:
            return _best_translations(new_bar)
        except SystemExit as end:
            # argparse has said why; SIGTERM ends a command with another status.
            if end.code != 2:
                raise
            file.flush()
            raise SearchFailed(_shortened(read_text(log)[-1])) from None
        except Exception as error:
            message = user_message(error) or refusal(error, error.__traceback__)
            lines = [f"deepnmt: error: {line}" for line in (message or "").splitlines()]
            print("\n".join(lines) or traceback.format_exc().rstrip())
            raise SearchFailed(message or traceback.format_exception_only(error)[-1].strip()) from error


@contextmanager
def _running(command: list[str], file: TextIO) -> Iterator[None]:
    """Set the process's command line, and send all printed and logged output to a file."""
    root, words = logging.getLogger(), sys.argv
    handlers, level = list(root.handlers), root.level
    to_file = logging.StreamHandler(file)
    to_file.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    root.handlers[:] = [to_file]
    root.setLevel(os.environ.get("LOGLEVEL", "INFO").upper())
    sys.argv = command
    try:
        with redirect_stdout(file), redirect_stderr(file):
            yield
    finally:
        sys.argv = words
        root.handlers[:] = handlers
        root.setLevel(level)


def _best_translations(new_bar: Callable[[], Any]) -> dict[int, str]:
    parser = options.get_generation_parser()
    parser.add_argument("--arch", "-a", default="wav2vec2")  # as fairseq-generate does
    arguments = options.parse_args_and_arch(parser)
    best: dict[int, str] = {}
    bar: Any = None

    def keep(task: Any, generator: Any, sample: Any, found: Any) -> None:
        nonlocal bar
        # Not earlier: a refusal ends in a single line.
        bar = bar or new_bar()
        symbols = generate.get_symbols_to_strip_from_output(generator)
        for number, hypotheses in zip(sample["id"].tolist(), found):
            tokens = hypotheses[0]["tokens"].int().cpu()
            text = task.target_dictionary.string(tokens, arguments.post_process, extra_symbols_to_ignore=symbols)
            best[number] = text
        bar.update(len(best) - bar.n)

    with _told_of_batches(keep):
        generate.main(arguments)
    return best


@contextmanager
def _told_of_batches(told: Callable[[Any, Any, Any, Any], None]) -> Iterator[None]:
    """Have a function called with each batch that a task of fairseq's translates, after it is translated."""
    set_up = tasks.setup_task

    def set_up_telling(*args: Any, **options: Any) -> Any:
        task = set_up(*args, **options)
        step = task.inference_step

        def step_telling(generator: Any, models: Any, sample: Any, **more: Any) -> Any:
            found = step(generator, models, sample, **more)
            told(task, generator, sample, found)
            return found

        task.inference_step = step_telling
        return task

    tasks.setup_task = set_up_telling
    try:
        yield
    finally:
        tasks.setup_task = set_up


def _shortened(line: str) -> str:
    """Return a line of fairseq's parser without a long list of choices, such as of all its tasks."""
    return re.sub(r" [(]choose from .{200,}[)]$", f" (see {PROGRAM} --help)", line)
