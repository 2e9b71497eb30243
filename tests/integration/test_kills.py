"""Subcommands that are killed at random moments, again and again: what they make in the end is what they always make.

The seed of the moments is logged; KILL_SEED repeats it.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from fairseq import tasks
from grammar.generate import write_splits
from support.flow import in_process
from support.forked import Forked, undisturbed
from support.models import SIZE
from support.substitution import SOURCE, TARGET, monolingual, sentences, substitution_data
from support.synthetic_runs import back_command

from deepnmt.checkpoints.importing.importer import configuration, new_checkpoint

# Of those that the ordinary suite kills, too, and of the others.
FEW, KILLS = 3, 10
ORDINARY = ("mix", "average")


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
    write_splits(folder / "text", {"train": 600, "valid": 20, "test": 20}, seed=1)
    splits = [word for name in ("train", "valid", "test") for word in (f"--{name}", folder / "text" / name)]
    languages = ("--source-lang", "de", "--target-lang", "en")
    made = in_process("preprocess", *languages, *splits, "--dest", folder / "data", "--bpe-merges", 60, "--workers", 1)
    assert made.returncode == 0, made.stderr
    cfg = configuration(folder / "data", {**SIZE, "share_all_embeddings": True}, ("de", "en"))
    (folder / "save").mkdir()
    for number in (1, 2):
        torch.manual_seed(number)
        state = new_checkpoint(cfg, tasks.setup_task(cfg.task).build_model(cfg.model))
        state["optimizer_history"][-1]["num_updates"] = number
        torch.save(state, folder / "save" / f"checkpoint{number}.pt")
    like = substitution_data(folder / "like")
    monolingual(folder, like, TARGET, sentences(20, seed=5), [])
    return Inputs(folder / "text" / "train", folder / "data", folder / "save", like, back_command(folder / "back"))


LANGUAGES = ["--source-lang", "de", "--target-lang", "en"]
# What each subcommand is given.
COMMANDS: dict[str, Callable[[Inputs, Path], list[object]]] = {
    "preprocess": lambda given, out: [
        *LANGUAGES, "--train", given.text, "--valid-every", 50, "--dest", out, "--bpe-merges", 60, "--workers", 2,
        "--truecase", "--bpe-dropout", 0.1, "--copies", 3,
    ],
    "binarise": lambda given, out: ["--like", given.data, "--train", given.text, "--dest", out, "--workers", 2],
    "mix": lambda given, out: [out, given.data, given.data, "--upsample", 9],
    "select": lambda given, out: [
        given.data, out, "--like", given.data / "text" / f"test.tok.{SOURCE}", "--number", 200,
    ],
    "clean": lambda given, out: [
        "--input", given.text, "--output", out, *LANGUAGES, "--rejected", f"{out}.bad", "--score", f"{out}.all",
        "--chunk", 100, "--numbers", "--dedup", "source", "--train-classifier", "--keep-best", 0.8, "--workers", 2,
    ],
    "align": lambda given, out: [given.data, out, "--lexicon", "--rounds", 3, "--workers", 2],
    "ngram": lambda given, out: ["train", f"{given.text}.en", out, "--raw"],
    "average": lambda given, out: [given.save, out, "--last", 2],
    "generate": lambda given, out: [given.save / "checkpoint1.pt", given.data, out, "--nbest", 2, "--max-len-b", 20],
    "sweep": lambda given, out: [
        given.save, given.data, out, "--last", "1,2", "--beam", 2, "--lenpen", "0.6,1", "--max-len-b", 10,
    ],
    "search-errors": lambda given, out: [
        given.save / "checkpoint1.pt", given.data, "--beams", "1,2", "--max-len", 2, "--limit", 600, "--out", out,
    ],
    "synthesise": lambda given, out: [*given.back, out, "--method", "sampling", "--batch-size", 4],
}  # fmt: skip
NAMES = [*ORDINARY, *(pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS)]


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


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NAMES)
def test_killed_at_random_moments_it_makes_the_same(
    name: str, inputs: Inputs, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = KILLS if request.node.get_closest_marker("slow") else FEW
    seed = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(10**9)))
    draw, log, place, killed = random.Random(seed), tmp_path / "said.log", tmp_path / "killed", 0
    # Of a name that records and messages have.
    words = [name, *COMMANDS[name](inputs, place / "out")]
    # Once for its imports, which stay.
    for _ in range(2):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        seconds = undisturbed(words, place, log)
    expected = contents(place / "out")
    assert expected
    print(f"{name}: KILL_SEED={seed}, {seconds:.2f} s undisturbed, killed after", end="")
    ended = True
    while killed < kills or not ended:
        if ended:
            shutil.rmtree(place)
            place.mkdir()
        moment = draw.uniform(0, seconds)
        run = Forked(words, place, log)
        try:
            ended = run.wait(moment if killed < kills else 1800)
        finally:
            run.kill()
        if ended:
            assert run.status == 0, run.said()
            assert contents(place / "out") == expected
        else:
            killed += 1
            print(f" {moment:.2f}", end="")
    print(f" s: {killed} kills")
