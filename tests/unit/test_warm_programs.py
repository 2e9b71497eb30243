"""The stand-in for Python that the tests of commands use is, to a program and to who has started it, Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import warm
from support.kills import is_there
from support.processes import finish, ignore_interruptions, started, wait_until

SHOWN = """
import json, os, sys
print(json.dumps([sys.argv, os.getcwd(), os.environ["NOTE"], sys.stdin.read(), "fairseq" in sys.modules,
                  [place for place in sys.path if place.startswith(os.environ["NOTE"])]]))
print("to stderr", file=sys.stderr)
"""


@pytest.mark.parametrize("how", ["-c", "file", "-m"])
def test_a_program_has_all_that_it_is_started_with(how: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "shown_here.py").write_text(SHOWN, encoding="utf-8")
    words = {"-c": ["-c", SHOWN], "file": [tmp_path / "shown_here.py"], "-m": ["-m", "shown_here"]}[how]
    found = []
    for python in (sys.executable, warm.program("python3")):
        environment = {**os.environ, **warm.environment(), "NOTE": str(tmp_path), "PYTHONPATH": str(tmp_path)}
        done = finish([python, *words, "a b", "-c"], "input", env=environment, cwd=tmp_path / "here")
        assert done.returncode == 0, done.stderr
        assert done.stderr == "to stderr\n"
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "code", ["import sys; sys.exit(3)", "raise SystemExit('why')", "1 / 0", "import os; os.kill(os.getpid(), 9)", ""]
)
def test_the_status_is_that_of_the_program(code: str) -> None:
    real, stand_in = (finish([python, "-c", code]) for python in (sys.executable, warm.program("python3")))
    assert (real.returncode, real.stderr.splitlines()[-1:]) == (stand_in.returncode, stand_in.stderr.splitlines()[-1:])


def test_the_log_of_fairseq_begins_with_its_import() -> None:
    code = "import logging; print(logging.root.handlers); import fairseq_cli.train; print(len(logging.root.handlers))"
    assert finish([warm.program("python3"), "-c", code]).stdout == "[]\n1\n"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_program(sent: signal.Signals, tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(100)"
    with started([warm.program("python3"), "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        program = int(process.stdout.readline())
        assert is_there(program)
        process.send_signal(sent)
        assert process.wait(60) == -sent
        with started(["sleep", "60"]) as clock:
            wait_until(lambda: not is_there(program), clock)


def test_limits_are_those_of_the_program() -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE)[0])"
    done = finish(["bash", "-c", f"ulimit -f 1; exec \"$0\" -c '{code}'", warm.program("python3")])
    assert done.stdout == "1024\n"


def test_a_background_program_ignores_what_its_parent_ignores() -> None:
    code = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    assert finish([warm.program("python3"), "-c", code], preexec_fn=ignore_interruptions).stdout == "True\n"
