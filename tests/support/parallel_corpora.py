"""Small parallel corpora, of which it is known which word translates which."""

from __future__ import annotations

import random
from pathlib import Path

Pairs = list[tuple[list[str], list[str]]]


def permuted_corpus(
    pairs: int, types: int = 60, seed: int = 1, swap: bool = True
) -> tuple[Pairs, list[set[tuple[int, int]]]]:
    """Sentences of different words, their translations word by word, and the links.

    Args:
        pairs: of sentences
        types: words of each language
        seed: of the draws
        swap: exchange two neighbours in each translation
    """
    draw = random.Random(seed)
    corpus, gold = [], []
    for _ in range(pairs):
        words = draw.sample(range(types), draw.randint(3, 9))
        order = list(range(len(words)))
        if swap:
            first = draw.randrange(len(words) - 1)
            order[first : first + 2] = order[first : first + 2][::-1]
        corpus.append(([f"s{word}" for word in words], [f"t{words[i]}" for i in order]))
        gold.append({(i, j) for j, i in enumerate(order)})
    return corpus, gold


def write_corpus(prefix: Path, pairs: Pairs) -> Path:
    """Write PREFIX.de and PREFIX.en."""
    for side, language in enumerate(("de", "en")):
        text = "".join(" ".join(pair[side]) + "\n" for pair in pairs)
        Path(f"{prefix}.{language}").write_text(text, encoding="utf-8")
    return prefix
