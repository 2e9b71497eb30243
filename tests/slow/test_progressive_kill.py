"""A three-stage run that is killed again and again ends with the parameters of the run that never was."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.curves import curve
from support.kills import Run
from support.progressive_runs import SCRIPT, assert_same_state, environment, make_data, make_recipe

KILLS = 20
# Batches of another size, an average, patience and a rate that goes on; every second update is saved.
STAGES = (
    "encoder-layers: 2, max-update: 14",
    "encoder-layers: 4, max-update: 26, max-tokens: 400, average: 2",
    "encoder-layers: 6, patience: 3, max-update: 44, keep-schedule: true",
)
FOLDERS = ("stage-1-2", "stage-2-4", "stage-3-6")
# What the line holds that is printed when a phase of the run begins; the first begins with the run.
PHASES = {
    "planning": b"",
    "training": b"Start iterating over samples",
    "growing": b"growing stage",
    "BLEU": b"+ deepnmt generate",
}
# What each start is to be killed in; where the phase does not come any more, the run ends.
TARGETS = ("training", "training", "growing", "training", "BLEU", "training", "training", "planning")


def start(recipe: Path, data: Path, save: Path, log: Path) -> Run:
    return Run([SCRIPT, recipe, data, save], log, PHASES, environment())


def result(save: Path, name: str) -> dict[str, Any]:
    """What a stage notes of itself, but for its time."""
    noted: dict[str, Any] = json.loads((save / name / "stage.json").read_text("utf-8"))
    return {key: value for key, value in noted.items() if key != "seconds"}


def assert_same_run(save: Path, other: Path) -> None:
    for name in FOLDERS:
        assert_same_state(save / name / "checkpoint_last.pt", other / name / "checkpoint_last.pt")
        assert result(save, name) == result(other, name)
        hypotheses = [(folder / name / "valid" / "hyp.en").read_bytes() for folder in (save, other)]
        assert hypotheses[0] == hypotheses[1]
    losses, others = (curve(folder / "tensorboard" / "train_inner", "loss") for folder in (save, other))
    assert losses == others
    assert list(losses) == list(range(1, len(losses) + 1))
    assert not list(save.rglob("*.tmp*"))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_killed_at_random_moments_it_ends_with_the_same_parameters(tmp_path: Path) -> None:
    data, recipe, draw = make_data(tmp_path), make_recipe(tmp_path / "recipe.yaml", *STAGES), random.Random(1)
    whole = tmp_path / "whole"
    with start(recipe, data, whole, tmp_path / "whole.log") as run:
        seconds = run.seconds()
    killed_in, starts, finished, ended = Counter[str](), 0, 0, False
    while killed_in.total() < KILLS or not ended:
        save = tmp_path / f"killed-{finished}"
        with start(recipe, data, save, tmp_path / f"start-{starts}.log") as run:
            target = TARGETS[starts % len(TARGETS)]
            if killed_in.total() < KILLS and run.wait_for(target):
                time.sleep(draw.uniform(0, seconds[target]))
            else:
                run.process.wait()
            phase = run.phase()
            ended = not run.kill()
        starts += 1
        if not ended:
            killed_in[phase] += 1
            continue
        assert run.process.returncode == 0, run.said()
        assert_same_run(save, whole)
        finished += 1
    print(f"killed in {dict(killed_in)}; {finished} runs ended; seconds a phase {seconds}")
    assert {"training", "growing", "BLEU"} <= killed_in.keys()
