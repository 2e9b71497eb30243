"""`deepnmt plan`: time and memory of a training before its first update, at several depths."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, program, wholes
from deepnmt.errors import UserError
from deepnmt.recipe import named_recipes

NAME = "plan"
USAGE = "%(prog)s RECIPE DATA [--encoder-layers N,N,...] [--gpu GPU] [--picture FILE] [fairseq-train options]"
DESCRIPTION = """Estimate the parameters, memory and hours of a training before its first update. The command makes ten
updates, with representative batches of DATA. Of several depths it measures the lowest one, and the one nearest to half
of the deepest; if these are the same, the deepest. The other depths lie on a line through these two. In 200 updates at
a depth of 1, the command measures the growth of the process. The last lines are the map's results (docs/depth-map.md)
on the text that is nearest in size."""
EPILOG = """Columns:

    memory      peak of the process, or of the GPU's allocator, in updates with the largest batches
    optimizer   its part for the optimizer's state
    s/update    wall seconds per update; other programs on the machine increase them
    core s      processor seconds per update
    epoch       updates in an epoch
    hours       to the recipe's max-update or max-epoch, with validations; patience may end a training earlier
    max-tokens  estimate of the largest batch that the free memory holds
    from        ten updates at this depth, an estimate, or the line through other depths

The plan is for one device. Memory includes the interpreter and torch, about 0.5 GiB. On the CPU, a training keeps freed
memory, and takes more than this figure (docs/performance.md). The figure is for the environment variable
MALLOC_MMAP_THRESHOLD_=131072, which needs more time per update. OMP_NUM_THREADS works as in deepnmt train.

With --gpu, all figures are estimates for FP16 on a GPU that need not be there. Each operation of the updates takes 10
us, or longer for its products and bytes, at half of the data sheet's rates. Memory is the tensors that exist at once.

example:
  deepnmt plan deep-12 data/de-en --encoder-layers 6,12,24,48"""
DEEPEST = 1000
PICTURES = (".png", ".svg", ".pdf")


def parse(words: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the command line, and the options of fairseq-train."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=USAGE)
    add = parser.add_argument
    add("recipe", metavar="RECIPE", help="name that 'deepnmt recipe' lists, or a YAML file")
    add("data", metavar="DATA", help="folder made by preprocess")
    add("--encoder-layers", type=wholes("--encoder-layers", 1, DEEPEST), default=[], metavar="N,N,...",
        help="encoder depths (default: the recipe's)")  # fmt: skip
    add("--gpu", default="", metavar="GPU", help="GPU to estimate for: t4, v100, rtx3090, rtx4090, a100, h100, h200, "
        "or its GiB of memory, TFLOP/s in FP16 and GB/s, such as 80,312,2039")  # fmt: skip
    add("--picture", type=Path, metavar="FILE", help="picture to write, .png, .svg or .pdf (needs matplotlib)")
    given, options = parser.parse_before_options(words, "fairseq-train")
    if given.picture and given.picture.suffix not in PICTURES:
        raise UserError(f"--picture must end in {', '.join(PICTURES)}, but is '{given.picture}'")
    return given, options


def main(words: Sequence[str] | None = None) -> None:
    """Print the plan that a command line asks for."""
    given, options = parse(words)
    recipe = named_recipes.find(given.recipe)
    from deepnmt.runs import cost_by_depth, map_of_depth  # numpy

    if given.picture:
        cost_by_depth.check_picture(given.picture)
    gains = map_of_depth.read()
    plan = cost_by_depth.plan(recipe, given.data, sorted({*given.encoder_layers}), options, given.gpu)
    if plan.note:
        print(f"warning: memory lacks the growth of the process, which is unknown: {plan.note}", file=sys.stderr)
    if names := cost_by_depth.falling(plan):
        line = f"the line of {' and of '.join(names)} falls with depth"
        print(f"warning: {line}: other programs have disturbed the measurement; run it again", file=sys.stderr)
    source = ("estimate",) if given.gpu else ()
    print("\n".join([*cost_by_depth.table(plan, *source), *cost_by_depth.formula(plan)]))
    pairs = next(iter(plan.costs.values()))["pairs"]
    print("\n".join(map_of_depth.advice(int(pairs), gains)))
    if given.picture:
        cost_by_depth.picture(plan, given.picture)
