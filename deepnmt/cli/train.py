"""`deepnmt train`: train the model of a recipe."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, program
from deepnmt.recipe import named_recipes
from deepnmt.runs.place import Place
from deepnmt.runs.supervision import train

NAME = "train"
DESCRIPTION = """Train the model of a recipe, on all visible GPUs with FP16, or on the CPU if there is no GPU. The
training can be stopped at any moment; run the same command again to resume from the last checkpoint in SAVE. A recipe's
batches-per-update is divided among all GPUs: an update sees the same sentences on 1, 2, 4 or 8 of them. See
docs/distributed.md."""
PLACES = """environment:
  CUDA_VISIBLE_DEVICES   GPUs to use, as in '0,1'; empty: no GPU.
  OMP_NUM_THREADS        threads on the CPU (default: one per core).
"""
EPILOG = f"""All other options go to fairseq-train and override the recipe's, such as --max-update 1000 or --seed 2.

{PLACES}  PROCESSES              processes on this machine (default: one per visible GPU, or one; also on the CPU).
  NODES                  machines that train together, each running this same command (default: 1).
  NODE                   number of this machine, from 0 (default: Slurm's).
  MASTER                 HOST:PORT of machine 0, if NODES is more than 1.

examples:
  deepnmt train deep-12 data/de-en checkpoints/de-en
  deepnmt train my.yaml data/de-en checkpoints/de-en --max-update 500
  deepnmt train tiny data/de-en checkpoints/de-en --both-directions"""
USAGE = "%(prog)s RECIPE DATA SAVE [--both-directions [--both-recipe RECIPE]] [fairseq-train options]"
DATA = """folder made by preprocess; DATA0:DATA1:... take turns, an epoch each, and the first one has the dictionaries
and the validation text of all"""
BOTH = """first train one model on the pairs in both directions, in SAVE/both, then train it further in DATA's
direction. DATA needs one dictionary for both languages"""


def main(words: Sequence[str] | None = None) -> None:
    """Train the recipe that a command line names. Exits with fairseq-train's status if that fails."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=USAGE)
    parser.add_argument("recipe", metavar="RECIPE", help="name that 'deepnmt recipe' lists, or a YAML file")
    parser.add_argument("data", metavar="DATA", help=DATA)
    parser.add_argument("save", type=Path, metavar="SAVE", help="folder for the checkpoints and train.log")
    parser.add_argument("--both-directions", action="store_true", help=BOTH)
    parser.add_argument(
        "--both-recipe", metavar="RECIPE", help="recipe of the model of both directions (default: RECIPE)"
    )
    parser.needs("--both-recipe", "--both-directions")
    given, options = parser.parse_before_options(words, "fairseq-train")
    recipe = named_recipes.find(given.recipe)
    Place.of_environment()
    module, recipes = "deepnmt.runs.training", [recipe]
    if given.both_directions:
        first = named_recipes.find(given.both_recipe, "--both-recipe") if given.both_recipe else recipe
        module, recipes = "deepnmt.runs.both_directions", [recipe, first]
    train(program(NAME), module, [*recipes, given.data, given.save, *options], given.save)
