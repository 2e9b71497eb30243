"""Subcommands that are killed at random moments, again and again: what they make in the end is what they always make.

The seed of the moments is logged; KILL_SEED repeats it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from fairseq import tasks
from grammar.generate import write_splits
from support.flow import in_process
from support.kills import Run
from support.models import ROOT, SIZE
from support.substitution import TARGET, monolingual, sentences, substitution_data
from support.synthetic_runs import OPTIONS, back_command

from deepnmt.checkpoints.importing.importer import configuration, new_checkpoint

KILLS = 10
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}


class Inputs(NamedTuple):
    """What the subcommands read.

    Attributes:
        text: prefix of parallel text
        data: folder made of it
        save: checkpoints of a training
        like: data folder whose words are translated one by one
        back: command line of back-translation, without OUT
    """

    text: Path
    data: Path
    save: Path
    like: Path
    back: list[str]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("kills")
    write_splits(folder / "text", {"train": 1500, "valid": 20, "test": 20}, seed=1)
    splits = [word for name in ("train", "valid", "test") for word in (f"--{name}", folder / "text" / name)]
    languages = ("--source-lang", "de", "--target-lang", "en")
    made = in_process("preprocess", *languages, *splits, "--dest", folder / "data", "--bpe-merges", 100, "--workers", 1)
    assert made.returncode == 0, made.stderr
    cfg = configuration(folder / "data", {**SIZE, "share_all_embeddings": True}, ("de", "en"))
    (folder / "save").mkdir()
    for number in (1, 2):
        torch.manual_seed(number)
        model = tasks.setup_task(cfg.task).build_model(cfg.model)
        state = new_checkpoint(cfg, model)
        state["optimizer_history"][-1]["num_updates"] = number
        torch.save(state, folder / "save" / f"checkpoint{number}.pt")
    like = substitution_data(folder / "like")
    monolingual(folder, like, TARGET, sentences(20, seed=5), [])
    return Inputs(folder / "text" / "train", folder / "data", folder / "save", like, back_command(folder / "back"))


# What each subcommand is given, and the files of the result where it is no folder.
COMMANDS: dict[str, Callable[[Inputs, Path], list[object]]] = {
    "preprocess": lambda given, out: [
        "--source-lang", "de", "--target-lang", "en", "--train", given.text, "--valid-every", 50, "--dest", out,
        "--bpe-merges", 60, "--workers", 2,
    ],
    "binarise": lambda given, out: ["--like", given.data, "--train", given.text, "--dest", out, "--workers", 2],
    "mix": lambda given, out: [out, given.data, given.data, "--upsample", 9],
    "align": lambda given, out: [given.data, out, "--lexicon", "--workers", 2],
    "ngram": lambda given, out: ["train", f"{given.text}.en", out, "--raw"],
    "clean": lambda given, out: [
        "--input", given.text, "--output", out, "--source-lang", "de", "--target-lang", "en", "--ratio", "0.5:2",
        "--workers", 2,
    ],
    "average": lambda given, out: [given.save, out, "--last", 2],
    "generate": lambda given, out: [given.save / "checkpoint1.pt", given.data, out, "--nbest", 2, "--max-len-b", 20],
    "sweep": lambda given, out: [
        given.save, given.data, out, "--last", "1,2", "--beam", 2, "--lenpen", "0.6,1", "--max-len-b", 10,
    ],
    "search-errors": lambda given, out: [
        given.save / "checkpoint1.pt", given.data, "--beams", "1,2", "--max-len", 2, "--limit", 600, "--out", out,
    ],
    "synthesise": lambda given, out: [*given.back, out, *OPTIONS],
}  # fmt: skip


def contents(out: Path) -> dict[str, bytes]:
    """The files of a result, without what depends on the clock, names of processes and locks."""
    paths = [path for path in sorted(out.parent.rglob("*")) if path.is_file()]
    return {str(path.relative_to(out.parent)): timeless(path) for path in paths if path.name not in ("lock", "log")}


def timeless(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".log":
        content = b""
    elif path.name == "sentences.tsv":
        content = re.sub(rb"(?m)^(\d+\t)[^\t]*", rb"\1", content)
    elif path.suffix == ".json":
        record = json.loads(content)
        if isinstance(record, dict):
            # Logs of one line with a time.
            files = record.get("files", {})
            record["files"] = {name: size for name, size in files.items() if not name.endswith(".log")}
            content = json.dumps(record).encode()
    return content


def start(name: str, inputs: Inputs, out: Path) -> Run:
    words = [str(word) for word in COMMANDS[name](inputs, out)]
    log = out.parent.with_suffix(".log")
    return Run([sys.executable, "-m", "deepnmt", name, *words], log, {"runs": b""}, ENVIRONMENT)


def finished(name: str, inputs: Inputs, out: Path) -> dict[str, bytes]:
    """What a run makes that nobody kills."""
    with start(name, inputs, out) as run:
        assert run.process.wait(timeout=1800) == 0, run.said()
    return contents(out)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_ten_random_moments_it_makes_the_same(name: str, inputs: Inputs, tmp_path: Path) -> None:
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(10**9)))
    print(f"{name}: KILL_SEED={seed}")
    draw = random.Random(seed)
    place: dict[str, Any] = {}
    for kind in ("whole", "killed"):
        (tmp_path / kind).mkdir()
        # Of a name that records and messages have.
        place[kind] = tmp_path / kind / "out"
    begun = time.monotonic()
    expected = finished(name, inputs, place["whole"])
    seconds = time.monotonic() - begun
    assert expected
    killed = 0
    while killed < KILLS:
        with start(name, inputs, place["killed"]) as run:
            moment = draw.uniform(0, seconds)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(timeout=moment)
            if run.kill():
                killed += 1
                continue
            assert run.process.returncode == 0, run.said()
        # It was done before.
        assert contents(place["killed"]) == expected, moment
        shutil.rmtree(tmp_path / "killed")
        (tmp_path / "killed").mkdir()
    assert finished(name, inputs, place["killed"]) == expected
