"""Print the arguments of fairseq-train that a recipe stands for."""

import argparse
from pathlib import Path

from deepnmt.console import run
from deepnmt.recipe.arguments import training_arguments


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
    parser.add_argument("--devices", type=int, default=1, help="devices that share an update's batches (default: 1)")
    parser.add_argument("--gpus", type=int, help="available GPUs: adds --fp16 or --cpu if the recipe leaves it open")
    known, extra = parser.parse_known_args()
    end = "\n" if known.lines else "\0"
    for argument in training_arguments(known.recipe, extra, known.devices, known.gpus):
        print(argument, end=end)


if __name__ == "__main__":
    # The name that errors have always begun with.
    run(main, "recipe.py")
