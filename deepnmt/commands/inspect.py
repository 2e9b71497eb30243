"""`deepnmt-inspect`: gradients, activations, residual branches and weights of recipes and checkpoints, side by side."""

from __future__ import annotations

import argparse
import logging
import os
import platform
import shlex
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import fairseq
import torch

import deepnmt
from deepnmt.console import Parser, run, whole_file
from deepnmt.errors import UserError
from deepnmt.inspection import Report, inspect_checkpoint, inspect_recipe, summary, table, write_json
from deepnmt.inspection.table import title
from deepnmt.model.stack import STACKS
from deepnmt.reference import add_reference_option

EPILOG = """A recipe is measured as it is built, before its first update; a checkpoint as it was trained. The first
batches of the first epoch are used, of the recipe's or checkpoint's own size, on the CPU, in training mode. The table
goes to the standard output."""


class Source(NamedTuple):
    """A recipe or a checkpoint, and its name in the tables."""

    label: str
    path: Path

    @property
    def is_checkpoint(self) -> bool:
        """By its ending."""
        return self.path.suffix == ".pt"


def main() -> None:
    """The command."""
    run(command, "deepnmt-inspect")


def command() -> None:
    """Check everything, measure, write the files, print."""
    arguments = parse(sys.argv[1:])
    deepnmt.register()
    about = facts(arguments)
    # fairseq reports every step of loading data.
    logging.getLogger().setLevel(logging.WARNING)
    check_outputs(arguments)
    if arguments.html or arguments.pictures:
        from deepnmt.inspection import page  # noqa: F401  says that matplotlib is missing before minutes are spent
    reports = measure(arguments)
    write(arguments, reports, about)
    show("\n\n".join([*map(table, reports), summary(reports)]))


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, with `sources`, `depths` and `options` made of its parts."""
    parser = Parser("deepnmt-inspect", description=__doc__ or "", epilog=EPILOG)
    parser.add_argument(
        "source", nargs="+", help="a recipe (.yaml) or a checkpoint (.pt); LABEL=PATH gives it another name"
    )
    parser.add_argument("--data", type=Path, required=True, help="folder made by fairseq-preprocess")
    parser.add_argument("--batches", type=positive, default=4, help="how many, at most (default: 4)")
    for stack in STACKS:
        parser.add_argument(
            f"--{stack}-layers",
            type=numbers,
            metavar="N,N,...",
            help="build each recipe with each of these depths; the stacks are paired, and one number goes with all",
        )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change an option of the recipes; repeatable"
    )
    parser.add_argument("--subset", default="train", help="of the data (default: train)")
    add_reference_option(parser)
    parser.add_argument(
        "--seed", type=int, default=1, help="of weights, batches and dropout, in place of the recipe's (default: 1)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page of plots and tables there (matplotlib)")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write the plots there as PNG (matplotlib)")
    arguments = parser.parse_args(words)
    arguments.sources = [source(word) for word in arguments.source]
    arguments.options = dict(option(word) for word in arguments.set)
    arguments.depths = depths(arguments)
    labels = [each.label for each in arguments.sources]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"labels must differ, but '{label}' names {labels.count(label)} sources: write LABEL=PATH")
    if arguments.options and all(each.is_checkpoint for each in arguments.sources):
        raise UserError("--set must come with a recipe, but no SOURCE is one")
    return arguments


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, but is {text}")
    return int(text)


def numbers(text: str) -> list[str]:
    """Depths."""
    return [str(positive(part)) for part in text.split(",")]


def source(word: str) -> Source:
    """A recipe or a checkpoint that exists."""
    label, equals, rest = word.partition("=")
    path = Path(rest) if equals and label and not Path(word).exists() else Path(word)
    if not path.is_file():
        raise UserError(f"{path}: SOURCE must be a recipe or a checkpoint, but there is no such file")
    if path.suffix not in (".yaml", ".yml", ".pt"):
        raise UserError(f"{path}: SOURCE must be a recipe (.yaml) or a checkpoint (.pt), but is neither")
    return Source(label if path == Path(rest) else path.stem, path)


def option(word: str) -> tuple[str, str]:
    """A key and a value."""
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise UserError(f"--set must be KEY=VALUE, but is '{word}'")
    return key.removeprefix("--"), value


def depths(arguments: argparse.Namespace) -> list[dict[str, str]]:
    """The options that make each depth of a recipe; one empty entry without any."""
    given = {
        f"{stack}-layers": getattr(arguments, f"{stack}_layers")
        for stack in STACKS
        if getattr(arguments, f"{stack}_layers") is not None
    }
    for name in given:
        for each in arguments.sources:
            if each.is_checkpoint:
                raise UserError(f"--{name} must come with recipes only, but {each.path} is a checkpoint")
        if name in arguments.options:
            raise UserError(f"--set {name} and --{name} exclude each other")
    lengths = {len(values) for values in given.values()} - {1}
    if len(lengths) > 1:
        raise UserError("--decoder-layers must have one number or as many as --encoder-layers, but has others")
    for name, values in given.items():
        given[name] = values * max(lengths) if lengths and len(values) == 1 else values
    return [dict(zip(given, pair)) for pair in zip(*given.values())] or [{}]


def facts(arguments: argparse.Namespace) -> dict[str, str]:
    """What a reader of the results will want to know."""
    return {
        "command": shlex.join(["deepnmt-inspect", *sys.argv[1:]]),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "versions": f"deepnmt {deepnmt.__version__}, fairseq {fairseq.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}",
        "data": f"{arguments.data}, subset {arguments.subset}, at most {arguments.batches} batches",
        "seed": str(arguments.seed),
    }


def check_outputs(arguments: argparse.Namespace) -> None:
    """Refuse what could not be written, before anything is measured."""
    files = [path for path in (arguments.json, arguments.html) if path is not None]
    taken = [os.path.realpath(each.path) for each in arguments.sources]
    for path in files:
        if path.is_dir():
            raise UserError(f"{path}: must be a file to write, but is a folder")
        if os.path.realpath(path) in taken:
            raise UserError(f"{path}: must be a file of its own, but is given twice")
        taken.append(os.path.realpath(path))
        try_to_write(path.parent, path)
    if arguments.pictures is not None:
        try:
            arguments.pictures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make folder {arguments.pictures}: {error.strerror}") from error
        try_to_write(arguments.pictures, arguments.pictures)


def try_to_write(folder: Path, path: Path) -> None:
    """Make a file in a folder for a moment."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def measure(arguments: argparse.Namespace) -> list[Report]:
    """A report for each source and depth, with a line of progress for each."""
    common: dict[str, Any] = {
        "data": arguments.data,
        "batches": arguments.batches,
        "subset": arguments.subset,
        "seed": arguments.seed,
    }
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
    """The files asked for."""
    if arguments.json is not None:
        put(arguments.json, write_json(reports, about).encode())
    if not (arguments.html or arguments.pictures):
        return
    from deepnmt.inspection.page import page, pictures

    drawn = pictures(reports)
    if arguments.html is not None:
        put(arguments.html, page(reports, about, drawn).encode())
    if arguments.pictures is not None:
        for name, picture in drawn.items():
            put(arguments.pictures / name, picture)


def put(path: Path, content: bytes) -> None:
    """Write a whole file."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def show(text: str) -> None:
    """Print; a reader such as `head` may stop reading."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
