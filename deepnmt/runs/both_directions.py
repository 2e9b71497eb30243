"""Train one model of both directions, then train it further in the direction of the data.

    SAVE/both/data    DATA, with each training pair also exchanged
    SAVE/both         the training of FIRST on it
    SAVE              the training of RECIPE on DATA, which begins with the last checkpoint in SAVE/both

The model of both directions has no tags: the language of the source tells which translation is wanted.

python -m deepnmt.runs.both_directions RECIPE FIRST DATA SAVE [options of fairseq-train]
"""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# Before the rest of fairseq.
from deepnmt.runs import training

# isort: split
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY

from deepnmt.checkpoints.trained_model import computing_options
from deepnmt.console import program
from deepnmt.errors import UserError
from deepnmt.jobs.child_steps import module, run_process
from deepnmt.jobs.data_job import DataJob
from deepnmt.jobs.job import locked
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS
from deepnmt.options.option_table import option
from deepnmt.preparation.both_ways import BothWays
from deepnmt.recipe.arguments import training_arguments
from deepnmt.recipe.parser import parse, training_parser
from deepnmt.runs.place import Place
from deepnmt.runs.supervision import BOTH, LAST, WITHOUT_LAST

OPTION = "--both-directions"
# They belong to DATA's pairs, or to one of the two trainings; with the others, there is no checkpoint of this name.
REFUSED = ("--pair-weights", "--restore-file", "--checkpoint-suffix", *WITHOUT_LAST)
# Of the model's options: sublayers are skipped in training alone, and positions may be more.
MAY_DIFFER = [f"{stack}_skip" for stack in STACKS] + [f"max_{side}_positions" for side in ("source", "target")]
MAY_DIFFER += ["skip_schedule", "skip_scale"]


def check(recipes: Sequence[Path], options: Sequence[str], place: Place) -> None:
    """Raise `UserError`, with the faults of both trainings, a line each."""
    gpus, faults = torch.cuda.device_count(), list[str]()
    devices = place.nodes * (place.processes or max(gpus, 1))
    words: dict[Path, list[str]] = {}
    for recipe in dict.fromkeys(recipes):
        try:
            words[recipe] = training_arguments(recipe, options, devices, gpus)
        except UserError as error:
            faults += str(error).splitlines()
        else:
            names = {word.partition("=")[0] for word in words[recipe]}
            faults += [f"{name} cannot be combined with {OPTION}" for name in REFUSED if name in names]
    if len(words) > 1 and not faults:
        faults += _model_faults(*words.values())
    if faults:
        raise UserError(*dict.fromkeys(faults))


def _model_faults(*trainings: Sequence[str]) -> Iterator[str]:
    """Yield that a model cannot begin with the other one's parameters, or would compute something else from them.

    fairseq would find out after the other one's training, or not at all.
    """
    models = []
    for words in trainings:
        parsed = parse(training_parser(), words)
        kind = MODEL_DATACLASS_REGISTRY.get(parsed.arch)
        if not (isinstance(kind, type) and issubclass(kind, DLCLTransformerConfig)):
            return
        models.append(computing_options(kind.from_options(parsed)))
    one, other = models
    if names := [option(name) for name in one if one[name] != other[name] and name not in MAY_DIFFER]:
        yield f"--both-recipe must have RECIPE's model, but differs in {', '.join(names)}"


def begin(recipe: Path, first: Path, data: str, save: Path, options: Sequence[str]) -> None:
    """Train the model of both directions, unless that is done, and begin or resume the training in one of them.

    Exits with the status of the first training if that fails.

    Raises:
        UserError: options or data do not match, or SAVE holds another training
    """
    place, both = Place.of_environment(), save / BOTH
    check([recipe, first], options, place)
    if (save / LAST).is_file() and not (both / LAST).is_file():
        raise UserError(f"{save} holds a training that began without {OPTION}; choose another SAVE")
    pairs = BothWays(Path(data))
    record = pairs.record()
    both.mkdir(parents=True, exist_ok=True)
    if place.node == 0:
        training.HELD.enter_context(locked(save, "SAVE"))
    # Of several machines, one makes the folder.
    wait = math.inf if place.nodes > 1 else None
    DataJob(program("train"), both / "data", made_with=record, option="SAVE", wait=wait).make(pairs.make)
    if not (save / LAST).is_file():
        print(f"training a model of both directions in {both}", file=sys.stderr, flush=True)
        words = [first, both / "data", both, *options]
        if status := run_process(module("deepnmt.runs.training", words)):
            sys.exit(status)
    print(f"training it further in {save}", file=sys.stderr, flush=True)
    training.begin(recipe, data, save, [*options, "--finetune-from-model", str(both / LAST)])


def main() -> None:
    """Begin the training that the command line names."""
    recipe, first, data, save, *options = sys.argv[1:]
    begin(Path(recipe), Path(first), data, Path(save), options)


if __name__ == "__main__":
    training.become_fairseq_train(main)
