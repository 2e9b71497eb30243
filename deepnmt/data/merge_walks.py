"""BPE-dropout (Provilkov 2020, ACL, arXiv 1910.13267): the possible cuts of a word, as walks.

A walk begins with the characters of a word. Each step tries the possible merges by ascending rank, equal ones from left
to right, and drops each with probability p. The first merge that is not dropped is made. The walk ends if all are
dropped, or none is possible. So the j-th merge of m, counted from 0, is made with probability

    p^j (1 - p),    and the walk ends with p^m                                                                (39)

One random number decides each step, and numpy takes that step for all words of a text at once. The result of a step is
computed when it is first taken, and remembered.
"""

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deepnmt.text.lines import read_lines
from deepnmt.text.subwords import SEPARATOR, check_codes

END_OF_WORD = "</w>"
MISSING = -1
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def read_merges(codes: Path) -> dict[tuple[str, str], int]:
    """Return the merges in a file of codes and their ranks. Raises `UserError` for an invalid file."""
    check_codes(codes)
    ranks: dict[tuple[str, str], int] = {}
    for rank, line in enumerate(list(read_lines(codes))[1:]):
        first, second = line.strip("\r\n ").split(" ")
        ranks.setdefault((first, second), rank)
    return ranks


class MergeWalks:
    """The states that walks have reached so far; a state is a possible cut of a word, and has a number.

    It takes the ranks of the merges, and the dictionary's numbers by type.
    """

    def __init__(self, ranks: Mapping[tuple[str, str], int], types: Mapping[str, int]) -> None:
        self.ranks, self.types = ranks, types
        self.forget()

    def forget(self) -> None:
        """Drop all states."""
        self.cuts: list[tuple[str, ...]] = []
        self.numbers: dict[tuple[str, ...], int] = {}
        # For each state: the number of possible merges, and the first of its places in `following`.
        self.degrees, self.places = array("q"), array("q")
        # The states after the merges, or MISSING where no walk has made that merge yet.
        self.following = array("q")
        # For each state: the number of its pieces, and the first of their numbers in `pieces`.
        self.lengths, self.starts = array("q"), array("q")
        self.pieces = array("q")

    def start(self, word: str) -> int:
        """Return the state of a word that is cut into characters."""
        return self._state((*word[:-1], word[-1] + END_OF_WORD))

    def fixed(self, pieces: Sequence[int]) -> int:
        """Return a new final state, without further merges, of pieces by their numbers in the dictionary."""
        return self._add((), 0, pieces)

    def merged(self, state: int) -> int:
        """Return the final state of a walk without dropout."""
        while self.degrees[state]:
            state = self._follow(self.places[state], state, 0)
        return state

    def walk(self, states: Integers, rate: float, draw: Callable[[Integers, int], Floats]) -> Integers:
        """Return the final states of walks from `states`, with p = `rate`, above 0 and below 1.

        `draw` returns uniform numbers above 0 and at most 1 for walks, by their numbers, in a step.
        """
        current, walking, step = states.copy(), np.arange(len(states)), 0
        while len(walking):
            choices = np.floor(np.log(draw(walking, step)) / math.log(rate))
            on = choices < _view(self.degrees)[current[walking]]
            walking = walking[on]
            before = current[walking]
            current[walking] = self._follow_all(before, choices[on].astype(np.int64))
            step += 1
        return current

    def pieces_of(self, states: Integers) -> tuple[Integers, Integers]:
        """Return the piece numbers of all the states, one state after the other, and how many each has."""
        lengths = _view(self.lengths)[states]
        ends = np.cumsum(lengths)
        places = np.repeat(_view(self.starts)[states] - (ends - lengths), lengths) + np.arange(lengths.sum())
        return _view(self.pieces)[places], lengths

    def _follow_all(self, states: Integers, choices: Integers) -> Integers:
        """Return the states after the chosen merges."""
        places = _view(self.places)[states] + choices
        new = np.flatnonzero(_view(self.following)[places] == MISSING)
        for place, state, choice in zip(places[new].tolist(), states[new].tolist(), choices[new].tolist()):
            self._follow(place, state, choice)
        following: Integers = _view(self.following)[places]
        return following

    def _follow(self, place: int, state: int, choice: int) -> int:
        """Return the state after a merge, with its place in `following` and its number among the possible merges."""
        if self.following[place] == MISSING:
            cut = self.cuts[state]
            _, position = self._merges(cut)[choice]
            merged = cut[position] + cut[position + 1]
            self.following[place] = self._state((*cut[:position], merged, *cut[position + 2 :]))
        return self.following[place]

    def _merges(self, cut: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return rank and position of each possible merge, in the order of the trials."""
        ranks = self.ranks
        return sorted((ranks[pair], position) for position, pair in enumerate(zip(cut, cut[1:])) if pair in ranks)

    def _state(self, cut: tuple[str, ...]) -> int:
        number = self.numbers.get(cut)
        if number is None:
            *inner, last = cut
            names = [piece + SEPARATOR for piece in inner] + [last.removesuffix(END_OF_WORD)]
            number = self._add(cut, len(self._merges(cut)), [self.types.get(name, MISSING) for name in names])
            self.numbers[cut] = number
        return number

    def _add(self, cut: tuple[str, ...], degree: int, pieces: Sequence[int]) -> int:
        self.cuts.append(cut)
        self.degrees.append(degree)
        self.places.append(len(self.following))
        self.following.extend([MISSING] * degree)
        self.lengths.append(len(pieces))
        self.starts.append(len(self.pieces))
        self.pieces.extend(pieces)
        return len(self.cuts) - 1


def _view(numbers: "array[int]") -> Integers:
    """Return an array's numbers for numpy; while referenced, they prevent the array from growing."""
    return np.frombuffer(numbers, dtype=np.int64) if numbers else np.zeros(0, np.int64)
