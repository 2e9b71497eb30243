"""The text of a checkpoint's configuration is read, never run."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from deepnmt.checkpoints.untrusted import SAFE_TYPES, forget_embedding_paths, untrusted_faults
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces, sets
from deepnmt.literals import evaluate_literal

# Files that only a training reads, by the group of their options.
OF_TRAININGS = {
    "model": ("fwd_from", "bwd_from"),
    "criterion": ("teacher", "marginals"),
    "task": ("source_lm", "target_lm"),
}


@sets("eval in fairseq's modules", order=50, why="a file must not run a program (issue 4869)")
def evaluate_literals_only() -> None:
    """Put `evaluate_literal` in the place of `eval` in each of fairseq's modules.

    A module's own name hides the built-in one, so that this holds for every place in the module, and a new one too.
    """
    for name, module in list(sys.modules.items()):
        if module is not None and name.partition(".")[0] in ("fairseq", "fairseq_cli"):
            vars(module)["eval"] = evaluate_literal


class UntrustedText(UserError):
    """A checkpoint's configuration holds more than plain values; which checkpoint's is not known yet."""


@replaces(checkpoint_utils, "_upgrade_state_dict", order=10, why="check untrusted values before anything reads them")
def check_before_upgrade(stock: Callable[..., Any], state: dict[str, Any]) -> Any:
    """Check the configuration of a checkpoint before fairseq converts an old one's by composing it with Hydra.

    Raises:
        UntrustedText: with a line for each fault
    """
    faults: list[str] = []
    if state.get("cfg") is not None:
        # Unresolved: reading an interpolation would already expand it.
        faults += untrusted_faults(OmegaConf.to_container(state["cfg"], resolve=False))
    if state.get("args") is not None:
        faults += untrusted_faults(vars(state["args"]))
    if faults:
        raise UntrustedText(*faults)
    return stock(state)


@replaces(checkpoint_utils, "load_checkpoint_to_cpu", order=30, why="name the file of a refused configuration")
def load_untrusted(stock: Callable[..., Any], path: str, arg_overrides: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Load a checkpoint, name the file whose configuration is refused, and forget the paths that it names."""
    try:
        state = stock(path, arg_overrides, *args, **kwargs)
    except UntrustedText as error:
        raise UserError(*(f"{path}: {fault}" for fault in str(error).splitlines())) from None
    if state.get("cfg") is not None:
        given = arg_overrides or {}
        if (model := state["cfg"].get("model")) is not None:
            forget_embedding_paths(model, given)
        for group, names in OF_TRAININGS.items():
            forget_files(state["cfg"].get(group), names, given)
    return state


def forget_files(options: Any, names: Sequence[str], kept: Mapping[str, object]) -> None:
    """Set paths to None, in place: only a training reads them, and that has its own command line.

    Args:
        options: a group of a checkpoint's options
        names: options that are paths
        kept: options that the user has given, which stay
    """
    for name in names:
        if name not in kept and getattr(options, name, None) is not None:
            setattr(options, name, None)


@sets("torch.serialization", order=60, why="reading with weights only refuses fairseq's checkpoints (issue 5610)")
def allow_safe_types() -> None:
    """Allow `SAFE_TYPES` in checkpoints."""
    torch.serialization.add_safe_globals(SAFE_TYPES)
