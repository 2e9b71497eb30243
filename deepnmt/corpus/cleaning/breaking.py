"""Pairs with artificial faults of six kinds: a classifier learns to tell them from good pairs, and tests find them.

shuffled     The target comes from another pair.
cut          Half of the words of one side are missing.
copied       The source is on both sides, or the target.
language     The target is a line of another language: the source of another pair.
repeated     One to three words of the target occur three to five times more.
numbers      One number is another; pairs without numbers get one on one side.

The measures define words: in a language without spaces between words, each sign is one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from deepnmt.text.languages import is_unspaced
from deepnmt.text.words import counted_words

Pair = tuple[str, str]
DIGITS = re.compile(r"\d+")
# Some faults leave some pairs as they are: a cut those with one word a side, a copy those with equal sides.
TRIES = 20


class Words:
    """Takes the lines of a language apart, and puts them together."""

    def __init__(self, language: str) -> None:
        self._language, self._unspaced = language, is_unspaced(language)

    def of(self, line: str) -> list[str]:
        """Return the words of a line, in an unspaced language with the white space after each."""
        if not self._unspaced:
            return counted_words(line, self._language)
        words: list[str] = []
        end = 0
        for word in counted_words(line, self._language):
            start = line.index(word, end)
            if words:
                words[-1] += line[end:start]
            words.append(word)
            end = start + len(word)
        return words

    def line(self, words: Sequence[str]) -> str:
        """Return the line of words."""
        return "".join(words).strip() if self._unspaced else " ".join(words)


# A function of the pair, another pair, the words of both languages, and random numbers.
Fault = Callable[[Pair, Pair, tuple[Words, Words], Random], Pair]


def broken(kind: str, pairs: Sequence[Pair], row: int, seed: object, languages: tuple[str, str] = ("", "")) -> Pair:
    """Return a pair with a fault, always the same for a seed; the pair itself if it cannot have this one.

    The kind is one of `FAULTS`. By default, the languages have spaces between words.
    """
    random = Random(f"{seed} {kind} {row}")
    words = (Words(languages[0]), Words(languages[1]))
    for _ in range(TRIES):
        others = [random.randrange(len(pairs)) for _ in range(4)]
        other = next((place for place in others if place != row), (row + 1) % len(pairs))
        made = FAULTS[kind](pairs[row], pairs[other], words, random)
        if [side.split() for side in made] != [side.split() for side in pairs[row]]:
            return made
    return pairs[row]


def _shuffle(pair: Pair, other: Pair, words: tuple[Words, Words], random: Random) -> Pair:
    return pair[0], other[1]


def _cut(pair: Pair, other: Pair, words: tuple[Words, Words], random: Random) -> Pair:
    side = random.randrange(2)
    whole = words[side].of(pair[side])
    half = words[side].line(whole[: (len(whole) + 1) // 2])
    return (half, pair[1]) if side == 0 else (pair[0], half)


def _copy(pair: Pair, other: Pair, words: tuple[Words, Words], random: Random) -> Pair:
    side = random.randrange(2)
    return pair[side], pair[side]


def _other_language(pair: Pair, other: Pair, words: tuple[Words, Words], random: Random) -> Pair:
    return pair[0], other[0]


def _repeat(pair: Pair, other: Pair, words: tuple[Words, Words], random: Random) -> Pair:
    target = words[1].of(pair[1])
    size = random.randint(1, 3)
    start = random.randrange(max(len(target) - size + 1, 1))
    block = target[start : start + size]
    return pair[0], words[1].line([*target[:start], *block * random.randint(4, 6), *target[start + size :]])


def _change_number(pair: Pair, other: Pair, words: tuple[Words, Words], random: Random) -> Pair:
    number = str(random.randint(13, 9999))
    found = list(DIGITS.finditer(pair[1]))
    if found:
        place = random.choice(found)
        if number == place[0]:
            number += "1"
        return pair[0], pair[1][: place.start()] + number + pair[1][place.end() :]
    target = words[1].of(pair[1])
    target.insert(random.randint(0, len(target)), number)
    return pair[0], words[1].line(target)


FAULTS: Mapping[str, Fault] = {
    "shuffled": _shuffle,
    "cut": _cut,
    "copied": _copy,
    "language": _other_language,
    "repeated": _repeat,
    "numbers": _change_number,
}
