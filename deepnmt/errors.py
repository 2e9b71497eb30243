"""Faults that a user can correct: shown as one line each, without a traceback."""

import errno
import functools
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Optional, Union

LONGEST = 5_000  # characters of a line; a path has up to 4,096
# Libraries that the package alone does not install, and their extras.
EXTRAS = {"scipy": "corpus", "sklearn": "corpus", "matplotlib": "pictures"}
EXTRAS |= dict.fromkeys(("starlette", "uvicorn", "httptools", "py3langid"), "serve")
SECONDS = 10  # that a launcher may take to end the other processes when one has ended

ExceptHook = Callable[[type[BaseException], BaseException, Optional[TracebackType]], object]
MessageOf = Callable[[BaseException, Optional[TracebackType]], Optional[str]]


class UserError(Exception):
    """A fault in the user's input: options, files, disk. Each argument is one line with the remedy."""

    def __init__(self, *faults: str) -> None:
        # Not the constructor of fairseq's type beside this one, which may take other arguments.
        Exception.__init__(self, "\n".join(map(_readable, faults)))

    def __str__(self) -> str:
        """Return the lines; a `KeyError` would show them quoted."""
        return str(self.args[0])


def in_place_of(kind: type[BaseException], *faults: str) -> UserError:
    """Return a `UserError` that also counts as fairseq's own error of this type, for programs that catch that."""
    if issubclass(UserError, kind):
        return UserError(*faults)
    return (kind if issubclass(kind, UserError) else _also(kind))(*faults)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=100)
def _also(kind: type[BaseException]) -> type[UserError]:
    return type("UserError", (UserError, kind), {"__module__": __name__})


def _readable(fault: str) -> str:
    """Return a line without the rest of a value that would fill many screens."""
    return fault if len(fault) <= LONGEST else f"{fault[:LONGEST]}... ({len(fault)} characters)"


def let_the_first_process_speak() -> None:
    """Wait, in all processes of a machine but rank 0, until the launcher would have ended this one.

    Most faults occur in all of them. The launcher ends the others when rank 0 has reported the fault.
    """
    if int(os.environ.get("LOCAL_RANK", 0)) > 0:
        time.sleep(SECONDS)


def os_message(error: OSError) -> str:
    """Return the operating system's reason, after the name of its file if that is known."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def user_message(error: BaseException) -> Optional[str]:
    """Return the lines to show for an error, or None for a defect that needs its traceback.

    fairseq wraps errors in others of its own ("please ensure that the architectures match"), so the causes are
    also examined.
    """
    cause: Union[BaseException, None] = error
    while cause is not None:
        if isinstance(cause, UserError):
            return str(cause)
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return f"cannot write {cause.filename or 'a checkpoint'}: {cause.strerror}; earlier checkpoints are intact"
        library = (cause.name or "").partition(".")[0] if isinstance(cause, ImportError) else ""
        if library in EXTRAS:
            return f"{library} is not installed: pip install 'deepnmt[{EXTRAS[library]}]'"
        cause = cause.__cause__ or cause.__context__
    return None


def show_user_errors(previous: ExceptHook, more: MessageOf = lambda *_: None) -> ExceptHook:
    """Return an exception hook that shows some errors in a line each; `previous` gets the rest.

    They are a user's faults, Ctrl-C, and errors for which `more` returns a message. Python then ends with status 2, as
    each command does, and by the signal after Ctrl-C.
    """

    def hook(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        interrupted = isinstance(error, KeyboardInterrupt)
        stopped = "interrupted; run the same command again to resume from the last checkpoint"
        message = stopped if interrupted else user_message(error) or more(error, trace)
        if not message:
            previous(kind, error, trace)
            return
        let_the_first_process_speak()
        for line in message.splitlines():
            print(f"deepnmt: error: {line}", file=sys.stderr)
        # In a group of processes, torch puts a hook in front, which writes nothing unless this one returns.
        if sys.excepthook is hook and not interrupted:
            raise SystemExit(2)

    return hook
