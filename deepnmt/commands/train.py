"""Check a recipe and its data, and train its model: what scripts/train.sh runs.

On one device fairseq-train is called in this process: importing torch and fairseq, which takes longest at the start, is
done once. Several processes are torchrun's, once their start has been rehearsed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

# Before the rest of fairseq, as in fairseq-train itself: it sets up the logging.
from fairseq_cli.train import cli_main

# isort: split
import torch

import deepnmt
from deepnmt.beside import try_lock
from deepnmt.commands import launch
from deepnmt.commands.rehearsal import rehearse
from deepnmt.console import Parser, run
from deepnmt.errors import UserError
from deepnmt.recipe.arguments import training_arguments
from deepnmt.text.training_data import check_named_data

PROGRAM = "train.sh"
LAUNCHER = [sys.executable, "-m", "deepnmt.commands.launch"]
LOCK_SECONDS = 10
# What lasts as long as the process.
KEPT: list[object] = []


def main() -> None:
    """Check what the command line names, and leave fairseq-train's own command line in `sys.argv`.

    Where torchrun trains, the process ends here.
    """
    parser = Parser(PROGRAM, "Train the model of a recipe.", "Options of fairseq-train win over the recipe's.")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("data")
    parser.add_argument("save", type=Path)
    parser.add_argument("--processes", type=int, help="on this machine (default: one for each visible GPU, or one)")
    parser.add_argument("--nodes", type=int, default=1, help="machines (default: 1)")
    parser.add_argument("--node", type=int, default=0, help="number of this machine, from 0 (default: 0)")
    parser.add_argument("--master", default="", help="HOST:PORT of machine 0")
    known, extra = parser.parse_known_args()
    gpus = torch.cuda.device_count()
    processes = known.processes or max(gpus, 1)
    options = training_arguments(known.recipe, extra, known.nodes * processes, gpus)
    check_named_data(known.data, options)
    arguments = [known.data, "--user-dir", str(Path(deepnmt.__file__).parent), "--save-dir", str(known.save)]
    arguments += ["--skip-invalid-size-inputs-valid-test", *options]

    launcher = torchrun(processes, known.nodes, known.node, known.master)
    try:
        known.save.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"SAVE must be a folder, or a new one, but is {known.save}: {error.strerror}") from None
    if known.node == 0:
        lock(known.save)
    if launcher:
        rehearse(arguments)
    program = shutil.which("fairseq-train") or "fairseq-train"
    shown = [*launcher, program, *arguments] if launcher else ["fairseq-train", *arguments]
    print("+", shlex.join(shown), file=sys.stderr, flush=True)
    copy_output(known.save / (f"train.node-{known.node}.log" if known.node else "train.log"))
    if launcher:
        # In this process, which has the lock: one that waited for it could end before it.
        try:
            launch.main(shown[len(LAUNCHER) :])
        except SystemExit as end:
            if end.code == 1:
                print(f"{PROGRAM}: error: the training ended early; {what_next(known.save)}", file=sys.stderr)
            raise
        sys.exit()
    sys.argv = ["fairseq-train", *arguments]


def torchrun(processes: int, nodes: int, node: int, master: str) -> list[str]:
    """Return the command that starts several processes, without what they run; nothing for a single one.

    Args:
        processes: on this machine
        nodes: machines
        node: number of this machine
        master: HOST:PORT of machine 0

    Raises:
        UserError: there is no such port, or nobody knows that host, for which torchrun would wait
    """
    if processes * nodes == 1:
        return []
    place = ["--standalone"]
    if nodes > 1:
        host, _, port = master.rpartition(":")
        if not (port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535):
            raise UserError(f"MASTER must be HOST:PORT of machine 0, with a port from 1 to 65535, but is {master}")
        try:
            socket.getaddrinfo(host, port)
        except (OSError, UnicodeError) as error:
            raise UserError(f"MASTER must be HOST:PORT of machine 0, but is {master}: {error}") from None
        place = ["--nnodes", str(nodes), "--node-rank", str(node), "--master-addr", host, "--master-port", port]
    return [*LAUNCHER, *place, "--nproc-per-node", str(processes)]


def what_next(save: Path) -> str:
    """Return what the same command would do, in the words of train.sh."""
    resumed = (save / "checkpoint_last.pt").is_file()
    next_step = f"resume from the last checkpoint in {save}" if resumed else "start over"
    return f"run the same command again to {next_step}"


def lock(save: Path) -> None:
    """Lock a folder as long as this process lives, and those that it hands its files on to.

    Raises:
        UserError: another training has it
    """
    file = (save / "train.lock").open("wb")
    os.set_inheritable(file.fileno(), True)
    until = time.monotonic() + LOCK_SECONDS
    while not try_lock(file):
        if time.monotonic() > until:
            raise UserError(f"SAVE must not be in use, but another training is still running in '{save}'")
        time.sleep(0.2)
    KEPT.append(file)


def copy_output(log: Path) -> None:
    """Append what this process and its children print from now on to a file, too."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        # Ctrl-C must not end it before the training has said its last word.
        tee = subprocess.Popen(["tee", "-ia", "--", str(log)], stdin=subprocess.PIPE, stdout=stream.fileno())
        assert tee.stdin is not None
        os.dup2(tee.stdin.fileno(), stream.fileno())
        tee.stdin.close()
        KEPT.append(tee)


if __name__ == "__main__":
    run(main, PROGRAM)
    # From here on it is fairseq-train, which SIGTERM ends at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(cli_main())
