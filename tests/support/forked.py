"""Subcommands in copies of this process, which has imported what they need: a kill meets them at their work."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from tqdm import tqdm

from deepnmt import cli
from support.kills import processes

MODULES = "modules"


class Forked:
    """One start of a subcommand, with a session of its own.

    Args:
        words: its name, and its command line
        folder: that it works in
        log: file for what it prints
    """

    def __init__(self, words: Sequence[object], folder: Path, log: Path) -> None:
        self.log = log
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.process = os.fork()
        if not self.process:
            self._work(list(map(str, words)), folder)
        self.status: int | None = None

    def _work(self, words: list[str], folder: Path) -> None:
        status = 1
        try:
            os.setsid()
            os.chdir(folder)
            file = self.log.open("w", encoding="utf-8")
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            sys.stdout = sys.stderr = os.fdopen(1, "w", 1, encoding="utf-8")
            # tqdm's own is shared with this process, and a child that is killed may hold it.
            tqdm.set_lock(threading.RLock())
            cli.main(words)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0
        finally:
            with contextlib.suppress(Exception):
                self.log.with_suffix(f".{MODULES}").write_text("\n".join(sys.modules), encoding="utf-8")
                sys.stdout.flush()
            os._exit(status)

    def wait(self, seconds: float) -> bool:
        """Wait so long at most; return whether it has ended by then."""
        if self.status is None:
            ended = os.pidfd_open(self.process)
            done, _, _ = select.select([ended], [], [], seconds)
            os.close(ended)
            if done:
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return self.status is not None

    def kill(self) -> None:
        """End it and all processes that it has started, at once, as a machine does that fails."""
        while members := list(self._members()):
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            self.wait(0.001)
        self.wait(10)

    def _members(self) -> Iterator[int]:
        for number in processes():
            with contextlib.suppress(OSError):
                state, _, _, session, *_ = Path(f"/proc/{number}/stat").read_text().rpartition(") ")[2].split()
                if int(session) == self.process and (state not in "ZX" or number == self.process):
                    yield number

    def said(self) -> str:
        """The end of what it printed, for messages."""
        return self.log.read_text("utf-8", errors="replace")[-3000:]


def undisturbed(words: Sequence[object], folder: Path, log: Path) -> float:
    """Run a subcommand to its end, import here what it has imported, and return how long it took."""
    begun = time.monotonic()
    run = Forked(words, folder, log)
    try:
        assert run.wait(1800)
    finally:
        run.kill()
    assert run.status == 0, run.said()
    seconds = time.monotonic() - begun
    for name in log.with_suffix(f".{MODULES}").read_text("utf-8").splitlines():
        with contextlib.suppress(Exception):
            import_module(name)
    return seconds
