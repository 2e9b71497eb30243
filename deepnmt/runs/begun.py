"""Note in a training's folder what it is begun with, or refuse to take that training for another one.

    python -m deepnmt.runs.begun RECIPE DATA SAVE [options of fairseq-train]

`deepnmt train` resumes from SAVE/checkpoint_last.pt whatever recipe, data and options are now. Where the training has
ended, it makes no update, and the old model's scores would pass for those of the new one.
"""

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from deepnmt import console
from deepnmt.beside import try_lock
from deepnmt.errors import UserError
from deepnmt.recipe import read_recipe, to_arguments
from deepnmt.runs.supervision import LAST
from deepnmt.text.data_record import identity_of_data
from deepnmt.text.record import read_record, sha256, write_record

NOTE, LOCK = "begun.json", "train.lock"
# A training is resumed to be trained further, and what is told of it, or kept, changes no parameter.
ENDS = {"--max-update", "--max-epoch", "--patience", "--cooldown-updates", "--stop-time-hours", "--stop-min-lr"}
TOLD = {"--log-interval", "--log-format", "--log-file", "--no-progress-bar", "--tensorboard-logdir", "--num-workers"}
KEPT = {"--save-interval-updates", "--keep-interval-updates", "--keep-last-epochs"}
CHECKPOINTS = ("--finetune-from-model", "--teacher")
DEFAULTS = {"--seed": "1"}
OPTION = re.compile(r"--?[A-Za-z]")


def options_of(words: Iterable[str]) -> dict[str, str]:
    """Return the values of a command line's options, the last of each; those of flags are empty."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if OPTION.match(word):
            name, _, value = word.partition("=")
            found[name] = value
        else:
            found[name] = f"{found.get(name, '')} {word}".strip()
    return found


def begin(recipe: Path, data: str, save: Path, words: Sequence[str]) -> None:
    """Write the note, or see that a training that has left a checkpoint was begun with the same, as far as is known.

    Raises:
        UserError: it was not, or is still running without a note
    """
    options = DEFAULTS | options_of([*to_arguments(read_recipe(recipe)), *words])
    said = {"DATA": data} | {name: value for name, value in options.items() if name not in ENDS | TOLD | KEPT}
    # Places may change; what is there may not.
    values = said | {"DATA": ":".join(identity_of_data(Path(each)) for each in data.split(":"))}
    for name in CHECKPOINTS:
        paths = [Path(each) for each in said.get(name, "").split(":")]
        # The training says what is wrong with one that is not there.
        if all(path.is_file() for path in paths):
            values[name] = ":".join(map(sha256, paths))
    note = save / NOTE
    if note.exists():
        before = read_record(note, said=dict, values=dict)
        if before["values"] == values:
            return
        if (save / LAST).exists():
            names = sorted(before["values"].keys() | values.keys())
            other = next(name for name in names if before["values"].get(name) != values.get(name))
            raise UserError(
                f"{save} was begun {difference(other, before['said'], said)}; remove it or choose another OUT"
            )
    if is_running(save):
        raise UserError(f"SAVE must not be in use, but another training is still running in '{save}'")
    save.mkdir(parents=True, exist_ok=True)
    with console.whole_file(note) as temporary:
        write_record(temporary, {"said": said, "values": values})


def difference(name: str, before: dict[str, str], now: dict[str, str]) -> str:
    """Return in words how a training was begun, and is not now."""
    old, new = (f"with {name} {each[name]}".rstrip() if name in each else f"without {name}" for each in (before, now))
    return f"{old}, which has changed since" if old == new else f"{old}, not {new}"


def is_running(save: Path) -> bool:
    """Return whether a training has locked its folder."""
    try:
        with (save / LOCK).open("rb") as file:
            return not try_lock(file)
    except FileNotFoundError:
        return False


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("data")
    parser.add_argument("save", type=Path)
    parser.add_argument("options", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    begin(given.recipe, given.data, given.save, given.options)


if __name__ == "__main__":
    console.run(main)
