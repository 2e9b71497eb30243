"""A step is a process of its own, which does not outlive its command's interruption, and keeps its command's locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import SECONDS, finish, started

from deepnmt.jobs import child_steps as steps

# It runs the step of its command line, and says what became of it.
COMMAND = """
import sys
from deepnmt.console import run
from deepnmt.jobs.child_steps import run_process
run(lambda: sys.exit(run_process(sys.argv[1:])), "command")
"""
# It says its number, and that it is told to end, which takes it a moment.
STEP = """
import os, signal, sys, time
def end(*_):
    time.sleep(0.2)
    os.write(1, b"ended\\n")
    sys.exit()
signal.signal(signal.SIGTERM, end)
os.write(1, b"begun\\n")
time.sleep(600)
"""


@pytest.mark.parametrize(("code", "status"), [("0", 0), ("3", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_status(code: str, status: int) -> None:
    assert steps.run_process([sys.executable, "-c", f"import os, sys; sys.exit({code})"]) == status


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, "\ncommand: interrupted; run the same command again to start over\n"),
        (signal.SIGTERM, 143, ""),
        (signal.SIGHUP, 143, ""),
    ],
)
def test_a_signal_to_the_command_ends_the_step_first(number: int, status: int, said: str) -> None:
    command, pipe = [sys.executable, "-c", COMMAND, sys.executable, "-c", STEP], subprocess.PIPE
    with started(command, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        # As Ctrl-C: to the whole group of the command, which the step is not in.
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (status, "ended\n", said)


def test_nohup_is_heeded() -> None:
    code = "import os, signal; from deepnmt.console import run; run(lambda: os.kill(os.getpid(), signal.SIGHUP))"
    hup = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    assert finish([sys.executable, "-c", hup, sys.executable, "-c", code]).returncode == 0
    assert finish([sys.executable, "-c", code]).returncode == 143


def test_modules_are_looked_for_where_the_command_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text("print('here')")
    # As of `python -m`, and as of an installed command.
    for path, status in ((str(tmp_path), 0), ("/usr/bin", 1)):
        monkeypatch.setattr(sys, "path", [path, *sys.path])
        assert finish(steps.module("other", [])).returncode == status


def test_a_step_that_fails_ends_its_command(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        steps.run_step("recipe", "none at all")
    assert capfd.readouterr().err.splitlines() == [
        "+ deepnmt recipe 'none at all'",
        "deepnmt recipe: error: RECIPE must be a file, or a name that 'deepnmt recipe' lists, but there is no "
        "'none at all'",
    ]
