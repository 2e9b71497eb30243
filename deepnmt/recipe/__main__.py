"""Print the arguments of fairseq-train that a recipe stands for."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

from deepnmt.console import run
from deepnmt.errors import UserError
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.own_keys import to_arguments, without_replaced
from deepnmt.recipe.ranges import HALF, dashed
from deepnmt.recipe.recipe_file import Option, read_recipe


def main() -> None:
    """Print the arguments of a recipe, each ended by a NUL so that a shell can read them back exactly."""
    parser = argparse.ArgumentParser(
        prog="python -m deepnmt.recipe",
        description=__doc__,
        epilog="Options after RECIPE win over the recipe's.",
        allow_abbrev=False,
    )
    parser.add_argument("recipe", type=Path, help="YAML file, such as configs/demo.yaml")
    parser.add_argument("--lines", action="store_true", help="end each argument by a line feed, to look at")
    parser.add_argument("--devices", type=int, default=1, help="that an update's batches are dealt out to (default: 1)")
    parser.add_argument("--gpus", type=int, help="that there are: adds --fp16 or --cpu where the recipe leaves it open")
    known, extra = parser.parse_known_args()
    options = read_recipe(known.recipe)
    given = [word.split("=")[0][2:] for word in extra if word.startswith("--")]
    with contextlib.redirect_stdout(sys.stderr):
        check_recipe(known.recipe, options, extra)
    options = without_replaced(options, given)
    device = device_options(options, given, known.gpus)
    end = "\n" if known.lines else "\0"
    for argument in [*to_arguments(options, known.devices), *extra, *device]:
        print(argument, end=end)


def device_options(options: dict[str, Option], given: Sequence[str], gpus: Optional[int]) -> list[str]:
    """Return where the training runs and in which precision, as far as recipe and command line leave it open.

    Args:
        options: of the recipe
        given: names of the command line's options
        gpus: that there are; None leaves the precision to fairseq

    Raises:
        UserError: recipe or command line ask for what the machine cannot do
    """
    if gpus is None:
        return []
    on_cpu = "cpu" in given or ("cpu" in options and options["cpu"].value == "true")
    if gpus and not on_cpu:
        # `fp16: false` asks for single precision.
        return [] if any(dashed(name) in (*options, *given) for name in HALF) else ["--fp16"]
    if faults := list(_cpu_faults(options, given, gpus)):
        raise UserError(*faults)
    return [] if on_cpu else ["--cpu"]


def _cpu_faults(options: dict[str, Option], given: Sequence[str], gpus: int) -> Iterator[str]:
    where = "with --cpu" if gpus else "where no GPU is visible"
    for name in ("fp16", "memory-efficient-fp16", "amp"):
        if name in given:
            yield f"--{name} must not be set {where}, but is; --bf16 works there"
        elif name in options and options[name].value == "true":
            yield f"{options[name]}: {name} must not be set {where}, but is; bf16 works there"
    if "cpu" in options and options["cpu"].value == "false" and not gpus:
        yield f"{options['cpu']}: cpu must not be false {where}, but is"


if __name__ == "__main__":
    # The name that errors have always begun with.
    run(main, "recipe.py")
