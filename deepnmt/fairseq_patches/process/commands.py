"""Repairs of the effects of importing fairseq and of `--user-dir` on the process, in commands: ours and fairseq's."""

import logging
import os
import sys
import warnings
from pathlib import Path

from deepnmt.console import hear_interruptions
from deepnmt.errors import show_user_errors
from deepnmt.fairseq_patches.patch import sets
from deepnmt.fairseq_patches.process.refusals import refusal
from deepnmt.training import launched

# Message and category of each warning that every run prints and no user can act on.
KNOWN_WARNINGS = (
    (r"Support for mismatched key_padding_mask and attn_mask is deprecated", UserWarning),
    (r"`?torch\.cuda\.amp\.", FutureWarning),
    (r"`torch\.jit", DeprecationWarning),
    (r"`torch\.jit", FutureWarning),
    (r"'pin_memory' argument is set as true but no accelerator is found", UserWarning),
    # About an argument that fairseq gives.
    (r"`broadcast_buffers` is deprecated", FutureWarning),
    # From Hydra, about how fairseq uses it.
    (r"hydra\.experimental\..* is no longer experimental", UserWarning),
    (r"\s*In '.*': Usage of deprecated keyword in package header", UserWarning),
    (r"\s*In '.*': Defaults list is missing `_self_`", UserWarning),
    (r"\s*'.*' is validated against ConfigStore schema with the same name", UserWarning),
    (r"\s*The strict flag in the compose API is deprecated", UserWarning),
    (r"\s*The version_base parameter is not specified", UserWarning),
)


@sets("sys.excepthook", order=10, why="a user's fault gives one line and no traceback", in_commands=True)
def show_faults_in_one_line() -> None:
    """Show `UserError`, Ctrl-C, and fairseq's refusals and failures to open files, in one line each."""
    sys.excepthook = show_user_errors(sys.excepthook, refusal)


@sets("os.environ", order=12, why="Hydra prints tracebacks itself", in_commands=True)
def leave_errors_to_the_hook() -> None:
    """Have Hydra raise an error that it would otherwise print with a shortened traceback."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")


@sets("signal.SIGINT", order=15, why="Ctrl-C ends a background training", in_commands=True)
def hear_interruptions_in_background() -> None:
    """Raise `KeyboardInterrupt` on SIGINT where it was ignored at the start."""
    hear_interruptions()


@sets("prctl", order=17, why="processes of a training end with its launcher", in_commands=True)
def end_with_the_launcher() -> None:
    """Have the process killed when deepnmt train's launcher ends."""
    launched.follow()


@sets("logging.root", order=20, why="importing fairseq leaves it at DEBUG", in_commands=True)
def undo_debug_level() -> None:
    """Set the level of the root logger back."""
    if logging.getLogger().level == logging.DEBUG:
        logging.getLogger().setLevel(os.environ.get("LOGLEVEL", "INFO").upper())


@sets("warnings.filters", order=30, why="warnings that every run prints and no user can act on", in_commands=True)
def silence_known_warnings() -> None:
    """Silence `KNOWN_WARNINGS`."""
    for message, category in KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", message=message, category=category)


@sets("sys.path", order=40, why="a folder fairseq beside the plug-in hides the real one (issue 4875)", in_commands=True)
def move_plugin_path_last() -> None:
    """Move the folder that `--user-dir` puts first on `sys.path` to the end, where workers still find the package."""
    parent = str(Path(__file__).resolve().parents[3])
    if sys.path and sys.path[0] == parent:
        sys.path.append(sys.path.pop(0))
