"""Lexicons: for each word the words that it is translated to, most probable first, as TSV with a header line."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from deepnmt.console import whole_file
from deepnmt.corpus.alignment.grow_diag import Link
from deepnmt.corpus.alignment.word_table import Tables, WordPairs
from deepnmt.text.words import Words

# Less probable translations are left out; a word has at most 1000 others.
LEAST = 1e-3
HEADERS = ("source\ttarget\tprobability", "target\tsource\tprobability")
Entry = tuple[str, str, float]


def table_entries(
    word_pairs: WordPairs, tables: Tables, words: tuple[Sequence[str], Sequence[str]], reverse: bool
) -> Iterator[Entry]:
    """Yield a word, its translation and t(translation|word), the translations of a word together.

    With `reverse`, words go from target to source. `words` has the words of source and target by their numbers.
    """
    values = tables.reverse if reverse else tables.forward
    given, found, kept = [], [], []
    for start, stop in word_pairs.blocks():
        block = values[start:stop]
        chosen = np.flatnonzero(block >= LEAST)
        x, y = word_pairs.words(start, stop)
        given.append((y if reverse else x)[chosen])
        found.append((x if reverse else y)[chosen])
        kept.append(block[chosen])
    owner, other, t = (np.concatenate(parts) for parts in (given, found, kept))
    order = np.lexsort((other, np.negative(t), owner))
    here, there = words[::-1] if reverse else words
    for place in order.tolist():
        yield here[owner[place]], there[other[place]], float(t[place])


def link_entries(pairs: Iterable[tuple[Words, Words, Sequence[Link]]], reverse: bool) -> Iterator[Entry]:
    """Yield the same from alignments: how often a word is linked to another, of all its links."""
    counts: dict[str, Counter[str]] = {}
    for source, target, links in pairs:
        for i, j in links:
            word, other = (target[j], source[i]) if reverse else (source[i], target[j])
            counts.setdefault(word, Counter())[other] += 1
    for word, others in counts.items():
        total = others.total()
        for other, count in sorted(others.items(), key=lambda item: (-item[1], item[0])):
            if count / total >= LEAST:
                yield word, other, count / total


def write_lexicon(path: Path, entries: Iterable[Entry], reverse: bool) -> None:
    """Write a lexicon."""
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(HEADERS[reverse] + "\n")
        file.writelines(f"{word}\t{other}\t{probability:.6g}\n" for word, other, probability in entries)
