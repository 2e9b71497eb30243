"""Check a recipe and its data, and train its model: the process of a training.

    python -m deepnmt.runs.training RECIPE DATA SAVE [options of fairseq-train]

On one device fairseq-train is called in this process: importing torch and fairseq, which takes longest at the start, is
done once. Several processes are torchrun's, once their start has been rehearsed.
"""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from deepnmt.console import run, silence_import_of_fairseq

if __name__ == "__main__":
    silence_import_of_fairseq()

# isort: split
# Before the rest of fairseq, as in fairseq-train itself: it sets up the logging.
from fairseq_cli.train import cli_main

# isort: split
import torch

import deepnmt
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks import training_checks
from deepnmt.jobs.job import locked
from deepnmt.recipe.arguments import training_arguments
from deepnmt.runs import launch
from deepnmt.runs.place import Place
from deepnmt.runs.rehearsal import rehearse
from deepnmt.runs.supervision import AGAIN, LOCK, next_step
from deepnmt.text.training_data import check_named_data

LAUNCHER = [sys.executable, "-m", "deepnmt.runs.launch"]
# Objects that live as long as the process.
HELD, TEES = ExitStack(), list[object]()


def begin(recipe: Path, data: str, save: Path, options: Sequence[str]) -> None:
    """Check the training of a recipe, and leave fairseq-train's own command line in `sys.argv`.

    Where torchrun trains, the process ends here. The data are DATA, or DATA0:DATA1:...

    Raises:
        UserError: options do not match, or another training has the folder
    """
    place = Place.of_environment()
    gpus = torch.cuda.device_count()
    place = place._replace(processes=place.processes or max(gpus, 1))
    options = training_arguments(recipe, options, place.nodes * place.processes, gpus)
    check_named_data(data, options)
    arguments = [data, "--user-dir", str(Path(deepnmt.__file__).parent), "--save-dir", str(save)]
    arguments += ["--skip-invalid-size-inputs-valid-test", *options]
    training_checks.accepted = arguments

    launcher = torchrun(place)
    try:
        save.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"SAVE must be a folder, or a new one, but is {save}: {error.strerror}") from None
    if place.node == 0:
        # As long as this process lives, and the processes that inherit its files.
        HELD.enter_context(locked(save, "SAVE", name=LOCK))
    if launcher:
        rehearse(arguments)
    program = shutil.which("fairseq-train") or "fairseq-train"
    shown = [*launcher, program, *arguments] if launcher else ["fairseq-train", *arguments]
    print("+", shlex.join(shown), file=sys.stderr, flush=True)
    copy_output(save / (f"train.node-{place.node}.log" if place.node else "train.log"))
    if launcher:
        # In this process, which has the lock: one that waited for it could end before it.
        try:
            launch.main(shown[len(LAUNCHER) :])
        except SystemExit as end:
            if end.code == 1:
                print(f"{launch.PROGRAM}: error: {AGAIN} {next_step(save)}", file=sys.stderr)
            raise
        sys.exit()
    sys.argv = ["fairseq-train", *arguments]


def torchrun(place: Place) -> list[str]:
    """Return the command that starts several processes, without their program; nothing for a single one.

    Raises:
        UserError: the port does not exist, or the host is unknown, for which torchrun would wait
    """
    if place.processes * place.nodes == 1:
        return []
    where = ["--standalone"]
    if place.nodes > 1:
        master = place.master
        host, _, port = master.rpartition(":")
        if not (port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535):
            raise UserError(f"MASTER must be HOST:PORT of machine 0, with a port from 1 to 65535, but is {master}")
        try:
            socket.getaddrinfo(host, port)
        except (OSError, UnicodeError) as error:
            raise UserError(f"MASTER must be HOST:PORT of machine 0, but is {master}: {error}") from None
        where = ["--nnodes", str(place.nodes), "--node-rank", str(place.node)]
        where += ["--master-addr", host, "--master-port", port]
    return [*LAUNCHER, *where, "--nproc-per-node", str(place.processes)]


def copy_output(log: Path) -> None:
    """Also append all further output of this process and its children to a file."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        # Ctrl-C must not end it before the training has said its last word.
        tee = subprocess.Popen(["tee", "-ia", "--", str(log)], stdin=subprocess.PIPE, stdout=stream.fileno())
        assert tee.stdin is not None
        os.dup2(tee.stdin.fileno(), stream.fileno())
        tee.stdin.close()
        TEES.append(tee)


def become_fairseq_train(prepare: Callable[[], None]) -> NoReturn:
    """Prepare a training, and then be fairseq-train, by the command line in `sys.argv`, to the end of the process."""
    run(prepare, launch.PROGRAM)
    # fairseq-train ends at once on SIGTERM.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    status = cli_main()
    # The exit takes a moment, in which Ctrl-C would print a traceback and change nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status)


def main() -> None:
    """Begin the training that the command line names."""
    recipe, data, save, *options = sys.argv[1:]
    begin(Path(recipe), data, Path(save), options)


if __name__ == "__main__":
    become_fairseq_train(main)
