"""Commands that are started as a user starts them, and killed at moments of which it is known what they were doing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS = 1800  # that a phase may keep one waiting, on a busy machine


class Run:
    """One start of a command.

    Args:
        command: its words
        log: file for what it prints
        phases: what the line holds that is printed when a phase begins; nothing for the one that begins with the run
        environment: of the command
    """

    def __init__(
        self, command: Sequence[Any], log: Path, phases: Mapping[str, bytes], environment: Mapping[str, str]
    ) -> None:
        self.log = log
        self.phases = phases
        # Every process of the run has it, those too that torchrun gives sessions of their own.
        self.mark = f"KILLS_MARK={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                env={**environment, name: value},
            )  # fmt: skip

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def phase(self) -> str:
        """What the run is doing."""
        text = self.log.read_bytes()
        return max(self.phases, key=lambda phase: text.rfind(self.phases[phase]) if self.phases[phase] else -0.5)

    def wait_for(self, phase: str, times: int = 1) -> bool:
        """Whether the phase has begun so many times; False where the run has ended without it."""
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            if not self.phases[phase] or self.log.read_bytes().count(self.phases[phase]) >= times:
                return True
            time.sleep(0.005)
        return False

    def seconds(self) -> dict[str, float]:
        """How long each phase takes on average, of a run that is left alone."""
        total, times, before, then = Counter[str](), Counter[str](), "", time.monotonic()
        while self.process.poll() is None:
            time.sleep(0.02)
            phase, now = self.phase(), time.monotonic()
            total[phase] += now - then
            times[phase] += phase != before
            before, then = phase, now
        assert self.process.returncode == 0, self.said()
        return {phase: total[phase] / max(times[phase], 1) for phase in self.phases}

    def said(self) -> str:
        """The end of what the run printed, for messages."""
        return self.log.read_text("utf-8", errors="replace")[-3000:]

    def kill(self) -> bool:
        """End every process of the run at once, as a machine does that fails; False where the run had ended."""
        if self.process.poll() is None:
            # The script first, which would else see that a command failed, and end by itself.
            for member in (self.process.pid, *self.members()):
                end(member)
            self.process.wait()
        end_all(self.mark)
        return self.process.returncode == -signal.SIGKILL

    def members(self) -> list[int]:
        """The processes of the run that have not ended, by their numbers."""
        return marked(self.mark)


def end(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes that have NAME=VALUE in their environment."""
    return [number for number in processes() if mark in environment_of(number)]


def end_all(mark: str) -> None:
    """End the processes that have NAME=VALUE in their environment, and wait until their locks are free."""
    ended: set[int] = set()
    while members := marked(mark):
        ended.update(members)
        for member in members:
            end(member)
    # The environment goes first, then the files, and then there is a zombie at most.
    while any(is_there(number) for number in ended):
        time.sleep(0.001)


def is_there(process: int) -> bool:
    """Whether a process has not ended, or not yet closed its files."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(") ")[2]
    except OSError:
        return False
    return not state.startswith(("Z", "X"))


def processes() -> list[int]:
    """All of the machine, in their order."""
    return sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def environment_of(process: int) -> list[str]:
    """The environment that a process was started with, a NAME=VALUE each; of one that has ended, nothing."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def command_of(process: int) -> list[str]:
    """The words of a process's command."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
