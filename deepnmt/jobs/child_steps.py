"""Steps of a command that are processes of their own, whose memory ends with them.

A step has a process group of its own: on Ctrl-C the command alone is told, ends the whole group, and says one line. A
step inherits the locks of its command, since it may outlive one that is killed, and writes where the command would.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def module(name: str, words: Sequence[object]) -> list[str]:
    """Return the command line of a module, which is looked for where this process looks for modules."""
    here = ["-P"] if sys.flags.safe_path or sys.path[0] not in ("", os.getcwd()) else []
    return [sys.executable, *here, "-m", name, *map(str, words)]


def run_step(*words: object) -> None:
    """Show and run a subcommand of `deepnmt`. Exits with its status if it fails, since it has said why."""
    print("+", shlex.join(["deepnmt", *map(str, words)]), file=sys.stderr, flush=True)
    if status := run_process(module("deepnmt", words)):
        sys.exit(status)


def run_process(command: Sequence[str]) -> int:
    """Run a command to its end, or end it when this process is to end.

    Returns:
        its exit status; 128 and the signal's number where a signal has ended it
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with subprocess.Popen(command, process_group=0, close_fds=False) as process:
        try:
            status = process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with _deaf():
                process.wait()
            raise
    return status if status >= 0 else 128 - status


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Ignore a second Ctrl-C while a step ends."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
