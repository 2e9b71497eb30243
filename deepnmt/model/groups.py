"""The division of a stack into groups of layers (methods 3): one option spans DLCL, group-dense and plain stacks."""

import re

PLAIN = "none"
# Plain stacks whose outputs the decoder reads; see `transparent.py`.
TOP, TRANSPARENT = "top", "transparent"
# Layers are chained, without connections between groups.
CHAINED = (PLAIN, TOP, TRANSPARENT)


def group_boundaries(groups: str, depth: int) -> tuple[int, ...] | None:
    """Return the first layer of each group and, last, the depth; None for a chain of layers.

    `groups` is one of `CHAINED`, layers per group ("1" is DLCL; the last group may be smaller), or the boundaries
    ("0,6,12,21").

    Raises:
        ValueError: names the required form of `groups` and its value
    """
    if groups in CHAINED:
        return None
    if not re.fullmatch(r"\d+(,\d+)*", groups):
        raise ValueError(f"must be 'none', a group size or boundaries such as '0,6,12', but is '{groups}'")
    numbers = tuple(int(number) for number in groups.split(","))
    if len(numbers) == 1:
        if not 1 <= numbers[0] <= depth:
            raise ValueError(f"must be from 1 to the depth, {depth}, but is {numbers[0]}")
        return (*range(0, depth, numbers[0]), depth)
    if any(low >= high for low, high in zip(numbers, numbers[1:])):
        raise ValueError(f"boundaries must be increasing, but are '{groups}'")
    if numbers[0] != 0 or numbers[-1] != depth:
        raise ValueError(f"boundaries must go from 0 to the depth, {depth}, but are '{groups}'")
    return numbers


def oldest_output(row: int, window: int) -> int:
    """Return the oldest output, from 0, that a row of a history, from 1, reads through a window (0: none)."""
    return max(0, row - window) if window else 0
