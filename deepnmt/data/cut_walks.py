"""Random cuts of words, as walks through states, which numpy takes for all words of a text at once.

A walk begins with a word. One random number decides each step. The result of a step is computed when it is first taken,
and remembered. The state at the end of a walk is a cut of the word.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

MISSING = -1
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Walks(ABC):
    """The states that walks have reached so far; a state has a number. `types` are the dictionary's numbers by type.

    Attributes:
        option: option of a training that requests such cuts
    """

    option: ClassVar[str]

    def __init__(self, types: Mapping[str, int]) -> None:
        self.types = types
        self.forget()

    def forget(self) -> None:
        """Drop all states."""
        self.cuts: list[Any] = []
        self.numbers: dict[Any, int] = {}
        # For each state: the number of possible steps, and the first of its places in `following`.
        self.degrees, self.places = array("q"), array("q")
        # The states after the steps, or MISSING where no walk has made that step yet.
        self.following = array("q")
        # For each state: the number of its pieces, and the first of their numbers in `pieces`.
        self.lengths, self.starts = array("q"), array("q")
        self.pieces = array("q")

    @abstractmethod
    def start(self, word: str) -> int:
        """Return the state with which a word's walks begin."""

    @abstractmethod
    def plain(self, word: str) -> int:
        """Return the final state of a word's cut without sampling; its pieces may be MISSING in the dictionary."""

    @abstractmethod
    def _chosen(self, states: Integers, draws: Floats) -> Integers:
        """Return the numbers of the steps that uniform numbers choose; a walk ends with one that is not possible."""

    @abstractmethod
    def _after(self, state: int, choice: int) -> int:
        """Return the state after a step that no walk has made yet."""

    def fixed(self, pieces: Sequence[int]) -> int:
        """Return a new final state, without further steps, of pieces by their numbers in the dictionary."""
        return self._add((), 0, pieces)

    def walk(self, states: Integers, draw: Callable[[Integers, int], Floats]) -> Integers:
        """Return the final states of walks from `states`.

        `draw` returns uniform numbers above 0 and at most 1 for walks, by their numbers, in a step.
        """
        current, walking, step = states.copy(), np.arange(len(states)), 0
        while len(walking):
            choices = self._chosen(current[walking], draw(walking, step))
            on = choices < view(self.degrees)[current[walking]]
            walking = walking[on]
            before = current[walking]
            current[walking] = self._follow_all(before, choices[on].astype(np.int64))
            step += 1
        return current

    def pieces_of(self, states: Integers) -> tuple[Integers, Integers]:
        """Return the piece numbers of all the states, one state after the other, and how many each has."""
        lengths = view(self.lengths)[states]
        ends = np.cumsum(lengths)
        places = np.repeat(view(self.starts)[states] - (ends - lengths), lengths) + np.arange(lengths.sum())
        return view(self.pieces)[places], lengths

    def _follow_all(self, states: Integers, choices: Integers) -> Integers:
        """Return the states after the chosen steps."""
        places = view(self.places)[states] + choices
        new = np.flatnonzero(view(self.following)[places] == MISSING)
        for place, state, choice in zip(places[new].tolist(), states[new].tolist(), choices[new].tolist()):
            self._follow(place, state, choice)
        following: Integers = view(self.following)[places]
        return following

    def _follow(self, place: int, state: int, choice: int) -> int:
        """Return the state after a step, with its place in `following` and its number among the possible steps."""
        if self.following[place] == MISSING:
            self.following[place] = self._after(state, choice)
        return self.following[place]

    def _add(self, cut: Any, degree: int, pieces: Sequence[int]) -> int:
        self.cuts.append(cut)
        self.degrees.append(degree)
        self.places.append(len(self.following))
        self.following.extend([MISSING] * degree)
        self.lengths.append(len(pieces))
        self.starts.append(len(self.pieces))
        self.pieces.extend(pieces)
        return len(self.cuts) - 1


def view(numbers: "array[Any]", kind: type = np.int64) -> npt.NDArray[Any]:
    """Return an array's numbers for numpy; while referenced, they prevent the array from growing."""
    return np.frombuffer(numbers, dtype=kind) if numbers else np.zeros(0, kind)
