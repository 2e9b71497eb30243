"""Commands that a test starts and waits for: they hear Ctrl-C, and none outlives the test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from support.kills import end, end_all

SECONDS = 300  # that a test waits for what a command does, on a busy machine


def hear_interruptions() -> None:
    """Undo that a suite which is started in the background of a script ignores SIGINT, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ignore_interruptions() -> None:
    """Start a child as a shell starts a command in the background of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextlib.contextmanager
def started(
    command: Sequence[Any],
    env: Mapping[str, str] = os.environ,
    preexec_fn: Callable[[], None] = hear_interruptions,
    **options: Any,
) -> Iterator[subprocess.Popen[str]]:
    """Start a command as leader of a process group; when the block is left, none of its processes is.

    Args:
        command: its words
        env: its environment
        preexec_fn: called in the child
        options: of `subprocess.Popen`
    """
    # Scripts give what they run groups of its own, and torchrun sessions, but all of them inherit the environment.
    name, value = "TEST_MARK", str(uuid.uuid4())
    process: subprocess.Popen[str] = subprocess.Popen(
        [str(word) for word in command], text=True, start_new_session=True, preexec_fn=preexec_fn,
        env={**env, name: value}, **options,
    )  # fmt: skip
    try:
        yield process
    finally:
        end(process.pid)
        process.wait()
        end_all(f"{name}={value}")
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = SECONDS) -> None:
    """Wait for what a process that still runs is to bring about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "the process has ended"
        assert time.monotonic() < deadline, f"nothing happened for {seconds} s"
        time.sleep(0.05)


def finish(
    command: Sequence[Any], input: str | None = None, timeout: float = 1800, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does, but leave no process behind where the test fails meanwhile.

    Args:
        command: its words
        input: for its standard input
        timeout: seconds that it may take
        options: of `started`
    """
    pipe = subprocess.PIPE
    stdin = subprocess.DEVNULL if input is None else pipe
    with started(command, stdin=stdin, stdout=pipe, stderr=pipe, **options) as process:
        out, err = process.communicate(input, timeout=timeout)
    return subprocess.CompletedProcess(command, process.returncode, out, err)
