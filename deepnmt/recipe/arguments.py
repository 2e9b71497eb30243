"""The arguments of fairseq-train that a recipe and a command line stand for, together."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

from deepnmt.errors import UserError
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.own_keys import to_arguments, without_replaced
from deepnmt.recipe.ranges import HALF, dashed
from deepnmt.recipe.recipe_file import Option, read_recipe


def training_arguments(recipe: Path, extra: Sequence[str], devices: int = 1, gpus: Optional[int] = None) -> list[str]:
    """Return the arguments, checked.

    Args:
        recipe: YAML file
        extra: the command line's, which win over the recipe's
        devices: that an update's batches are dealt out to
        gpus: that there are: adds --fp16 or --cpu where recipe and command line leave it open; None adds nothing

    Raises:
        UserError: everything that is wrong with recipe and command line, a line each
    """
    options = read_recipe(recipe)
    given = [word.split("=")[0][2:] for word in extra if word.startswith("--")]
    with contextlib.redirect_stdout(sys.stderr):
        check_recipe(recipe, options, extra)
    options = without_replaced(options, given)
    device = device_options(options, given, gpus)
    return [*to_arguments(options, devices), *extra, *device]


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
