"""Note a training's recipe, data and options in its folder, or refuse to take that training for another one.

    python -m deepnmt.runs.begun RECIPE DATA SAVE [options of fairseq-train]

`deepnmt train` resumes from SAVE/checkpoint_last.pt with any recipe, data and options. If the training has ended, it
makes no update, and the old model's scores would pass for the new model's.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.jobs.in_place import InPlace
from deepnmt.recipe import read_recipe, to_arguments
from deepnmt.runs.supervision import LAST, LOCK
from deepnmt.text.data_record import identity_of_data
from deepnmt.text.record import sha256

NOTE, DATA = "begun.json", "DATA"
# A training is resumed to train further, and reports and kept checkpoints change no parameter.
ENDS = {"--max-update", "--max-epoch", "--patience", "--cooldown-updates", "--stop-time-hours", "--stop-min-lr"}
TOLD = {"--log-interval", "--log-format", "--log-file", "--no-progress-bar", "--tensorboard-logdir", "--num-workers"}
KEPT = {"--save-interval-updates", "--keep-interval-updates", "--keep-last-epochs"}
CHECKPOINTS = ("--finetune-from-model", "--teacher")
DEFAULTS = {"--seed": "1"}
OPTION = re.compile(r"--?[A-Za-z]")


def options_of(words: Iterable[str]) -> dict[str, str]:
    """Return the values of a command line's options, the last of each; a flag's value is empty."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if OPTION.match(word):
            name, _, value = word.partition("=")
            found[name] = value
        else:
            found[name] = f"{found.get(name, '')} {word}".strip()
    return found


def described(recipe: Path, data: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the fields of `InPlace` for a training: its recipe, data and options."""
    options = DEFAULTS | options_of([*to_arguments(read_recipe(recipe)), *words])
    said = {DATA: data} | {name: value for name, value in options.items() if name not in ENDS | TOLD | KEPT}
    # Places may change; their contents may not.
    values = said | {DATA: ":".join(identity_of_data(Path(each)) for each in data.split(":"))}
    for name in CHECKPOINTS:
        paths = [Path(each) for each in said.get(name, "").split(":")]
        # The training reports a missing one.
        if all(path.is_file() for path in paths):
            values[name] = ":".join(map(sha256, paths))
    called = {name: f"another {name}" for name in (DATA, *CHECKPOINTS)}
    return {"made_with": {"values": values}, "told": {"said": said}, "called": called}


def begin(recipe: Path, data: str, save: Path, words: Sequence[str]) -> None:
    """Write the note, or see that a training that has left a checkpoint was begun with the same, as far as is known.

    Raises:
        UserError: it was not, or is still running
    """
    with InPlace("deepnmt train", save, NOTE, worth=(LAST,), lock=LOCK, **described(recipe, data, words)).begun():
        pass


def main() -> None:
    """Run the command line."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("data")
    parser.add_argument("save", type=Path)
    parser.add_argument("options", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    begin(given.recipe, given.data, given.save, given.options)


if __name__ == "__main__":
    console.run(main)
