"""Sentences in subwords as tensors of numbers, and scoring in batches of similar length."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS

PADDING, UNKNOWN = map(SPECIAL_SYMBOLS.index, ("<pad>", "<unk>"))
# Rows times positions scored at a time: each has a number for every type of the vocabulary.
POSITIONS = 4096
Sentences = Sequence[Sequence[str]]


def numbers(sentence: Sequence[str], types: Mapping[str, int]) -> list[int]:
    """Return the types' numbers of a sentence, and the end symbol."""
    return [*(types.get(token, UNKNOWN) for token in sentence), END]


def padded(rows: Sequence[list[int]], left: bool = False) -> Tensor:
    """Return rows of numbers as one tensor, padded on the right or on the left."""
    tensor = torch.full((len(rows), max(map(len, rows))), PADDING)
    for line, row in zip(tensor, rows):
        line[len(line) - len(row) if left else 0 :][: len(row)] = torch.tensor(row)
    return tensor


def scored_by_length(
    score: Callable[[Sentences, Sentences], list[list[float]]], sources: Sentences, targets: Sentences
) -> list[list[float]]:
    """Return the log-probabilities of `Engine.score`, from a function that scores one batch of similar lengths."""
    scored: list[list[float]] = [[] for _ in targets]
    order = sorted(range(len(targets)), key=lambda number: len(targets[number]))
    while order:
        # For the last batch, the longest.
        part = order[-max(1, POSITIONS // (len(targets[order[-1]]) + 1)) :]
        del order[-len(part) :]
        rows = score([sources[number] for number in part], [targets[number] for number in part])
        for number, row in zip(part, rows):
            scored[number] = row
    return scored
