"""Run commands: errors in one line each, atomic writes of files, and a progress bar.

A command's process may change its own signals, exception hook, environment, warnings and logging. A foreign program
that imports the package is not changed in any of these.
"""

import argparse
import atexit
import io
import math
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from deepnmt.beside import building, is_built_as
from deepnmt.errors import UserError, os_message, user_message

if TYPE_CHECKING:
    from tqdm import tqdm

# Processes that count as commands: modules run by `python -m`, and installed files, such as fairseq-train.
MODULES, PROGRAMS = ("fairseq_cli", "deepnmt"), ("fairseq", "deepnmt")
EMPTY = "the name of a file or folder must not be empty"
_runs = False
_waiting: list[Callable[[], object]] = []


class Parser(argparse.ArgumentParser):
    """Reports a fault in one line; description and epilog of --help are printed verbatim."""

    def __init__(
        self, prog: Optional[str] = None, description: Optional[str] = None, epilog: Optional[str] = None, **more: Any
    ) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        named = {"description": description, "epilog": epilog, "formatter_class": layout, "allow_abbrev": False}
        super().__init__(prog, **{**named, **more})
        self._wholes: dict[str, tuple[str, ...]] = {}

    def needs(self, option: str, *others: str) -> None:
        """Refuse an option on a command line without one of `others`, since it would have no effect."""
        self._wholes[option] = others

    def parse_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Optional[argparse.Namespace] = None
    ) -> argparse.Namespace:
        """See `argparse.ArgumentParser`. An empty argument is refused: a path would be the current folder."""
        words = self._checked(args)
        return self._with_wholes(super().parse_args(words, namespace), words)

    def parse_intermixed_args(  # type: ignore[override]
        self, args: Optional[Sequence[str]] = None, namespace: Optional[argparse.Namespace] = None
    ) -> argparse.Namespace:
        """As `parse_args`, with positional arguments between options."""
        words = self._checked(args)
        return self._with_wholes(super().parse_intermixed_args(words, namespace), words)

    def parse_before_options(self, args: Optional[Sequence[str]], other: str) -> tuple[argparse.Namespace, list[str]]:
        """Return this command's options, and the options of the program `other`, which follow the arguments.

        Raises:
            UserError: an argument is missing, or follows an option of the other program
        """
        own, others = [], []
        words = iter(sys.argv[1:] if args is None else args)
        for word in words:
            name, equals, _ = word.partition("=")
            action = self._option_string_actions.get(name)
            if action is None:
                others.append(word)
            elif action.nargs == 0 or equals:
                own.append(word)
            else:
                # Joined, so that a value may begin with a dash.
                own.append(f"{name}={next(words, '')}")
        places = self._get_positional_actions()
        leading = others[: len(places)]
        if not {"-h", "--help"} & {*own} and (len(leading) < len(places) or any(x.startswith("-") for x in leading)):
            *names, last = (str(place.metavar) for place in places)
            self.error(f"{', '.join(names)} and {last} must be given, before any option of {other}")
        return self.parse_args([*own, *leading]), others[len(places) :]

    def _with_wholes(self, given: argparse.Namespace, words: Sequence[str]) -> argparse.Namespace:
        """Return parsed words. Raises `UserError`, a line each, for options without an option that they need."""
        names = {word.partition("=")[0] for word in words}
        lacking = {part: wholes for part, wholes in self._wholes.items() if part in names and names.isdisjoint(wholes)}
        if lacking:
            raise UserError(*(f"{part} needs {' or '.join(wholes)}" for part, wholes in lacking.items()))
        return given

    def _checked(self, args: Optional[Sequence[str]]) -> list[str]:
        words: list[str] = []
        for word in sys.argv[1:] if args is None else args:
            option = words[-1] if words else ""
            if not word:
                self.error(f"option {option} needs a value" if option.startswith("--") else EMPTY)
            if word.startswith("--") and word.endswith("="):
                self.error(f"option {word[:-1]} needs a value")
            action = self._option_string_actions.get(option)
            # argparse takes every word with a hyphen for an option, such as a file name.
            if action is not None and action.nargs is None and re.match("-[^-]", word):
                words[-1] = f"{option}={word}"
            else:
                words.append(word)
        return words

    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        raise UserError(f"{message} (see --help)")


def add_workers(to: Parser) -> None:
    """Add the option --workers, None by default."""
    to.add_argument("--workers", type=whole("--workers", 1, 1024), metavar="N", help="processes (default: one a core)")


