"""Measure recipes and checkpoints as a command line requests, and write the results."""

import argparse
import logging
import os
import platform
import shlex
import sys
import time
from datetime import datetime
from typing import Any

import fairseq
import torch

import deepnmt
from deepnmt.console import check_output, write_whole
from deepnmt.errors import UserError
from deepnmt.inspection import Report, inspect_checkpoint, inspect_recipe, summary, table, write_json
from deepnmt.inspection.attention_similarity import blocks
from deepnmt.inspection.sources import checkpoint_similarities
from deepnmt.inspection.table import title
from deepnmt.text.columns import in_columns


def measure_and_write(arguments: argparse.Namespace) -> None:
    """Read, check, measure, write and print by the arguments of `deepnmt inspect`. Raises `UserError` for a fault."""
    deepnmt.register()
    about = facts(arguments)
    # fairseq reports every step of loading data.
    logging.getLogger().setLevel(logging.WARNING)
    if arguments.attention_similarity:
        show("\n\n".join(similarity_table(arguments, each) for each in arguments.sources))
        return
    check_outputs(arguments)
    if arguments.html or arguments.pictures:
        from deepnmt.inspection import page  # noqa: F401  reports a missing matplotlib before minutes are spent
    reports = measure(arguments)
    write(arguments, reports, about)
    show("\n\n".join([*map(table, reports), summary(reports)]))


def similarity_table(arguments: argparse.Namespace, source: Any) -> str:
    """Return the similarity of a checkpoint's layers, and the blocks that can share attention weights."""
    common: dict[str, Any] = {name: getattr(arguments, name) for name in ("data", "batches", "subset", "seed")}
    matrix = checkpoint_similarities(source.path, **common)
    numbers = list(map(str, range(1, len(matrix) + 1)))
    rows = [["layer", *numbers], *([name, *(f"{value:.3f}" for value in row)] for name, row in zip(numbers, matrix))]
    boundaries = ",".join(map(str, blocks(matrix, arguments.theta)))
    what = f"{source.label}: similarity of the decoder's self-attention (48)"
    found = f"--shared-attention-blocks {boundaries}  (theta {arguments.theta:g})"
    return "\n".join([what, *in_columns(rows, left=0), found])


def facts(arguments: argparse.Namespace) -> dict[str, str]:
    """Return facts about the run for readers of the results."""
    return {
        "command": shlex.join(["deepnmt", "inspect", *arguments.words]),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": f"deepnmt {deepnmt.__version__}, fairseq {fairseq.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}",
        "data": f"{arguments.data}, subset {arguments.subset}, at most {arguments.batches} batches",
        "seed": str(arguments.seed),
    }


def check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse unwritable outputs, before anything is measured."""
    files = [path for path in (arguments.json, arguments.html) if path is not None]
    taken = [os.path.realpath(each.path) for each in arguments.sources]
    for path in files:
        if os.path.realpath(path) in taken:
            raise UserError(f"{path}: given twice")
        taken.append(os.path.realpath(path))
        check_output(path)
    if arguments.pictures is not None:
        try:
            arguments.pictures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make folder {arguments.pictures}: {error.strerror}") from error
        check_output(arguments.pictures / "picture.png")


def measure(arguments: argparse.Namespace) -> list[Report]:
    """Return a report for each source and depth, with a line of progress for each."""
    common: dict[str, Any] = {name: getattr(arguments, name) for name in ("data", "batches", "subset", "seed")}
    reports = []
    todo = [(each, depth) for each in arguments.sources for depth in arguments.depths]
    for index, (each, depth) in enumerate(todo, start=1):
        start = time.monotonic()
        if each.is_checkpoint:
            report = inspect_checkpoint(each.path, label=each.label, **common)
        else:
            report = inspect_recipe(each.path, label=each.label, options={**arguments.options, **depth}, **common)
        seconds = time.monotonic() - start
        print(f"{index} of {len(todo)}: {title(report)}, {seconds:.1f} s", file=sys.stderr)
        reports.append(report)
    return reports


def write(arguments: argparse.Namespace, reports: list[Report], about: dict[str, str]) -> None:
    """Write the requested files."""
    if arguments.json is not None:
        write_whole(arguments.json, write_json(reports, about))
    if not (arguments.html or arguments.pictures):
        return
    from deepnmt.inspection.page import page, pictures

    drawn = pictures(reports)
    if arguments.html is not None:
        write_whole(arguments.html, page(reports, about, drawn))
    if arguments.pictures is not None:
        for name, picture in drawn.items():
            write_whole(arguments.pictures / name, picture)


def show(text: str) -> None:
    """Print; a reader such as `head` may stop reading."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
