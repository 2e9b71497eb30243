"""The same batch for each update, whatever the number of devices.

A recipe says with `batches-per-update` how many batches of at most `max-tokens` tokens, or `batch-size` sentences, make
an update, on all devices together. fairseq deals consecutive batches out in turn, so that B batches an update are the
same sentences on 1, 2 or B devices; beyond B, smaller batches are dealt out.
"""

from deepnmt.errors import UserError
from deepnmt.recipe.recipe_file import Option

BATCHES = "batches-per-update"
# What bounds a batch, and the names that fairseq keeps it under.
BOUNDS = {"max-tokens": "max_tokens", "batch-size": "batch_size", "max-sentences": "batch_size"}
UNITS = {"max_tokens": "tokens", "batch_size": "sentences"}


def share(options: dict[str, Option], devices: int) -> dict[str, Option]:
    """Return a recipe's options with its batches dealt out: `update-freq`, and beyond B devices what bounds a batch.

    Args:
        options: of a recipe
        devices: processes that train together, at least 1

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
    raise UserError(
        f"{batches}: the {number} batches{given and f' of {given}'} of an update must be dealt out evenly, but there "
        f"are {devices} devices; use another number of devices, or give --update-freq and --max-tokens"
    )


def _positive(name: str, option: Option) -> int:
    if not option.value.isdecimal() or len(option.value) > 18 or not int(option.value):
        raise UserError(f"{option}: {name} must be a positive whole number, but is '{option.value}'")
    return int(option.value)
