"""The steps of bleu_per_depth.sh around shrinking, translating and scoring.

commands:
  bleu_per_depth.py plan OUT CHECKPOINT DATA SUBSET ENCODER DECODER [OPTION...]    note what to do; print the models
  bleu_per_depth.py table OUT                                                      write bleu.tsv, and print it
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.generation.search_inputs import changed, contents
from deepnmt.model.stack import STACKS
from deepnmt.text.lines import whole_text
from deepnmt.text.record import read_record, size_and_time, write_record
from deepnmt.text.translated_folder import check_data

if TYPE_CHECKING:
    from deepnmt.checkpoints.state import CheckpointState

DEFAULT = (2, 3, 4, 6)
WHOLE = "whole"


def depth_of(tensors: Mapping[str, Any], stack: str) -> int:
    """The layers of a stack."""
    return len({found[1] for name in tensors if (found := re.match(rf"{stack}\.layers\.(\d+)\.", name))})


def numbers(text: str, stack: str, depth: int) -> list[int]:
    """The values of an option such as `2,3,6`, each from 2 to the depth. Raises `UserError` if they are not."""
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise UserError(f"--{stack}-every must be numbers such as 2,3,6, but is '{text}'")
    values = sorted(set(map(int, text.split(","))))
    if wrong := [value for value in values if not 2 <= value <= depth]:
        raise UserError(f"--{stack}-every must be from 2 to the depth, {depth}, but has {wrong[0]}")
    return values


def models(depths: dict[str, int], every: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The models to score: the whole one, then those of fewer layers, with name, option and depths."""
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
    from deepnmt.checkpoints.shrink.shrink_model import shrink_state
    from deepnmt.checkpoints.shrink.shrink_stacks import Shrinking

    for model in found:
        if model["option"]:
            stack, _, n = model["model"].split("-")
            shrinking = Shrinking(every={stack: int(n)})
            rewritten(state, partial(shrink_state, shrinking=shrinking, keep_schedule=False))


def plan(output: Path, checkpoint: Path, data: Path, subset: str, every: dict[str, str], options: list[str]) -> None:
    """Note in OUT/models.json what is to be done, and print name and option of each model.

    Raises `UserError` if something does not fit, or if OUT is of another checkpoint, data, subset or search.
    """
    from deepnmt.checkpoints.data_fit import check_checkpoint
    from deepnmt.checkpoints.state import CheckpointState

    check_data(data, subset)
    check_checkpoint(checkpoint, data, "--reverse" in options)
    state = CheckpointState.of(checkpoint, numbers=False)
    found = list(models({stack: depth_of(state.tensors(), stack) for stack in STACKS}, every))
    check_shrinking(state, found)
    settings = {
        "checkpoint": f"{os.path.realpath(checkpoint)} ({size_and_time(checkpoint)})",
        "data": os.path.realpath(data),
        "subset": subset,
        "options": options,
        **contents(data, options),
    }
    record = output / "models.json"
    if record.exists():
        old = read_record(record)
        if other := changed(old, settings):
            raise UserError(
                f"{output} must be of the same {other[0]}, {settings[other[0]]}, but is of {old.get(other[0])}; "
                "remove it or choose another OUT"
            )
    elif output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output} exists, and was not made by bleu_per_depth.sh; remove it or choose another OUT")
    output.mkdir(parents=True, exist_ok=True)
    with console.whole_file(record) as temporary:
        write_record(temporary, {**settings, "models": found})
    for model in found:
        print(model["model"], model["option"])


def table(output: Path) -> None:
    """Write OUT/bleu.tsv, a line a model, and print it in columns."""
    rows = []
    for model in read_record(output / "models.json", models=list)["models"]:
        scores = json.loads(whole_text(output / model["model"] / "scores.json"))
        layers = {key: value for key, value in model.items() if key != "option"}
        rows.append({**layers, **{name: f"{entry['score']:.2f}" for name, entry in scores.items()}})
    lines = [list(rows[0]), *([str(row.get(key, "")) for key in rows[0]] for row in rows)]
    with console.whole_file(output / "bleu.tsv") as temporary:
        temporary.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    widths = [max(map(len, column)) for column in zip(*lines)]
    for name, *values in lines:
        print(name.ljust(widths[0]), *(value.rjust(width) for value, width in zip(values, widths[1:])), sep="  ")


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("plan")
    command.add_argument("output", type=Path)
    command.add_argument("checkpoint", type=Path)
    command.add_argument("data", type=Path)
    for name in ("subset", *STACKS):
        command.add_argument(name)
    command.add_argument("options", nargs=argparse.REMAINDER)
    command = commands.add_parser("table")
    command.add_argument("output", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "table":
        table(arguments.output)
    else:
        every = {stack: getattr(arguments, stack) for stack in STACKS}
        plan(arguments.output, arguments.checkpoint, arguments.data, arguments.subset, every, arguments.options)


if __name__ == "__main__":
    console.run(main)