def whole(option: str, low: int, high: int) -> Callable[[str], int]:
    """Return the reader of an option's value; it raises `UserError` unless that is a whole number in a range."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 19 and low <= int(text) <= high):
            raise UserError(f"{option} must be a whole number from {low} to {high}, but is '{text}'")
        return int(text)

    return read


def wholes(option: str, low: int, high: int) -> Callable[[str], list[int]]:
    """Return the reader of an option's value; it raises `UserError` unless that is a list as `whole` reads its members.

    The list has commas, and keeps its order.
    """

    def read(text: str) -> list[int]:
        try:
            return [whole(option, low, high)(word) for word in text.split(",")]
        except UserError:
            raise UserError(
                f"{option} must be whole numbers from {low} to {high} with commas between them, but is '{text}'"
            ) from None

    return read


def place(text: str) -> Path:
    """Return the path in an argument. Raises `UserError` for an empty one, which must not mean the current folder."""
    if not text:
        raise UserError(EMPTY)
    return Path(text)


def listable(option: str) -> Callable[[str], Path]:
    """Return the reader of a path; it raises `UserError` for one that a list with commas or colons cannot contain."""

    def read(text: str) -> Path:
        if {",", ":"} & set(text):
            raise UserError(f"{option} must not contain a comma or a colon, but is '{text}'")
        return place(text)

    return read


def decimal(option: str) -> Callable[[str], float]:
    """Return the reader of an option's value; it raises `UserError` unless that is a number in JSON's one form.

    The value is stored in records, which are compared; a whole number is an int.
    """

    def read(text: str) -> float:
        if not re.fullmatch(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,16})?", text):
            raise UserError(f"{option} must be a number in the form of 12 or 0.5, but is '{text}'")
        return float(text) if "." in text else int(text)

    return read


def as_number(text: str) -> float:
    """Return the number that a text is; NaN for any other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def single_threaded() -> None:
    """Keep numpy, which is not imported yet, from starting threads in each worker."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def program(name: str) -> str:
    """Return the name at the beginning of messages: the script started by the user, or the subcommand."""
    return os.environ.get("DEEPNMT_SCRIPT") or f"deepnmt {name}"


def silence_import_of_fairseq() -> None:
    """Silence the warning of torch 2.14 at each import of fairseq, since no user can act on it."""
    warnings.filterwarnings("ignore", r"`torch\.jit\.script` is deprecated", FutureWarning)


def run(main: Callable[[], None], name: Optional[str] = None) -> None:
    """Run a command's `main`; a fault of the user's or of the system ends it with a line each and status 2.

    Its errors begin with `name`. The default is the script started by the user, which scripts/common.sh names, or the
    file that was started.
    """
    global _runs
    name = name or os.environ.get("DEEPNMT_SCRIPT") or Path(sys.argv[0]).name
    before, _runs = _runs, True
    silence_import_of_fairseq()
    use_utf8()
    # As on Ctrl-C, temporary files must be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(143))
    hear_interruptions()
    try:
        while _waiting:
            _waiting.pop(0)()
        main()
    except KeyboardInterrupt as error:
        print(f"\n{name}: interrupted; run the same command again to {str(error) or 'start over'}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output, such as `head`, has enough. The rest must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        message = os_message(error) if isinstance(error, OSError) else user_message(error)
        missing = (error.name or "") if message is None and isinstance(error, ModuleNotFoundError) else ""
        if missing and not missing.startswith("deepnmt"):
            hint = "run 'make setup' in a clone, or let DEEPNMT_PYTHON_BIN name the bin folder that has it"
            message = f"the package {missing} is not installed for {sys.executable}; {hint}"
        if message is None:
            raise
        for line in message.splitlines():
            print(f"{name}: error: {line}", file=sys.stderr)
        sys.exit(2)
    finally:
        _runs = before
        # The last to be registered is the first to be called: what is left to do at the exit may take a second.
        atexit.unregister(end_at_once_on_signals)
        atexit.register(end_at_once_on_signals)


def end_at_once_on_signals() -> None:
    """Let Ctrl-C and a kill end the process: in what Python does at its exit, an exception is but a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def is_command() -> bool:
    """Return whether this process is one of the package's commands or fairseq's, not another program."""
    main = sys.modules["__main__"]
    module = str(getattr(getattr(main, "__spec__", None), "name", ""))
    file = Path(getattr(main, "__file__", None) or "")
    return (
        _runs
        or module.partition(".")[0] in MODULES
        # A foreign server.py does not count, whatever its first lines.
        or (not file.suffix and file.name.partition("-")[0] in PROGRAMS)
        or file.parent.name == "fairseq_cli"
    )


def in_commands(change: Callable[[], object]) -> None:
    """Apply a change to the process now if it is a command, or when it becomes one."""
    if is_command():
        change()
    else:
        _waiting.append(change)


def use_utf8() -> None:
    """Read and write UTF-8 in this process and its children, whatever the locale and PYTHONIOENCODING say.

    Python settles the encoding of file names at its start: if it is not UTF-8, the process restarts.
    """
    os.environ.update(PYTHONUTF8="1", PYTHONIOENCODING="utf-8")
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def hear_interruptions() -> None:
    """Raise `KeyboardInterrupt` on SIGINT even if the process was started with SIGINT ignored.

    A shell starts background commands of a script this way, and they would end only when killed.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; it becomes `path` only if nothing went wrong.

    A link stays, and its target file is replaced.

    Raises:
        UserError: the path is a device or a pipe, which a file must not replace; or the disk is full or refuses. The
            latter also applies if a library wraps that in an error of its own
    """
    _check_kind(path)
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    try:
        with building(path) as temporary:
            yield temporary
            os.replace(temporary, path)
    except Exception as error:
        cause: BaseException | None = error
        # Our own errors name their files themselves.
        while cause is not None and (isinstance(cause, UserError) or not isinstance(cause, OSError)):
            cause = cause.__cause__ or cause.__context__
        # An OSError without a filename came from writing; another filename may be of a file read meanwhile.
        named = getattr(cause, "filename", None)
        if cause is None or (isinstance(named, (str, os.PathLike)) and not is_built_as(Path(named), path)):
            raise
        raise UserError(f"cannot write {path}: {cause.strerror or cause}") from error


def check_output(path: Path) -> None:
    """Raise `UserError` if `whole_file` could not write a path, before the work for it begins."""
    if path.is_dir():
        raise UserError(f"{path}: must be a file, but is a folder")
    _check_kind(path)
    try:
        with building(Path(os.path.realpath(path))):
            pass
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def _check_kind(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UserError(f"cannot write {path}: must be a file or a new one, but is a device or a pipe")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, by `whole_file`."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def progress(total: Optional[int], description: str, unit: str, done: int = 0) -> "tqdm[object]":
    """Return a progress bar on standard error; a `total` of None is unknown.

    The estimate of the time left excludes the work that earlier starts have `done`.
    """
    from tqdm import tqdm

    return tqdm(total=total, desc=description, unit=unit, unit_scale=True, initial=done)
