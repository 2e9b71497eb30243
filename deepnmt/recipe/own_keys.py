"""The keys of recipes that are not fairseq's: a new one is an entry of a table.

`OWN_KEYS` has the keys of every training, which become options of fairseq. Keys of progressive training are in
`deepnmt.progressive.stages.STAGE_KEYS`; `extends` and `stages` are no options but a recipe's form (recipe_file.py).

With `batches-per-update` an update has the same batch, whatever the number of devices. It is the number of batches of
at most `max-tokens` tokens, or `batch-size` sentences, in an update, on all devices together. fairseq distributes
consecutive batches in turn: B batches per update are the same sentences on 1, 2 or B devices. Beyond B, smaller batches
are distributed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from deepnmt.errors import UserError
from deepnmt.recipe.recipe_file import Option

BATCHES = "batches-per-update"
# Bounds of a batch, and fairseq's names for them.
BOUNDS = {"max-tokens": "max_tokens", "batch-size": "batch_size", "max-sentences": "batch_size"}
UNITS = {"max_tokens": "tokens", "batch_size": "sentences"}


def share(options: dict[str, Option], devices: int) -> dict[str, Option]:
    """Return a recipe's options with its batches dealt out to at least 1 device.

    They have `update-freq` and, beyond B devices, other bounds of a batch.

    Raises:
        UserError: `batches-per-update` is no positive number, stands beside `update-freq`, or the devices cannot get
            equal shares
    """
    if BATCHES not in options:
        return options
    rest = {name: option for name, option in options.items() if name != BATCHES}
    batches = options[BATCHES]
    if "update-freq" in options:
        raise UserError(f"{options['update-freq']}: update-freq must not stand beside {BATCHES} ({batches}), but does")
    number = _positive(BATCHES, batches)
    if number % devices == 0:
        return {**rest, "update-freq": batches._replace(value=str(number // devices))}
    bounds = {name: option for name, option in options.items() if name in BOUNDS and option.value not in ("", "false")}
    sizes = {name: _positive(name, option) for name, option in bounds.items()}
    factor, uneven = divmod(devices, number)
    if not uneven and sizes and all(size % factor == 0 for size in sizes.values()):
        shares = {name: bounds[name]._replace(value=str(size // factor)) for name, size in sizes.items()}
        return {**rest, **shares, "update-freq": batches._replace(value="1")}
    given = " and ".join(f"{size} {UNITS[BOUNDS[name]]}" for name, size in sizes.items())
    must = f"the {number} batches{given and f' of {given}'} of an update must be dealt out evenly"
    remedy = "Use another number of devices, or give --update-freq and --max-tokens"
    raise UserError(f"{batches}: {must}, but there are {devices} devices. {remedy}")


def _positive(name: str, option: Option) -> int:
    if not option.value.isdecimal() or len(option.value) > 18 or not int(option.value):
        raise UserError(f"{option}: {name} must be a positive whole number, but is '{option.value}'")
    return int(option.value)


@dataclass(frozen=True)
class OwnKey:
    """A key of our own.

    Attributes:
        name: name as written in a recipe
        must: requirement for its value in words, and a check of a text against it
        options: the options of fairseq that a recipe with this key has instead, for a number of devices
        yields_to: options of the command line that take its place
    """

    name: str
    must: tuple[str, Callable[[str], bool]] | None = None
    options: Callable[[dict[str, Option], int], dict[str, Option]] | None = None
    yields_to: tuple[str, ...] = ()

    def fault(self, value: str | None) -> str | None:
        """Return the fault of a value, to follow the key's name; None if it is right or absent."""
        if value is None or self.must is None or self.must[1](value):
            return None
        return f"must be {self.must[0]}, but is {value}"


def number_from(low: int, high: int = 2**31 - 1) -> Callable[[str], bool]:
    """Return the test of whether a text is a whole number in a range."""
    return lambda text: text.isdecimal() and len(text) < 20 and low <= int(text) <= high


OWN_KEYS = {key.name: key for key in (OwnKey(BATCHES, options=share, yields_to=("update-freq",)),)}


def without_replaced(options: Mapping[str, Option], given: Collection[str]) -> dict[str, Option]:
    """Return a recipe's options without the keys of our own whose place the command line's options, by name, take."""
    replaced = {key.name for key in OWN_KEYS.values() if any(name in given for name in key.yields_to)}
    return {name: option for name, option in options.items() if name not in replaced}


def to_arguments(options: Mapping[str, Option], devices: int = 1, inverted: Collection[str] = ()) -> list[str]:
    """Return command-line arguments: `true` makes a flag, `false` and an empty value leave the option out.

    `share` deals the batches out to the devices; `deepnmt.recipe.parser.inverted_flags` returns the inverted flags.
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
