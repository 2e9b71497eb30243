"""The BLEU of a model with ever fewer of its layers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepnmt import console
from deepnmt.generation.search_inputs import contents
from deepnmt.jobs.child_steps import run_step
from deepnmt.jobs.in_place import InPlace
from deepnmt.model.stack import STACKS
from deepnmt.text.columns import in_columns, write_rows
from deepnmt.text.lines import whole_text
from deepnmt.text.record import read_record, size_and_time
from deepnmt.text.translated_folder import check_data

if TYPE_CHECKING:
    from deepnmt.checkpoints.state import CheckpointState

DEFAULT = (2, 3, 4, 6)
WHOLE = "whole"
RECORD, SCORES, TABLE = "models.json", "scores.json", "bleu.tsv"


def depth_of(tensors: Mapping[str, Any], stack: str) -> int:
    """The layers of a stack."""
    return len({found[1] for name in tensors if (found := re.match(rf"{stack}\.layers\.(\d+)\.", name))})


def numbers(text: str, stack: str, depth: int) -> list[int]:
    """The values of an option such as `2,3,6`, each from 2 to the depth. Raises `UserError` if they are not."""
    return sorted({*console.wholes(f"--{stack}-every", 2, depth)(text)})


def models(depths: Mapping[str, int], every: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the models to score: the whole one, then models of fewer layers, with name, option and depths."""
    layers = {f"{stack}_layers": depth for stack, depth in depths.items()}
    yield {"model": WHOLE, "option": "", **layers}
    if not any(every.values()):
        fitting = ",".join(str(n) for n in DEFAULT if n <= depths["encoder"])
        every = {"encoder": fitting, "decoder": ""}
    for stack, text in every.items():
        for n in numbers(text, stack, depths[stack]) if text else []:
            fewer = {**layers, f"{stack}_layers": -(-depths[stack] // n)}
            yield {"model": f"{stack}-every-{n}", "option": f"--{stack}-every={n}", **fewer}


def check_shrinking(state: CheckpointState, found: Iterable[Mapping[str, Any]]) -> None:
    """Raise `UserError` if one of the models cannot be made, before the first one is translated."""
    from deepnmt.checkpoints.rewrite import rewritten
    from deepnmt.checkpoints.shrink import Shrinking, shrink_state

    for model in found:
        if model["option"]:
            stack, _, n = model["model"].split("-")
            shrinking = Shrinking(every={stack: int(n)})
            rewritten(state, partial(shrink_state, shrinking=shrinking, keep_schedule=False))


@dataclass(frozen=True)
class Depths:
    """A model to score with fewer and fewer of its layers.

    Attributes:
        checkpoint: the model
        data: data folder
        out: folder of the scores
        subset: subset of the data
        every: values of N for each stack, such as `2,3`: the first of N layers is kept; empty: no values
        options: options of the search
    """

    checkpoint: Path
    data: Path
    out: Path
    subset: str
    every: Mapping[str, str]
    options: Sequence[str]

    def score(self) -> None:
        """Translate and score each model that has no scores yet, and print the table of all.

        Raises:
            UserError: options do not match, or the folder is in use, or of another model, data, subset or search
        """
        job = self.job()
        shrunk = self.out / "shrunk.pt"
        with job.begun():
            for model in job.told["models"]:
                folder = self.out / model["model"]
                if (folder / SCORES).is_file():
                    print(f"{model['model']} is scored: {folder}", flush=True)
                    continue
                for path in self.out.glob(f"{shrunk.name}*"):
                    path.unlink()
                if model["option"]:
                    run_step("shrink", self.checkpoint, shrunk, model["option"])
                scored = shrunk if model["option"] else self.checkpoint
                run_step("generate", scored, self.data, folder, "--subset", self.subset, *self.options)
                run_step("score", folder)
                shrunk.unlink(missing_ok=True)
            table(self.out)
        print(f"{self.out} is ready: scores in {self.out / TABLE}")

    def job(self) -> InPlace:
        """Return the job, whose record also has the models to score. Raises `UserError` if options do not match."""
        from deepnmt.checkpoints.data_fit import check_checkpoint
        from deepnmt.checkpoints.state import CheckpointState

        check_data(self.data, self.subset)
        check_checkpoint(self.checkpoint, self.data, "--reverse" in self.options)
        state = CheckpointState.of(self.checkpoint, numbers=False)
        found = list(models({stack: depth_of(state.tensors(), stack) for stack in STACKS}, self.every))
        check_shrinking(state, found)
        settings = {
            "checkpoint": f"{os.path.realpath(self.checkpoint)} ({size_and_time(self.checkpoint)})",
            "data": os.path.realpath(self.data),
            "subset": self.subset,
            "options": list(self.options),
            **contents(self.data, self.options),
        }
        return InPlace(console.program("bleu-per-depth"), self.out, RECORD, settings, told={"models": found})


def table(output: Path) -> None:
    """Write OUT/bleu.tsv, a line a model, and print it in columns."""
    rows = []
    for model in read_record(output / RECORD, models=list)["models"]:
        scores = json.loads(whole_text(output / model["model"] / SCORES))
        layers = {key: value for key, value in model.items() if key != "option"}
        rows.append({**layers, **{name: f"{entry['score']:.2f}" for name, entry in scores.items()}})
    lines = [list(rows[0]), *([str(row.get(key, "")) for key in rows[0]] for row in rows)]
    write_rows(output / TABLE, lines)
    print("\n".join(in_columns(lines)))
