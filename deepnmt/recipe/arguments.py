"""The arguments of fairseq-train that a recipe and a command line stand for, together."""

import contextlib
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.options.option_table import dashed
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.combinations import HALF
from deepnmt.recipe.own_keys import BATCHES, BOUNDS, to_arguments, without_own, without_replaced
from deepnmt.recipe.parser import inverted_flags
from deepnmt.recipe.recipe_file import Option, read_recipe


def training_arguments(recipe: Path, extra: Sequence[str], devices: int = 1, gpus: int | None = None) -> list[str]:
    """Return the arguments, checked.

    Args:
        recipe: YAML file
        extra: the command line's, which win over the recipe's
        devices: the processes that share the batches of an update
        gpus: number of GPUs: adds --fp16 or --cpu where recipe and command line leave it open; None adds nothing

    Raises:
        UserError: all faults of recipe and command line, a line each
    """
    options = read_recipe(recipe)
    given = [word.split("=")[0][2:] for word in extra if word.startswith("--")]
    if devices < 1:
        raise UserError(f"--devices must be at least 1, but is {devices}")
    with contextlib.redirect_stdout(sys.stderr):
        parsed = check_recipe(recipe, options, extra)
        inverted = inverted_flags(parsed)
    options = without_replaced(options, given)
    device = device_options(options, given, gpus)
    if BATCHES not in options:
        return [*to_arguments(options, inverted=inverted), *extra, *device]
    # Bounds from the command line are divided among devices too, and replace the recipe's.
    bounds = _given_bounds(given, parsed)
    won = {BOUNDS[name] for name in bounds}
    recipes = {name: option for name, option in options.items() if BOUNDS.get(name) not in won}
    shared = without_own(recipes | bounds, devices)
    # fairseq takes the last value of several.
    again = [f"--{name}={shared[name].value}" for name in bounds if shared[name] != bounds[name]]
    recipes = {name: shared[name] for name in shared if name not in bounds}
    return [*to_arguments(recipes, inverted=inverted), *extra, *again, *device]


def _given_bounds(given: Sequence[str], parsed: Namespace) -> dict[str, Option]:
    """Return the bounds on batches that the command line gives, by their last names there."""
    names = {BOUNDS[name]: name for name in given if name in BOUNDS}
    return {name: Option(str(getattr(parsed, dest))) for dest, name in names.items()}


def device_options(options: dict[str, Option], given: Sequence[str], gpus: int | None) -> list[str]:
    """Return the device and the precision of the training, as far as recipe and command line leave them open.

    Without a number of GPUs, fairseq chooses the precision.

    Raises:
        UserError: recipe or command line exceed the machine's abilities
    """
    if gpus is None:
        return []
    on_cpu = "cpu" in given or ("cpu" in options and options["cpu"].value == "true")
    if gpus and not on_cpu:
        # `fp16: false` requests single precision; another precision's `false` requests nothing.
        chosen = {*given, *(name for name, option in options.items() if name == "fp16" or option.value == "true")}
        return [] if chosen.intersection(map(dashed, HALF)) else ["--fp16"]
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
