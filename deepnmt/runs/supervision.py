"""A training in a process of its own, beside a process that reports its end, whatever it is."""

import sys
from collections.abc import Sequence
from pathlib import Path

from deepnmt.jobs.child_steps import module, run_process

LAST, LOCK = "checkpoint_last.pt", "train.lock"
# Of fairseq-train: the training leaves no LAST, from which it resumes, and another one begins.
WITHOUT_LAST = ("--no-save", "--no-last-checkpoints")
# The folder, in that of the checkpoints, of the model of both directions that a training begins with.
BOTH = "both"
AGAIN = "the training ended early; run the same command again to"


def train(program: str, name: str, words: Sequence[object], save: Path) -> None:
    """Run the module `name`, which trains in a folder of checkpoints. Exits with its status if it fails.

    Messages begin with `program`.
    """
    try:
        status = run_process(module(name, words))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(next_step(save)) from None
    if status > 128:
        print(f"{program}: error: {AGAIN} {next_step(save)}", file=sys.stderr)
    if status:
        sys.exit(status)


def next_step(save: Path) -> str:
    """Return the next step of the same command."""
    begun = any((folder / LAST).is_file() for folder in (save, save / BOTH))
    return f"resume from the last checkpoint in {save}" if begun else "start over"
