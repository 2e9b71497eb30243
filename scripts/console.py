"""Command-line manners shared by the scripts: errors in one line, files that appear whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm


class UserError(Exception):
    """Something the user can put right; its text is shown as one line, without a traceback."""


def run(main: Callable[[], None]) -> None:
    """Run a script's `main`: a `UserError` or an error of the operating system ends it with one line and status 2."""
    name = Path(sys.argv[0]).name
    try:
        main()
    except UserError as error:
        message = str(error)
    except OSError as error:
        message = os_message(error)
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted", file=sys.stderr)
        sys.exit(130)
    else:
        return
    print(f"{name}: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def os_message(error: OSError) -> str:
    """The operating system's reason, after the file it is about where that is known."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; it becomes `path` only if nothing went wrong.

    Raises `UserError` where the disk is full or refuses, also if a library wraps that in an error of its own.
    """
    temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    try:
        yield temporary
        os.replace(temporary, path)
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise UserError(f"cannot write {path}: {cause.strerror or cause}") from error
    finally:
        temporary.unlink(missing_ok=True)


def progress(total: int, description: str, unit: str) -> tqdm[object]:
    """A progress bar on standard error."""
    return tqdm(total=total, desc=description, unit=unit, unit_scale=True)
