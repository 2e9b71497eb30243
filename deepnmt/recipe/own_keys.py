"""The keys of recipes that are not fairseq's: a new one is an entry of a table.

`OWN_KEYS` has the keys of every training, which become options of fairseq. Keys of progressive training stand in
`deepnmt.progressive.stages.STAGE_KEYS`; `extends` and `stages` are no options but a recipe's form (recipe_file.py).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Callable, Optional

from deepnmt.recipe.global_batch import BATCHES, share
from deepnmt.recipe.recipe_file import Option


@dataclass(frozen=True)
class OwnKey:
    """A key of our own.

    Attributes:
        name: as written in a recipe
        must: what its value must be, in words, and whether a text is that
        options: the options of fairseq that a recipe with this key has instead, for a number of devices
        yields_to: options of the command line that take its place
    """

    name: str
    must: Optional[tuple[str, Callable[[str], bool]]] = None
    options: Optional[Callable[[dict[str, Option], int], dict[str, Option]]] = None
    yields_to: tuple[str, ...] = ()

    def fault(self, value: Optional[str]) -> Optional[str]:
        """Return what is wrong with a value, to stand after the key's name; None where it is right or absent."""
        if value is None or self.must is None or self.must[1](value):
            return None
        return f"must be {self.must[0]}, but is {value}"


def number_from(low: int, high: int = 2**31 - 1) -> Callable[[str], bool]:
    """Return the test of whether a text is a whole number in a range."""
    return lambda text: text.isdecimal() and len(text) < 20 and low <= int(text) <= high


OWN_KEYS = {key.name: key for key in (OwnKey(BATCHES, options=share, yields_to=("update-freq",)),)}


def without_replaced(options: Mapping[str, Option], given: Collection[str]) -> dict[str, Option]:
    """Return a recipe's options without the keys of our own whose place the command line's options take.

    Args:
        options: of a recipe
        given: names of the command line's options
    """
    replaced = {key.name for key in OWN_KEYS.values() if any(name in given for name in key.yields_to)}
    return {name: option for name, option in options.items() if name not in replaced}


def to_arguments(options: Mapping[str, Option], devices: int = 1, inverted: Collection[str] = ()) -> list[str]:
    """Return command-line arguments: `true` makes a flag, `false` and an empty value leave the option out.

    Args:
        options: of a recipe
        devices: that the batches of an update are dealt out to, see `share`
        inverted: names of flags that switch something off, see `deepnmt.recipe.parser.inverted_flags`
    """
    arguments: list[str] = []
    for key, option in without_own(options, devices).items():
        if option.value == ("false" if key in inverted else "true"):
            arguments.append(f"--{key}")
        elif option.value not in ("true", "false", ""):
            # The form with "=" keeps a value that starts with a minus sign a value.
            arguments.append(f"--{key}={option.value}")
    return arguments


def without_own(options: Mapping[str, Option], devices: int = 1) -> dict[str, Option]:
    """Return a recipe's options with fairseq's in the place of our own."""
    result = dict(options)
    for key in OWN_KEYS.values():
        if key.name in result and key.options is not None:
            result = key.options(result, devices)
    return result
