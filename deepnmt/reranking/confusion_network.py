"""A confusion network of the translations of a sentence (Rosti 2007, N07-1029): slots of words to choose from.

One translation is the skeleton. All others are aligned to it word by word, so that each is a path: one word, or none,
from each slot. In a slot, a word's probability is the sum over the translations that have it there.

    p_s(w) = sum of P(y) over the translations y with w in slot s

Words with the same text are the same word, however they are cut. In a language without spaces, subwords join to
clauses, so each subword counts as a word. Models write nothing smaller, and joins do not show in the text.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from deepnmt.text.languages import is_unspaced
from deepnmt.text.subwords import SEPARATOR, byte_of

# A word is its subwords, with no subwords where a translation has nothing in a slot.
Word = tuple[str, ...]
NOTHING: Word = ()
# Bytes that do not begin a character.
CONTINUATION = range(0x80, 0xC0)
Slot = dict[Word, float]
NETWORK = "network"
Prefix = tuple[str, ...]


def words_of(subwords: str, language: str = "") -> list[Word]:
    """Return the words of a line of subwords of a language; by default one with spaces between words."""
    unspaced = is_unspaced(language)
    words: list[list[str]] = []
    before = ""
    for subword in subwords.split():
        # The bytes of a character stay together.
        joins = byte_of(subword) in CONTINUATION and byte_of(before) >= 0 if unspaced else before.endswith(SEPARATOR)
        if joins:
            words[-1].append(subword)
        else:
            words.append([subword])
        before = subword
    return [tuple(word) for word in words]


def text_of(word: Word) -> str:
    """Return the text of a word, by which words are compared."""
    return "".join(subword.removesuffix(SEPARATOR) for subword in word)


def align(skeleton: Sequence[Word], other: Sequence[Word]) -> list[tuple[int, Word]]:
    """Return the words of a translation with their places: 2 i + 1 at word i of the skeleton, 2 i before it.

    The alignment minimises the words that are exchanged, inserted or left out. Among equal ones, the words stand
    furthest to the left.
    """
    rows, columns = len(skeleton), len(other)
    left, right = [list(map(text_of, words)) for words in (skeleton, other)]
    # What is left to do from word i of the skeleton and word j of the other on.
    cost = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows, -1, -1):
        for j in range(columns, -1, -1):
            if i == rows or j == columns:
                cost[i][j] = rows - i + columns - j
            else:
                both = cost[i + 1][j + 1] + (left[i] != right[j])
                cost[i][j] = min(both, 1 + cost[i + 1][j], 1 + cost[i][j + 1])
    i = j = 0
    placed = []
    while j < columns:
        if i < rows and cost[i][j] == cost[i + 1][j + 1] + (left[i] != right[j]):
            placed.append((2 * i + 1, other[j]))
            i, j = i + 1, j + 1
        elif cost[i][j] == 1 + cost[i][j + 1]:
            placed.append((2 * i, other[j]))
            j += 1
        else:
            i += 1
    return placed


def paths(skeleton: Sequence[Word], translations: Sequence[Sequence[Word]]) -> list[list[Word]]:
    """Return the words of each translation by slot.

    Between two words of the skeleton, the translation with most words there sets the number of slots.
    """
    placed = []
    for words in translations:
        places: list[list[Word]] = [[] for _ in range(2 * len(skeleton) + 1)]
        for place, word in align(skeleton, words):
            places[place].append(word)
        placed.append(places)
    widths = [max(map(len, column)) for column in zip(*placed)]
    return [
        [word for found, width in zip(places, widths) for word in [*found, *[NOTHING] * (width - len(found))]]
        for places in placed
    ]


def network(
    skeleton: Sequence[Word], translations: Sequence[Sequence[Word]], probabilities: Sequence[float]
) -> list[Slot]:
    """Return the slots of translations, the skeleton among them, with probabilities of sum 1.

    The words of each slot are in the order of the translations.
    """
    slots = []
    for column in zip(*paths(skeleton, translations)):
        sums: dict[str, float] = {}
        for word, probability in zip(column, probabilities):
            sums[text_of(word)] = sums.get(text_of(word), 0.0) + probability
        slots.append({word: sums[text_of(word)] for word in column})
    return slots


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
    """Search the networks of several sentences at the same time, so that models get larger batches.

    `score` gives log P of prefixes, each with the number of its sentence.
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
