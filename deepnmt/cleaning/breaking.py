"""Pairs with faults put in, of six kinds: what a classifier learns to tell from good pairs, and tests look for.

shuffled     the target is that of another pair
cut          half of the words of one side are gone
copied       the source on both sides, or the target
language     the target is a line of another language: the source of another pair
repeated     one to three words of the target stand there three to five times more
numbers      one number is another; in pairs that have none it is added to one side
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

Pair = tuple[str, str]
DIGITS = re.compile(r"\d+")
# What takes the pair, another one, and random numbers.
Fault = Callable[[Pair, Pair, Random], Pair]


def broken(kind: str, pairs: Sequence[Pair], row: int, seed: object) -> Pair:
    """Return a pair with a fault, always the same for a seed.

    Args:
        kind: one of `FAULTS`
        pairs: from which other ones are taken
        row: of the pair
        seed: of the random numbers
    """
    random = Random(f"{seed} {kind} {row}")
    others = [random.randrange(len(pairs)) for _ in range(4)]
    other = next((place for place in others if place != row), (row + 1) % len(pairs))
    return FAULTS[kind](pairs[row], pairs[other], random)


def _shuffle(pair: Pair, other: Pair, random: Random) -> Pair:
    return pair[0], other[1]


def _cut(pair: Pair, other: Pair, random: Random) -> Pair:
    side = random.randrange(2)
    words = pair[side].split()
    half = " ".join(words[: (len(words) + 1) // 2])
    return (half, pair[1]) if side == 0 else (pair[0], half)


def _copy(pair: Pair, other: Pair, random: Random) -> Pair:
    side = random.randrange(2)
    return pair[side], pair[side]


def _other_language(pair: Pair, other: Pair, random: Random) -> Pair:
    return pair[0], other[0]


def _repeat(pair: Pair, other: Pair, random: Random) -> Pair:
    words = pair[1].split()
    size = random.randint(1, 3)
    start = random.randrange(max(len(words) - size + 1, 1))
    block = words[start : start + size]
    return pair[0], " ".join(words[:start] + block * random.randint(4, 6) + words[start + size :])


def _change_number(pair: Pair, other: Pair, random: Random) -> Pair:
    number = str(random.randint(13, 9999))
    found = list(DIGITS.finditer(pair[1]))
    if found:
        place = random.choice(found)
        if number == place[0]:
            number += "1"
        return pair[0], pair[1][: place.start()] + number + pair[1][place.end() :]
    words = pair[1].split()
    words.insert(random.randint(0, len(words)), number)
    return pair[0], " ".join(words)


FAULTS: Mapping[str, Fault] = {
    "shuffled": _shuffle,
    "cut": _cut,
    "copied": _copy,
    "language": _other_language,
    "repeated": _repeat,
    "numbers": _change_number,
}
