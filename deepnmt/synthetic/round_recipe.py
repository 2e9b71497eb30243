"""The recipes of iterative back-translation and distillation: keys, and what their values must be."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, TypeVar

from deepnmt.errors import UserError
from deepnmt.recipe import Option
from deepnmt.recipe.own_keys import OwnKey, number_from

BACK, DISTIL = KINDS = ("back", "distil")


def _is_gain(text: str) -> bool:
    try:
        return 0 <= float(text) < 100
    except ValueError:
        return False


def _is_words(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


COUNT = ("a whole number of at least 1", number_from(1, 1000))
WORDS = ("options as in a command", _is_words)
KEYS = {
    key.name: key
    for key in (
        OwnKey("kind", (" or ".join(KINDS), KINDS.__contains__)),
        OwnKey("data"),
        OwnKey("save"),
        OwnKey("train"),
        OwnKey("options", WORDS),
        OwnKey("average", COUNT),
        OwnKey("translate", WORDS),
        OwnKey("synthesis", WORDS),
        OwnKey("rounds", COUNT),
        OwnKey("min-gain", ("a number of BLEU from 0 to 100", _is_gain)),
        OwnKey("mono-source"),
        OwnKey("mono-target"),
        OwnKey("upsample", COUNT),
        OwnKey("students", ("a whole number of at least 2", number_from(2, 100))),
        OwnKey("teacher"),
    )
}
ONLY = {"mono-source": BACK, "mono-target": BACK, "upsample": BACK, "students": DISTIL, "teacher": DISTIL}
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
        """Return what a recipe says, where the command line's values win.

        Args:
            path: of the recipe
            options: in the file
            given: keys and values of the command line

        Raises:
            UserError: with a line for each key that is unknown, missing or has another value
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
            for key, of in ONLY.items():
                if key in values and kind != of:
                    faults.append(f"{places[key]}: {key} is for kind {of}, but the kind is {kind}")
            for key in NEEDED[kind]:
                if not values.get(key):
                    other = {"mono-source": "mono-target", "mono-target": "mono-source"}.get(key, "")
                    why = f", as {other} is: each direction needs text of its target" if values.get(other) else ""
                    faults.append(f"{path}: {key} must be given{why}")
        if faults:
            raise UserError(*faults)
        # As in `extends`, beside the file that names it.
        train = path.parent / values["train"] if "train" in options and "train" not in given else Path(values["train"])
        return cls(
            kind=values["kind"],
            data=Path(values["data"]),
            save=Path(values["save"]),
            train=train,
            options=tuple(shlex.split(values.get("options", ""))),
            average=int(values.get("average", cls.average)),
            translate=tuple(shlex.split(values.get("translate", ""))),
            synthesis=tuple(shlex.split(values.get("synthesis", ""))),
            rounds=int(values.get("rounds", cls.rounds)),
            min_gain=float(values.get("min-gain", cls.min_gain)),
            mono_source=Path(values["mono-source"]) if "mono-source" in values else None,
            mono_target=Path(values["mono-target"]) if "mono-target" in values else None,
            upsample=int(values.get("upsample", cls.upsample)),
            students=int(values.get("students", cls.students)),
            teacher=values.get("teacher", ""),
        )

    def identity(self) -> dict[str, str]:
        """Return what the folder of the rounds is made from; the number of rounds and the limit may change."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("save", "rounds", "min_gain"):
            values.pop(name)
        return {name: shlex.join(value) if isinstance(value, tuple) else str(value) for name, value in values.items()}
