"""`deepnmt inspect`: gradients, activations, residual branches and weights of recipes and checkpoints, side by side."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from deepnmt.console import Parser, as_number, place, program, whole, wholes
from deepnmt.errors import UserError
from deepnmt.model.stack import STACKS
from deepnmt.recipe import named_recipes
from deepnmt.reference import add_reference_option

THETA, MOST = 0.7, 10_000
DESCRIPTION = "Measure gradients, activations, residual branches and weights of recipes and checkpoints, side by side."
EPILOG = """A recipe is measured as built, before its first update; a checkpoint is measured as trained. The measurement
uses the first batches of the first epoch, of the recipe's or checkpoint's own size, on the CPU, in training mode. The
table goes to the standard output."""


class Source(NamedTuple):
    """A recipe or a checkpoint, and its name in the tables."""

    label: str
    path: Path

    @property
    def is_checkpoint(self) -> bool:
        """Whether the file's ending is .pt."""
        return self.path.suffix == ".pt"


def parse(words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Return the command line, with `sources`, `depths` and `options` made from its parts."""
    parser = Parser(program("inspect"), DESCRIPTION, EPILOG)
    parser.add_argument("source", nargs="+", help="recipe (a name that 'deepnmt recipe' lists, or .yaml) or checkpoint "
        "(.pt); LABEL=PATH or LABEL=NAME gives it another label")  # fmt: skip
    parser.add_argument("--data", type=place, required=True, help="folder made by fairseq-preprocess")
    parser.add_argument("--batches", type=whole("--batches", 1, MOST), default=4, metavar="N", help="maximum number of "
        "batches (default: 4)")  # fmt: skip
    for stack in STACKS:
        name = f"--{stack}-layers"
        parser.add_argument(name, type=wholes(name, 1, MOST), metavar="N,N,...", help="depths to build each recipe "
            "with; the stacks are paired, and one number goes with all")  # fmt: skip
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
        help="option of the recipes to change; repeatable")  # fmt: skip
    parser.add_argument("--subset", default="train", help="subset of the data (default: train)")
    add_reference_option(parser)
    parser.add_argument("--seed", type=whole("--seed", 0, 2**31 - 1), default=1, metavar="S", help="seed of weights, "
        "batches and dropout, in place of the recipe's (default: 1)")  # fmt: skip
    parser.add_argument("--attention-similarity", action="store_true", help="of checkpoints, how alike the decoder's "
        "layers attend, and the blocks for --shared-attention-blocks, in place of all other measures")  # fmt: skip
    parser.add_argument("--theta", type=share, metavar="SHARE", help="with --attention-similarity, least similarity of "
        f"the layers of a block, from 0 to 1 (default: {THETA})")  # fmt: skip
    parser.add_argument("--json", type=place, metavar="FILE", help="file for all numbers")
    parser.add_argument("--html", type=place, metavar="FILE", help="file for a page of plots and tables (matplotlib)")
    parser.add_argument("--pictures", type=place, metavar="FOLDER", help="folder for the plots as PNG (matplotlib)")
    parser.needs("--theta", "--attention-similarity")
    arguments = parser.parse_args(words)
    arguments.words = sys.argv[1:] if words is None else list(words)
    arguments.sources = [source(word) for word in arguments.source]
    arguments.options = dict(option(word) for word in arguments.set)
    arguments.depths = depths(arguments)
    for label, count in Counter(each.label for each in arguments.sources).items():
        if count > 1:
            raise UserError(f"labels must differ, but '{label}' names {count} sources: write LABEL=PATH")
    if arguments.attention_similarity:
        if recipes := [each for each in arguments.sources if not each.is_checkpoint]:
            raise UserError(f"--attention-similarity needs a checkpoint, but {recipes[0].path} is a recipe")
        for name in ("json", "html", "pictures"):
            if getattr(arguments, name) is not None:
                raise UserError(f"--attention-similarity cannot be combined with --{name}")
        arguments.theta = THETA if arguments.theta is None else arguments.theta
    if arguments.options and all(each.is_checkpoint for each in arguments.sources):
        raise UserError("--set needs a recipe among SOURCE")
    return arguments


def share(text: str) -> float:
    """Return the value of --theta. Raises `UserError` unless it is from 0 to 1."""
    value = as_number(text)
    if not 0 <= value <= 1:
        raise UserError(f"--theta must be from 0 to 1, but is '{text}'")
    return value


def source(word: str) -> Source:
    """Return a recipe or a checkpoint, which must exist."""
    label, equals, rest = word.partition("=")
    name = rest if equals and label and not Path(word).exists() else word
    path = named_recipes.find(name, "SOURCE")
    if path.suffix not in (".yaml", ".yml", ".pt"):
        raise UserError(f"{path}: SOURCE must be a recipe (.yaml) or a checkpoint (.pt), but is neither")
    return Source(label if name == rest else path.stem, path)


def option(word: str) -> tuple[str, str]:
    """Return the key and the value of an option."""
    key, equals, value = word.partition("=")
    if not key or not equals:
        raise UserError(f"--set must be KEY=VALUE, but is '{word}'")
    return key.removeprefix("--"), value


def depths(arguments: argparse.Namespace) -> list[dict[str, str]]:
    """Return the options that make each depth of a recipe; one empty entry without any."""
    named = {f"{stack}-layers": getattr(arguments, f"{stack}_layers") for stack in STACKS}
    given = {name: list(map(str, values)) for name, values in named.items() if values is not None}
    for name in given:
        for each in arguments.sources:
            if each.is_checkpoint:
                raise UserError(f"--{name} cannot be combined with a checkpoint, {each.path}")
        if name in arguments.options:
            raise UserError(f"--set {name} cannot be combined with --{name}")
    lengths = {len(values) for values in given.values()} - {1}
    if len(lengths) > 1:
        raise UserError("--decoder-layers must have one number or as many as --encoder-layers, but has others")
    for name, values in given.items():
        given[name] = values * max(lengths) if lengths and len(values) == 1 else values
    return [dict(zip(given, pair)) for pair in zip(*given.values())] or [{}]


def main(words: Optional[Sequence[str]] = None) -> None:
    """Measure the models that a command line names."""
    given = parse(words)
    from deepnmt.inspection.inspected import measure_and_write  # takes longer than --help may

    measure_and_write(given)
