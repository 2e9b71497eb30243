"""What is left of torchrun's report when processes fail, and when machines cannot reach each other."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import SECONDS, finish, started
from support.slow import slow_but

from deepnmt.runs import training

# Process 1 ends as it is told, and the other one waits for it.
PROGRAM = """
import os, signal, sys, time
if os.environ["RANK"] == "0":
    time.sleep(0 if sys.argv[1] == "0" else 60)
elif sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif sys.argv[1] != "0":
    print("program: error: so it is", file=sys.stderr)
    sys.exit(int(sys.argv[1]))
"""


def launched(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return finish([*training.LAUNCHER, *arguments[:-1], program, arguments[-1]])


@pytest.mark.parametrize(
    ("end", "status", "said"),
    slow_but(
        [("3", 1, ["program: error: so it is"])],
        [
            ("0", 0, []),
            ("3", 1, ["program: error: so it is"]),
            ("killed", 1, ["deepnmt train: error: process 1 was killed by SIGKILL"]),
        ],
    ),
)
def test_what_processes_end_with(
    end: str, status: int, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # without which torchrun says that it sets it
    done = launched(tmp_path, "--standalone", "--nproc-per-node=2", end)
    assert (done.returncode, done.stderr.splitlines()) == (status, said)


def test_a_signal_ends_launcher_and_processes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os, time\nos.write(1, b'begun\\n')\ntime.sleep(600)\n")
    command = [*training.LAUNCHER, "--standalone", "--nproc-per-node=2", tmp_path / "program.py"]
    pipe = subprocess.PIPE
    with started(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
        process.terminate()
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
        # To their end, which none of the processes holds open any more.
        assert process.stdout.read() == ""
        assert "Traceback" not in process.stderr.read()


FOLLOWING = """
import os, time
from deepnmt.training import launched
launched.follow()
os.write(1, b"begun\\n")
time.sleep(600)
"""


@pytest.mark.slow
def test_processes_end_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FOLLOWING)
    command = [*training.LAUNCHER, "--standalone", "--nproc-per-node=2", tmp_path / "program.py"]
    with started(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
        process.kill()
        # To its end, which none of the processes holds open any more.
        assert process.stdout.read() == ""


@pytest.mark.parametrize(("launcher", "status"), [("", 0), ("own", 0), ("1234567", -signal.SIGKILL)])
def test_a_process_whose_launcher_has_ended(launcher: str, status: int) -> None:
    number = str(os.getpid()) if launcher == "own" else launcher
    program = (
        "from deepnmt.training import launched; launched.follow(); assert launched.LAUNCHER not in launched.os.environ"
    )
    done = finish([sys.executable, "-c", program], env={**os.environ, "DEEPNMT_LAUNCHER": number})
    assert (done.returncode, done.stderr) == (status, "")


def test_the_plug_in_has_processes_follow_their_launcher() -> None:
    done = finish(
        [sys.executable, "-c", "import deepnmt.console; deepnmt.console.run(deepnmt.register)"],
        env={**os.environ, "DEEPNMT_LAUNCHER": "1234567"},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.slow
def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        place = [
            "--nnodes=2",
            "--node-rank=0",
            "--master-addr=localhost",
            f"--master-port={port}",
            "--nproc-per-node=1",
        ]
        done = launched(tmp_path, *place, "0")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "deepnmt train: error: MASTER must be HOST:PORT of machine 0, with a port that is free, but: The server socket"
    )
    assert "Traceback" not in done.stderr
