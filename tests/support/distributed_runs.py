"""Short trainings on a tiny corpus, in one process or in several that share the batches of each update.

`run` gives its processes the environment of torchrun, but starts them by `support.warm`, which makes a training a
matter of a few seconds.
"""

from __future__ import annotations

import os
import pickle
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary, indexed_dataset
from torch import Tensor

from deepnmt.checkpoints.file import read
from support import warm

ROOT = Path(__file__).resolve().parents[2]
# Of each process: what it does changes the process too, as in fairseq-train.
PROGRAM = """
import pickle, sys
from deepnmt import console
console._runs = True
while console._waiting:
    console._waiting.pop(0)()
with open(sys.argv[1], "rb") as file:
    target, arguments = pickle.load(file)
target(*arguments)
"""
SECONDS = 300  # that a training may take, on a busy machine
BATCHES = 2  # of an update, in all processes together
# Seven batches an epoch: the last update of an epoch has none for the last process. Twenty updates: five epochs.
SENTENCES, BATCH_SIZE, UPDATES = 56, 8, 20
# Adam divides a gradient by its size. The epsilon is far above the rounding of gradients that should be zero, such as
# those of the keys' biases, which would otherwise grow to whole steps in any direction.
OPTIONS = [
    "--user-dir", str(ROOT / "deepnmt"), "--cpu", "--task", "translation", "--arch", "dlcl_transformer_tiny",
    "--encoder-layers", "3", "--decoder-layers", "2", "--encoder-embed-dim", "32", "--decoder-embed-dim", "32",
    "--encoder-ffn-embed-dim", "48", "--decoder-ffn-embed-dim", "48", "--dropout", "0", "--optimizer", "adam",
    "--adam-eps", "1e-3", "--lr", "0.01", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "3",
    "--batch-size", str(BATCH_SIZE), "--num-workers", "0",
    "--max-update", str(UPDATES), "--save-interval-updates", str(UPDATES // 2), "--log-format", "simple",
    "--log-interval", "1",
]  # fmt: skip
SMOOTHED = ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]


def write_corpus(folder: Path) -> Path:
    """Binarise random sentences of 2 to 9 words, to be translated into the same words in reverse; gives `folder`."""
    folder.mkdir(parents=True)
    dictionary = Dictionary()
    for index in range(20):
        dictionary.add_symbol(f"w{index}")
    for language in ("de", "en"):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    draw = random.Random(1)
    for split, size in (("train", SENTENCES), ("valid", BATCH_SIZE)):
        source = [draw.choices(range(dictionary.nspecial, len(dictionary)), k=draw.randint(2, 9)) for _ in range(size)]
        for language, sentences in (("de", source), ("en", [sentence[::-1] for sentence in source])):
            prefix = f"{folder}/{split}.de-en.{language}"
            builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
            for sentence in sentences:
                builder.add_item(torch.tensor([*sentence, dictionary.eos()]))
            builder.finalize(f"{prefix}.idx")
    return folder


def run(options: Sequence[str], processes: int, data: Path, save: Path, batches: int = BATCHES) -> dict[str, Tensor]:
    """Train on a corpus, and give the final parameters.

    Args:
        options: of fairseq-train, which win over `OPTIONS`
        processes: how many
        data: from `write_corpus`
        save: folder of the checkpoints, from whose last one the training goes on, and of a log for each process
        batches: of an update, in all processes together: fairseq deals them out in turn
    """
    start(fairseq_train, (train_arguments(options, data, save, batches // processes),), processes, save)
    return parameters(save)


def train_arguments(options: Sequence[str], data: Path, save: Path, update_freq: int = 1) -> list[str]:
    """The command line of fairseq-train; `update_freq` batches of each process make an update."""
    loss = () if "masked_language_model" in options else SMOOTHED
    return [str(data), *OPTIONS, *loss, "--save-dir", str(save), "--update-freq", str(update_freq), *options]


def start(target: Callable[..., None], arguments: tuple[Any, ...], processes: int, logs: Path) -> None:
    """Call a function of a module in so many processes, and see that all succeed.

    What a process prints goes to a file in `logs`, rank-0.log and so on.
    """
    logs.mkdir(parents=True, exist_ok=True)
    files = [logs / f"rank-{rank}.log" for rank in range(processes)]
    work = logs / "work.pickle"
    work.write_bytes(pickle.dumps((target, arguments)))
    command = [str(warm.program("python3")), "-c", PROGRAM, str(work)]
    # Modules of the tests are found where this process finds them.
    same = {**os.environ, **warm.environment(), "PYTHONPATH": os.pathsep.join(sys.path)}
    workers = []
    for environment, log in zip(_environments(processes), files):
        with log.open("ab") as out:
            workers.append(subprocess.Popen(command, env={**same, **environment}, stdout=out, stderr=out))
    _wait(workers)
    said = "\n".join(file.read_text("utf-8")[-3000:] for file in files)
    assert [worker.returncode for worker in workers] == [0] * processes, said


def fairseq_train(arguments: list[str]) -> None:
    """The command, in this process."""
    sys.argv = ["fairseq-train", *arguments]
    from fairseq_cli.train import cli_main

    cli_main()


def parameters(save: Path, checkpoint: str = "checkpoint_last.pt") -> dict[str, Tensor]:
    """The parameters that a training saved."""
    model: dict[str, Tensor] = read(save / checkpoint)["model"]
    return model


def largest_difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest difference within a parameter, as a share of its largest value, or of 0.001 if that is smaller."""
    assert one.keys() == other.keys()
    shares = [(one[name] - other[name]).abs().max() / one[name].abs().max().clamp(min=1e-3) for name in one]
    return float(torch.stack(shares).max())  # unlike Python's, gives NaN if there is one


def _environments(processes: int) -> list[dict[str, str]]:
    """What torchrun tells each process; nothing if there is but one."""
    if processes == 1:
        return [{}]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    same = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    return [{**same, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def _wait(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for all, but end the others when one fails or the time is over."""
    deadline = time.monotonic() + SECONDS
    while None in (states := [worker.poll() for worker in workers]):
        if any(states) or time.monotonic() > deadline:
            for worker in workers:
                worker.kill()
                worker.wait()
        time.sleep(0.02)
