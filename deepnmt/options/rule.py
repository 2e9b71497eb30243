"""What the value of an option must be: in words, for a message, and as a function."""

from __future__ import annotations

import ast
import contextlib
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from deepnmt.limits import BEAM

# The largest number that fairseq's tensors and counters take.
INT = 2**31 - 1


class Rule(NamedTuple):
    """What a value must be, in words, and whether one is that."""

    words: str
    holds: Callable[[Any], bool]


def whole(low: int, high: int = INT) -> Rule:
    """Return the rule of a whole number in a range."""
    words = f"at least {low} and at most {INT}" if high == INT else f"from {low} to {high}"
    return Rule(words, lambda n: low <= n <= high)


def number(low: float) -> Rule:
    """Return the rule of a finite number of at least `low`."""
    return Rule(f"a finite number of at least {low:g}", lambda x: low <= x < math.inf)


def each(rule: Rule) -> Rule:
    """Return the rule of a list whose numbers are all of a kind."""
    return Rule(f"numbers, each {rule.words}", lambda values: bool(values) and all(map(rule.holds, values)))


def is_betas(value: object) -> bool:
    """Return whether a value is Adam's pair, or the text of one."""
    try:
        value = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    return all(type(part) in (int, float) and 0 <= part < 1 for part in value)


def beam_fits(arguments: object) -> bool:
    """Return whether the arguments of a search during validation are a JSON mapping with a beam of bearable size."""
    beam = json.loads(str(arguments or "{}")).get("beam", 1) if is_json_mapping(arguments) else 0
    return isinstance(beam, int) and 1 <= beam <= BEAM


def is_json_mapping(arguments: object) -> bool:
    """Return whether a text is a mapping in JSON; None is an empty one."""
    try:
        return arguments is None or isinstance(json.loads(str(arguments)), dict)
    except (ValueError, RecursionError):
        return False


def is_increasing(value: object) -> bool:
    """Return whether a list of whole numbers, or the text of one, starts above 0 and increases."""
    try:
        numbers = ast.literal_eval(str(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    numbers = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return all(type(each) is int for each in numbers) and all(low < high for low, high in zip([0, *numbers], numbers))


POSITIVE = Rule("a finite number above 0", lambda x: 0 < x < math.inf)
FINITE = Rule("a finite number", math.isfinite)
SHARE = Rule("at least 0 and below 1", lambda x: 0 <= x < 1)
POSITIVE_SHARE = Rule("above 0 and at most 1", lambda x: 0 < x <= 1)
OFF_OR_MORE = Rule(f"-1 (off), or from 0 to {INT}", lambda n: -1 <= n <= INT)
BETAS = Rule("two numbers of at least 0 and below 1, such as (0.9, 0.98)", is_betas)
INCREASING = Rule("whole numbers that increase, such as 10000,20000", is_increasing)
BEAM_ARGUMENTS = Rule(f'JSON such as {{"beam": 4}}, with a beam from 1 to {BEAM}', beam_fits)
JSON_MAPPING = Rule('JSON such as {"target_lang": "de"}', is_json_mapping)


def holds(rule: Rule, value: object) -> bool:
    """Return whether a value is right; fairseq's command line leaves some numbers as text."""
    with contextlib.suppress(ValueError):
        value = int(value) if isinstance(value, str) else value
    try:
        return rule.holds(value)
    except TypeError:
        return False
