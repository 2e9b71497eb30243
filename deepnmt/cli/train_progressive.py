"""`deepnmt train-progressive`: train a shallow model first, then grow and train it, stage by stage."""

import os
from collections.abc import Sequence
from pathlib import Path

from deepnmt.cli.train import DATA, PLACES
from deepnmt.console import Parser, listable, program
from deepnmt.errors import UserError
from deepnmt.recipe import named_recipes

USAGE = "%(prog)s RECIPE DATA SAVE [fairseq-train options]"
DESCRIPTION = """Run all stages of a recipe. The first stage trains a model. Each later one grows the last checkpoint
before it into a deeper model, resets the learning rate to its peak, and trains that. All stages are checked before the
first one starts. The training can be stopped at any moment, in a stage or between two; run the same command again to
resume, with the same result. Another recipe is refused, and so is data made anew with other text or subwords."""
EPILOG = f"""All other options, such as --seed 2, go to fairseq-train and override the recipe's in every stage.

SAVE gets:
  stage-N-DEPTH/   checkpoints, train.log, translations of the validation set (valid/), and stage.json.
  stages.tsv       a line per stage: depth, updates, best validation by best-checkpoint-metric, BLEU.
  tensorboard/     one curve over all stages.

{PLACES}
example:
  deepnmt train-progressive progressive/multi30k data/multi30k checkpoints/multi30k/progressive"""


def main(words: Sequence[str] | None = None) -> None:
    """Train the stages of a recipe that a command line names. Exits with the status of the step that fails."""
    parser = Parser(program("train-progressive"), DESCRIPTION, EPILOG, usage=USAGE)
    recipes = "name that 'deepnmt recipe' lists, or a YAML file, with a list of stages"
    parser.add_argument("recipe", metavar="RECIPE", help=recipes)
    parser.add_argument("data", metavar="DATA", help=DATA)
    parser.add_argument("save", type=listable("SAVE"), metavar="SAVE", help="folder for all results")
    given, options = parser.parse_before_options(words, "fairseq-train")
    recipe = named_recipes.find(given.recipe)
    for folder in given.data.split(os.pathsep):
        if not Path(folder).is_dir():
            raise UserError(f"{folder}: not found; DATA must be a folder made by deepnmt preprocess")
    # It imports fairseq.
    from deepnmt.progressive.stage_runs import run

    try:
        run(recipe, given.data, given.save, options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("resume with the first stage that is not done") from None
