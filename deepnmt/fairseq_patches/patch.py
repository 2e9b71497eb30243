"""The list of everything that the package changes in fairseq and in the process, and the way it is put in place.

    @replaces(checkpoint_utils, "load_checkpoint", order=10, why="...")
    def stop_where_done(stock, cfg, trainer, **options): ...

replaces `checkpoint_utils.load_checkpoint` by `stop_where_done`; `stock` is the earlier function. Several replacements
of one name nest: the higher the order, the further outside. `@sets("...", why="...")` is for the few changes that
replace no function of fairseq's.

`SIGNATURES` records the parameters of each target. If a target has others in the installed fairseq, or is missing,
nothing is replaced and the error names it.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Union

import fairseq
from fairseq.trainer import Trainer

from deepnmt.console import in_commands
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.signatures import SIGNATURES

Owner = Union[type, ModuleType]


@dataclass(frozen=True)
class Replacement:
    """The replacement of `owner.name`; called with the earlier function, then with the call's own arguments."""

    owner: Owner
    name: str
    order: int
    why: str
    function: Callable[..., Any]

    @property
    def target(self) -> str:
        """Return the full name of the target."""
        owner = self.owner
        path = owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
        return f"{path}.{self.name}"

    def fault(self) -> str:
        """Return the fault of the target in the installed fairseq, or an empty text."""
        if not hasattr(self.owner, self.name):
            return f"{self.target} must exist, but does not"
        found, known = signature_of(getattr(self.owner, self.name)), SIGNATURES[self.target]
        start, open_end, _ = known.partition(", ...)")
        if found == known or (open_end and found.startswith(f"{start}, ")):
            return ""
        return f"{self.target} must be called with {known}, but is with {found}"

    def install(self) -> None:
        """Put the function in place."""
        kind = type(inspect.getattr_static(self.owner, self.name))
        stock = getattr(self.owner, self.name)
        if kind is classmethod:
            stock = stock.__func__
        # Of a class, which some of the targets are, only the names are taken over.
        replacement: Any = functools.wraps(stock, updated=())(_given(stock, self.function))
        setattr(self.owner, self.name, kind(replacement) if kind in (classmethod, staticmethod) else replacement)


@dataclass(frozen=True)
class Setting:
    """A change that replaces no function of fairseq's: of the process, of torch or of logging."""

    target: str
    order: int
    why: str
    function: Callable[[], None]
    in_commands: bool = False  # in a program of somebody else's that imports the package, nothing changes

    def install(self) -> None:
        """Make the change."""
        if self.in_commands:
            in_commands(self.function)
        else:
            self.function()


Patch = Union[Replacement, Setting]
_patches: list[Patch] = []
_installed: list[Patch] = []


def _given(stock: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    # A function and no `partial`, so that it becomes a method where it is put into a class.
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return function(stock, *args, **kwargs)

    return replacement


def replaces(owner: Owner, name: str, order: int, why: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as replacement of `owner.name`.

    Args:
        owner: a module or a class
        name: name of a function or class in it
        order: among the replacements of the same name; the highest is outermost
        why: for the table
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        _patches.append(Replacement(owner, name, order, why, function))
        return function

    return declare


def sets(
    target: str, order: int, why: str, in_commands: bool = False
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Declare the decorated function, called once, as a change of `target` that replaces nothing of fairseq's.

    Args:
        target, order, why: as of `replaces`
        in_commands: the change is made where a command runs, and in no other program
    """

    def declare(function: Callable[[], None]) -> Callable[[], None]:
        _patches.append(Setting(target, order, why, function, in_commands))
        return function

    return declare


def trainings_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """Leave a call of `load_checkpoint` or `save_checkpoint` to fairseq where a program's stand-in is the trainer."""

    @functools.wraps(function)
    def of_trainings(stock: Any, cfg: Any, trainer: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(trainer, Trainer):
            return stock(cfg, trainer, *args, **options)
        return function(stock, cfg, trainer, *args, **options)

    return of_trainings


def declared() -> list[Patch]:
    """Return all changes as they are made: settings by their order, then replacements by target and order."""
    return sorted(_patches, key=lambda patch: (patch.target if isinstance(patch, Replacement) else "", patch.order))


def install_declared() -> None:
    """Make all changes that have not been made yet.

    Raises:
        UserError: a target is missing or has another signature, a line each; then nothing is replaced
    """
    new = [patch for patch in declared() if patch not in _installed]
    # Before the targets are checked, since a setting shows errors in one line.
    for patch in new:
        if isinstance(patch, Setting):
            _install(patch)
    faults = list(_faults(new))
    if faults:
        raise UserError(*faults)
    for patch in new:
        if isinstance(patch, Replacement):
            _install(patch)


def _install(patch: Patch) -> None:
    patch.install()
    _installed.append(patch)


def _faults(patches: list[Patch]) -> Iterator[str]:
    for fault in dict.fromkeys(patch.fault() for patch in patches if isinstance(patch, Replacement)):
        if fault:
            yield (
                f"fairseq {fairseq.__version__}: {fault}; deepnmt changes this function and knows ve-fairseq 0.12.3 "
                "and fairseq-fixed 0.12.3.1: install one of them"
            )


def signature_of(function: Callable[..., Any]) -> str:
    """Return the parameters' names and defaults, without annotations; a replacement shows its target's."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
