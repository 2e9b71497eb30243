"""A checkpoint of a `dlcl_dual` into two checkpoints of one direction each, and back."""

from collections.abc import Iterator
from pathlib import Path

from deepnmt.checkpoints.file import check_target, write
from deepnmt.checkpoints.one_direction import LANGUAGES, of_direction, turned_record
from deepnmt.checkpoints.state import AVERAGES, BEST, PATIENCE, CheckpointState
from deepnmt.checkpoints.trained_model import check_model, computing_options, model_config, option_faults
from deepnmt.errors import UserError
from deepnmt.model.dual import DIRECTIONS, exchanged_options
from deepnmt.options.dual_rules import ARCH


def split_checkpoint(path: Path, forward: Path, backward: Path) -> None:
    """Write both models of a checkpoint as checkpoints of their own.

    Raises:
        UserError: a file is invalid, or the checkpoint does not hold models of both directions
    """
    if forward == backward:
        raise UserError(f"FWD and BWD must be different files, but are both {forward}")
    for target in (forward, backward):
        check_target(path, target)
    state = CheckpointState.of(path)
    check_model(state)
    for direction, target in zip(DIRECTIONS, (forward, backward)):
        write(of_direction(state, direction).contents, target)


def join_checkpoints(forward: Path, backward: Path, output: Path) -> None:
    """Write a checkpoint that begins a training of two models, of one direction each.

    Raises:
        UserError: a file is invalid, or the models differ in more than their direction
    """
    states = []
    for path in (forward, backward):
        check_target(path, output)
        state = CheckpointState.of(path)
        check_model(state)
        model_config(state)  # refuses other models than this package's
        state.check_trained()
        states.append(state)
    fwd, bwd = states
    if faults := list(_differences(fwd, bwd)):
        raise UserError(*faults)
    tensors = {f"{direction}.{name}": each for direction, state in zip(DIRECTIONS, states)
               for name, each in state.tensors().items()}  # fmt: skip
    joined = fwd.with_options({"_name": ARCH}).without(*AVERAGES, PATIENCE, BEST).without_optimizer()
    write(joined.with_models(lambda _: tensors).of_training(None).contents, output)


def _differences(fwd: CheckpointState, bwd: CheckpointState) -> Iterator[str]:
    """Yield what keeps two models from being one model of both directions."""
    there, back = ([state.options("task").get(name) for name in LANGUAGES] for state in (fwd, bwd))
    if back != there[::-1]:
        wanted, found = (" to ".join(map(str, each)) for each in (there[::-1], back))
        yield f"{bwd.name}: must translate {wanted}, but translates {found}"
    own, other = (computing_options(model_config(state)) for state in (fwd, bwd))
    yield from option_faults(bwd, exchanged_options(own), other, fwd.name)
    if None not in (fwd.trained_on(), bwd.trained_on()) and turned_record(fwd.trained_on()) != bwd.trained_on():
        yield f"{bwd.name}: must be of the dictionaries, codes and text settings of {fwd.name}, but is not"
