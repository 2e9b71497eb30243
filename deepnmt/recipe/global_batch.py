"""The same batch for each update, whatever the number of devices.

A recipe says with `batches-per-update` how many batches of at most `max-tokens` tokens make an update, on all devices
together. fairseq deals consecutive batches out in turn, so that B batches an update are the same sentences on 1, 2 or B
devices; beyond B, smaller batches are dealt out.
"""

from __future__ import annotations

from deepnmt.errors import UserError
from deepnmt.recipe.recipe_file import Option

BATCHES = "batches-per-update"


def share(options: dict[str, Option], devices: int) -> dict[str, Option]:
    """Return a recipe's options with its batches dealt out: `update-freq`, and beyond B devices `max-tokens`.

    Args:
        options: of a recipe
        devices: processes that train together

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
    tokens = options.get("max-tokens")
    if devices % number == 0 and tokens is not None:
        size, uneven = divmod(_positive("max-tokens", tokens), devices // number)
        if not uneven:
            return {**rest, "max-tokens": tokens._replace(value=str(size)), "update-freq": batches._replace(value="1")}
    size_given = f" of {tokens.value} tokens" if tokens else ""
    raise UserError(
        f"{batches}: the {number} batches{size_given} of an update must be dealt out evenly, but there are {devices} "
        "devices; use another number of devices, or give --update-freq and --max-tokens"
    )


def _positive(name: str, option: Option) -> int:
    if not option.value.isdecimal() or len(option.value) > 18 or not int(option.value):
        raise UserError(f"{option}: {name} must be a positive whole number, but is '{option.value}'")
    return int(option.value)
