"""The best path through a confusion network, by the network and by translation models.

    score = w_network sum_s log p_s(w_s) + w_model log P(y | x) + w_length n

n counts subwords and the end symbol. The beam holds prefixes; those that stand in two of its places, reached by leaving
out different slots, become the better one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from deepnmt.reranking.confusion_network import Slot

NETWORK = "network"
Prefix = tuple[str, ...]


@dataclass(frozen=True)
class SearchWeights:
    """Weights of the three parts of a score."""

    network: float = 1.0
    model: float = 1.0
    length: float = 0.0


@dataclass(frozen=True)
class Path:
    """A path, or its beginning.

    Attributes:
        subwords: so far
        network: sum of log p_s
        model: log P of the subwords, and of the end symbol when the path is whole
        length: number of subwords, and the end symbol
    """

    subwords: Prefix
    network: float
    model: float
    length: int

    def score(self, weights: SearchWeights) -> float:
        """Return the weighted sum."""
        return weights.network * self.network + weights.model * self.model + weights.length * self.length


# Prefixes whose log P is needed, and whether with the end symbol; their log P.
Steps = Generator[tuple[list[Prefix], bool], list[float], list[Path]]


def search(slots: Sequence[Slot], weights: SearchWeights, beam: int) -> Steps:
    """Search one network: give prefixes and take their log P, and return the best paths, the best first."""
    active: dict[Prefix, Path] = {(): Path((), 0.0, 0.0, 0)}
    for slot in slots:
        reached: dict[Prefix, Path] = {}
        for path in active.values():
            for word, probability in slot.items():
                if probability > 0:
                    subwords = (*path.subwords, *word)
                    total = path.network + math.log(probability)
                    # Its log P is that of the path before it until the new ones are known.
                    longer = Path(subwords, total, path.model, len(subwords))
                    # Tuned weights may be negative.
                    if subwords not in reached or weights.network * (total - reached[subwords].network) > 0:
                        reached[subwords] = longer
        new = [subwords for subwords in reached if subwords not in active]
        known = {subwords: path.model for subwords, path in active.items()}
        if new:
            known |= zip(new, (yield new, False))
        found = [Path(each.subwords, each.network, known[each.subwords], each.length) for each in reached.values()]
        found.sort(key=lambda path: -path.score(weights))
        active = {path.subwords: path for path in found[:beam]}
    whole = list(active)
    scores = yield whole, True
    ended = [Path(path.subwords, path.network, score, path.length + 1) for path, score in zip(active.values(), scores)]
    return sorted(ended, key=lambda path: -path.score(weights))


Score = Callable[[list[tuple[int, Prefix]], bool], list[float]]


def search_all(networks: Sequence[Sequence[Slot]], weights: SearchWeights, beam: int, score: Score) -> list[list[Path]]:
    """Search several networks at the same time, so that models get larger batches.

    Args:
        networks: of each sentence
        weights: of the score
        beam: prefixes to keep
        score: gives log P of prefixes, each with the number of its sentence
    """
    result: list[list[Path]] = [[] for _ in networks]
    running: dict[int, Steps] = {number: search(slots, weights, beam) for number, slots in enumerate(networks)}
    asked = {number: next(steps) for number, steps in running.items()}
    while asked:
        for ended in (False, True):
            wanted = [
                (number, each) for number, (prefixes, ends) in asked.items() if ends == ended for each in prefixes
            ]
            if not wanted:
                continue
            answers: dict[int, list[float]] = {}
            for (number, _), value in zip(wanted, score(wanted, ended)):
                answers.setdefault(number, []).append(value)
            for number, values in answers.items():
                try:
                    asked[number] = running[number].send(values)
                except StopIteration as done:
                    result[number] = done.value
                    del asked[number]
            break
    return result
