"""`deepnmt finetune`: train a model further on other data, such as pairs that are like the text to translate."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.cli.train import PLACES
from deepnmt.console import Parser, program
from deepnmt.errors import UserError
from deepnmt.runs.supervision import train

NAME = "finetune"
USAGE = "%(prog)s CHECKPOINT DATA SAVE [--old DATA0] [fairseq-train options]"
DESCRIPTION = """Train a model further on other data. Its sizes, rules and label smoothing come from the checkpoint. The
rate is fixed and small (--lr 0.0001), and so are the batches (--max-tokens 1024), for at most 5 epochs. Adam starts
anew. The training can be stopped at any moment; run the same command again to resume from the last checkpoint in SAVE.
A SAVE begun with another CHECKPOINT, with an earlier version of this one, or without any, is refused."""
EPILOG = f"""All other options go to fairseq-train and override the recipe's, such as --lr 0.00005, --max-epoch 3 or
--pair-weights FILE.

{PLACES}
example:
  deepnmt finetune checkpoints/de-en/average.pt data/de-en-news checkpoints/de-en-news"""
DATA = """data folder with the model's dictionaries, such as one made by select; its validation set chooses the best
model"""
FILES = "folder for the checkpoints, train.log, recipe.yaml, and finetune.json, which names the start of the training"
OLD = "data folder whose validation set is also used, as 'old', to show how much of the model's earlier skill is lost"
START = "--finetune-from-model"


def main(words: Sequence[str] | None = None) -> None:
    """Train the model that a command line names. Exits with fairseq-train's status if that fails."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=USAGE)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="model, such as one made by average")
    parser.add_argument("data", type=Path, metavar="DATA", help=DATA)
    parser.add_argument("save", type=Path, metavar="SAVE", help=FILES)
    parser.add_argument("--old", type=Path, metavar="DATA0", help=OLD)
    given, options = parser.parse_before_options(words, "fairseq-train")
    if any(option.partition("=")[0] == START for option in options):
        raise UserError(f"{START} cannot be used here: CHECKPOINT replaces it")
    if not given.checkpoint.is_file():
        raise UserError(f"{given.checkpoint}: CHECKPOINT not found")
    places = [given.checkpoint, given.data, given.save, given.old or ""]
    train(program(NAME), "deepnmt.runs.finetuning", [*places, *options], given.save)
