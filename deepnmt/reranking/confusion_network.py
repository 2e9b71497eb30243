"""A confusion network of the translations of a sentence (Rosti 2007, N07-1029): slots of words to choose from.

One translation is the skeleton. All others are aligned to it word by word, so that each is a path: one word, or none,
from each slot. A slot's words have the sum of the probabilities of the translations that have them there.

    p_s(w) = sum of P(y) over the translations y with w in slot s

Words with the same text are the same word, however they are cut. In a language without spaces between words, where
subwords join to clauses, each subword is a word: models write nothing smaller, and joins do not show in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from deepnmt.text.languages import is_unspaced
from deepnmt.text.subwords import SEPARATOR, byte_of

# A word is its subwords, with no subwords where a translation has nothing in a slot.
Word = tuple[str, ...]
NOTHING: Word = ()
# Bytes that do not begin a character.
CONTINUATION = range(0x80, 0xC0)
Slot = dict[Word, float]


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

    The alignment has the least number of words that are exchanged, inserted or left out; of several, the one whose
    words stand further to the left.
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
    """Return what each translation has in each slot.

    Between two words of the skeleton there are as many slots as the translation with most words there has.
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
    """Return the slots; the words of each in the order of the translations.

    Args:
        skeleton: one of the translations
        translations: of the sentence
        probabilities: of each, with sum 1
    """
    slots = []
    for column in zip(*paths(skeleton, translations)):
        sums: dict[str, float] = {}
        for word, probability in zip(column, probabilities):
            sums[text_of(word)] = sums.get(text_of(word), 0.0) + probability
        slots.append({word: sums[text_of(word)] for word in column})
    return slots
