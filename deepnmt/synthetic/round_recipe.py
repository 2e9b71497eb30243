"""The recipes of iterative back-translation and distillation: keys, and the requirements for their values."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, TypeVar

from deepnmt.console import as_number
from deepnmt.errors import UserError
from deepnmt.recipe import Option
from deepnmt.recipe.own_keys import OwnKey, number_from

BACK, DISTIL = KINDS = ("back", "distil")


def _is_words(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


@dataclass(frozen=True)
class RoundKey(OwnKey):
    """See `OwnKey`.

    Attributes:
        read: returns the value of a text
        only: the kind of recipe that has the key; empty: both
    """

    read: Callable[[str], Any] = str
    only: str = ""


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


COUNT = ("a whole number of at least 1", number_from(1, 1000))
WORDS = ("options as in a command", _is_words)
KEYS = {
    key.name: key
    for key in (
        RoundKey("kind", (" or ".join(KINDS), KINDS.__contains__)),
        RoundKey("data", read=Path),
        RoundKey("save", read=Path),
        RoundKey("train", read=Path),
        RoundKey("options", WORDS, read=_words),
        RoundKey("average", COUNT, read=int),
        RoundKey("translate", WORDS, read=_words),
        RoundKey("synthesis", WORDS, read=_words),
        RoundKey("rounds", COUNT, read=int),
        RoundKey("min-gain", ("a number of BLEU from 0 to 100", lambda text: 0 <= as_number(text) < 100), read=float),
        RoundKey("mono-source", read=Path, only=BACK),
        RoundKey("mono-target", read=Path, only=BACK),
        RoundKey("upsample", COUNT, read=int, only=BACK),
        RoundKey("students", ("a whole number of at least 2", number_from(2, 100)), read=int, only=DISTIL),
        RoundKey("teacher", only=DISTIL),
    )
}
NEEDED = {BACK: ("data", "save", "train", "mono-source", "mono-target"), DISTIL: ("data", "save", "train", "students")}


Kind = TypeVar("Kind", bound="RoundRecipe")


@dataclass(frozen=True)
class RoundRecipe:
    """A recipe's keys, which `configs/synthetic/` explains."""

    kind: str
    data: Path
    save: Path
    train: Path
    options: tuple[str, ...] = ()
    average: int = 1
    translate: tuple[str, ...] = ()
    synthesis: tuple[str, ...] = ()
    rounds: int = 3
    min_gain: float = 0.1
    mono_source: Optional[Path] = None
    mono_target: Optional[Path] = None
    upsample: int = 1
    students: int = 2
    teacher: str = ""

    @classmethod
    def read(cls: type[Kind], path: Path, options: Mapping[str, Option], given: Mapping[str, str]) -> Kind:
        """Return the contents of a recipe, overridden by the command line's values.

        Args:
            path: path of the recipe
            options: options in the file
            given: keys and values of the command line

        Raises:
            UserError: with a line for each key that is unknown, missing or has an invalid value
        """
        faults = [f"{option}: must be one of {', '.join(KEYS)}, but is '{key}'" for key, option in options.items()
                  if key not in KEYS]  # fmt: skip
        places = {key: str(option) for key, option in options.items()} | {key: f"--{key}" for key in given}
        values = {key: option.value for key, option in options.items()} | dict(given)
        faults += [
            f"{places[name]}: {name} {fault}" for name, key in KEYS.items() if (fault := key.fault(values.get(name)))
        ]
        kind = values.get("kind")
        if kind not in KINDS:
            faults += [] if kind else [f"{path}: kind must be {' or '.join(KINDS)}, but is not given"]
        else:
            faults += [
                f"{places[name]}: {name} is for kind {key.only}, but the kind is {kind}"
                for name, key in KEYS.items()
                if name in values and key.only not in ("", kind)
            ]
            for key in NEEDED[kind]:
                if not values.get(key):
                    other = {"mono-source": "mono-target", "mono-target": "mono-source"}.get(key, "")
                    why = f", as {other} is: each direction needs text of its target" if values.get(other) else ""
                    faults.append(f"{path}: {key} must be given{why}")
        if faults:
            raise UserError(*faults)
        read = {key.replace("-", "_"): KEYS[key].read(value) for key, value in values.items()}
        # As in `extends`, beside the file that names it.
        return cls(**read | ({"train": path.parent / values["train"]} if "train" not in given else {}))

    def identity(self) -> dict[str, str]:
        """Return the inputs and settings of the rounds' folder; the number of rounds and the limit may change."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("save", "rounds", "min_gain"):
            values.pop(name)
        return {name: shlex.join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
