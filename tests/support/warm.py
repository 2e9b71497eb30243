"""Programs of Python that start within a fraction of a second, since a server has imported what they do.

`environment()` has scripts call a stand-in for `python3`, and `program(...)` names the commands of fairseq with it. It
asks a process that has imported fairseq and the package, `support.warm_server`, to fork and be the program, with all
that a started one has: streams, environment, folder, limits. Signals are passed on, and the end is that of the program.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300  # that the server may take to start, on a busy machine
CLIENT = """#!{python} -ISB
import array, marshal, os, resource, signal, socket, sys

REAL, HERE, PATH = {python!r}, {here!r}, {socket!r}
words = sys.argv[1:]
kinds = [word for word in words[:3] if word not in ("-u", "-P")]
if not kinds or (kinds[0].startswith("-") and kinds[0] not in ("-m", "-c")):
    os.execv(REAL, [REAL, *words])
environment = dict(os.environb)
if environment.pop(b"DEEPNMT_LAUNCHER", b"") == b"%d" % os.getppid():
    # As the package does in the processes of torchrun.
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
heard = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ignored = [int(number) for number in heard if signal.getsignal(number) == signal.SIG_IGN]
limits = [(number, resource.getrlimit(number)) for number in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)]
umask = os.umask(0)
os.umask(umask)
server = socket.socket(socket.AF_UNIX)
server.connect(PATH)
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
request = marshal.dumps((words, environment, os.getcwd(), umask, ignored, limits, HERE))
streams = array.array("i", [0, 1, 2])
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
server.sendmsg([len(request).to_bytes(8, "little")], rights)
server.sendall(request)
for number in heard:
    if number not in ignored:
        signal.signal(number, lambda number, _: server.send(bytes([number])))
signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
answer = server.recv(64)
status = marshal.loads(answer) if answer else -9
if status < 0:
    if -status in heard:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@functools.cache
def folder() -> Path:
    """Start the server of this process, and return the folder with the stand-in for `python3` and all that call it."""
    # A socket has a short name.
    place = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    real, here = sys.executable, place / "bin"
    here.mkdir()
    for path in Path(real).parent.iterdir():
        if path.name.startswith(("fairseq-", "deepnmt")):
            _, _, rest = path.read_text("utf-8").partition("\n")
            (here / path.name).write_text(f"#!{here / 'python3'}\n{rest}", "utf-8")
            (here / path.name).chmod(0o755)
        elif not path.name.startswith("python"):
            (here / path.name).symlink_to(path)
    _serve(place)
    for name in ("python3", "python"):
        text = CLIENT.format(python=real, here=str(here / "python3"), socket=str(place / "socket"))
        (here / name).write_text(text, "utf-8")
        (here / name).chmod(0o755)
    return here


def _serve(place: Path) -> None:
    """Start the server, which ends with this process, whose end of its standard input is closed then."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.warm_server", str(place / "socket")],
            stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True,
        )  # fmt: skip
    SERVERS.append(process)
    deadline = time.monotonic() + SECONDS
    while not (place / "socket").exists():
        assert process.poll() is None, (place / "log").read_text("utf-8")
        assert time.monotonic() < deadline, "the server does not start"
        time.sleep(0.05)


SERVERS: list[subprocess.Popen[bytes]] = []


def environment() -> dict[str, str]:
    """Return variables by which scripts find the stand-in."""
    return {"DEEPNMT_PYTHON_BIN": str(folder()), "OMP_NUM_THREADS": "1"}


def program(name: str) -> Path:
    """Return the path of an installed command, such as `fairseq-train`."""
    return folder() / name
