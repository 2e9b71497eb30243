"""`deepnmt train-lm`: train a language model on one side of a data folder, for --lm-path."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.cli.train import PLACES
from deepnmt.console import Parser, program
from deepnmt.recipe import named_recipes
from deepnmt.runs.supervision import train

NAME = "train-lm"
USAGE = """%(prog)s DATA SAVE --lang LANG [--recipe RECIPE] [--train SUBSET] [--valid SUBSET] [--text DATA2]
                         [fairseq-train options]"""
DESCRIPTION = """Train fairseq's transformer_lm on one language of a data folder, and validate it on the same side of
the validation set. The training can be stopped at any moment; run the same command again to resume."""
EPILOG = f"""All other options go to fairseq-train and override the recipe's. SAVE gets the checkpoints, train.log,
dict.txt (the dictionary of the language), and data/ (links to DATA under the names that fairseq expects).

{PLACES}
example:
  deepnmt train-lm data/de-en checkpoints/lm --lang en
  deepnmt generate average.pt data/de-en results/fused \\
      --lm-path checkpoints/lm/checkpoint_best.pt --lm-weight 0.2"""


def main(words: Sequence[str] | None = None) -> None:
    """Train the language model that a command line describes. Exits with fairseq-train's status if that fails."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=USAGE)
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="folder made by preprocess or binarise")
    add("save", type=Path, metavar="SAVE", help="folder for the checkpoints and train.log")
    add("--lang", required=True, metavar="LANG", help="language to model: the target language of the translations that "
        "the model will help with")  # fmt: skip
    add("--recipe", default="language_model", metavar="RECIPE", help="name that 'deepnmt recipe' lists, or a YAML file "
        "(default: language_model)")  # fmt: skip
    add("--train", default="train", metavar="SUBSET", help="subset to train on (default: train), such as 'mono' of "
        "binarise --mono")  # fmt: skip
    add("--valid", default="valid", metavar="SUBSET", help="subset to validate on (default: valid)")
    add("--text", type=Path, metavar="DATA2", help="folder with the subset of --train and the same dictionary "
        "(default: DATA)")  # fmt: skip
    given, options = parser.parse_before_options(words, "fairseq-train")
    recipe = named_recipes.find(given.recipe, "--recipe")
    # It imports numpy.
    from deepnmt.text.language_model_data import make

    make(given.data, given.save, given.lang, given.train, given.valid, given.text or given.data)
    train(program(NAME), "deepnmt.runs.training", [recipe, given.save / "data", given.save, *options], given.save)
