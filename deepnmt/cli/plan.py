"""`deepnmt plan`: time and memory of a training before its first update, at several depths."""

import argparse
import sys
from collections.abc import Sequence
from math import isnan
from pathlib import Path

from deepnmt.console import Parser, program
from deepnmt.errors import UserError
from deepnmt.recipe import named_recipes

NAME = "plan"
USAGE = "%(prog)s RECIPE DATA [--encoder-layers N,N,...] [--picture FILE] [fairseq-train options]"
DESCRIPTION = """Estimate the parameters, memory and hours of a training before its first update. The command makes ten
updates, with representative batches of DATA. Of several depths it measures the lowest one, and the one nearest to half
of the deepest; if these are the same, the deepest. The other depths lie on a line through these two. In 200 updates at
a depth of 1, the command measures the growth of the process."""
EPILOG = """Columns:

    memory      peak of the process, or of the GPU's allocator, in updates with the largest batches
    optimizer   its part for the optimizer's state
    s/update    wall seconds per update; other programs on the machine increase them
    core s      processor seconds per update
    hours       to the recipe's max-update or max-epoch, with validations; patience may end a training earlier
    max-tokens  estimate of the largest batch that the free memory holds
    from        ten updates at this depth, or the line through other depths

The plan is for one device. Memory includes the interpreter and torch, about 0.5 GiB. On the CPU, a training keeps freed
memory, and takes more than this figure (docs/performance.md). The figure is for the environment variable
MALLOC_MMAP_THRESHOLD_=131072, which needs more time per update. OMP_NUM_THREADS works as in deepnmt train.

example:
  deepnmt plan deep-12 data/de-en --encoder-layers 6,12,24,48"""
DEEPEST = 1000
PICTURES = (".png", ".svg", ".pdf")


def depths(text: str) -> list[int]:
    """Return the depths of a list, in order. Raises `UserError` for anything else."""
    words = text.split(",")
    if not all(word.isascii() and word.isdecimal() and len(word) < 5 and 1 <= int(word) <= DEEPEST for word in words):
        raise UserError(f"--encoder-layers must be numbers from 1 to {DEEPEST}, such as 6,12,24, but is '{text}'")
    return sorted(set(map(int, words)))


def parse(words: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the command line, and the options of fairseq-train."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=USAGE)
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="name that 'deepnmt recipe' lists, or a YAML file")
    add("data", metavar="DATA", help="folder made by preprocess")
    add("--encoder-layers", type=depths, metavar="N,N,...", help="encoder depths (default: the recipe's)")
    add("--picture", type=Path, metavar="FILE", help="picture to write, .png, .svg or .pdf (needs matplotlib)")
    given, options = parser.parse_before_options(words, "fairseq-train")
    if given.picture and given.picture.suffix not in PICTURES:
        raise UserError(f"--picture must end in {', '.join(PICTURES)}, but is '{given.picture}'")
    return given, options


def main(words: Sequence[str] | None = None) -> None:
    """Print the plan that a command line asks for."""
    given, options = parse(words)
    recipe = named_recipes.find(given.recipe)
    from deepnmt.runs import cost_by_depth as plan  # numpy

    if not given.encoder_layers:
        own = plan.probe(recipe, given.data, None, options)
        given.encoder_layers = [int(own["encoder layers"])]
        measured = {given.encoder_layers[0]: own}
    else:
        measured = {
            depth: plan.probe(recipe, given.data, depth, options) for depth in plan.depths_to_run(given.encoder_layers)
        }
    growth = plan.growth(recipe, given.data, options)
    if isnan(growth):
        print("memory: without its growth, since one encoder layer cannot be trained", file=sys.stderr)
    found = plan.costs(measured, given.encoder_layers, 0.0 if isnan(growth) else growth)
    print("\n".join(plan.table(found, list(measured))))
    if len(measured) > 1:
        print("\n".join(plan.formula(found, list(measured))))
    if given.picture:
        plan.picture(found, list(measured), given.picture)
