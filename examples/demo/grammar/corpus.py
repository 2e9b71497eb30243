"""Distinct sentence pairs, and their split into train, valid and test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

from grammar import english, german
from grammar.sample_sentences import sentence

Pair = tuple[str, str]

_MIN_WORDS, _MAX_WORDS = 4, 25
_TRIES_IN_VAIN = 5000


class ExhaustedError(ValueError):
    """The grammar gave fewer distinct pairs than wanted, namely `found`."""

    def __init__(self, found: int) -> None:
        """Remember how many pairs were found."""
        super().__init__(f"found only {found} distinct pairs")
        self.found = found


def sample_pairs(count: int, seed: int) -> list[Pair]:
    """Draw `count` pairs (German, English), no sentence of either language twice.

    The same seed gives the same pairs on every machine. Raises ValueError if `count` is
    negative, and ExhaustedError (a ValueError) if many tries in a row bring no new pair.
    """
    if count < 0:
        raise ValueError(f"count must be at least 0, but is {count}")
    rng = Random(seed)
    seen: set[str] = set()
    pairs: list[Pair] = []
    in_vain = 0
    while len(pairs) < count:
        if in_vain == _TRIES_IN_VAIN:
            raise ExhaustedError(len(pairs))
        meaning = sentence(rng)
        pair = german.realise(meaning), english.realise(meaning)
        keys = {f"de {pair[0]}", f"en {pair[1]}"}
        if keys & seen or not all(map(_has_good_length, pair)):
            in_vain += 1
            continue
        in_vain = 0
        seen |= keys
        pairs.append(pair)
    return pairs


def write_splits(directory: Path, sizes: Mapping[str, int], seed: int) -> None:
    """Write one file per split and language; a sentence is in one split only.

    Raises ExhaustedError as `sample_pairs` does, before anything is written.
    """
    pairs = sample_pairs(sum(sizes.values()), seed)
    directory.mkdir(parents=True, exist_ok=True)
    written: list[tuple[Path, Path]] = []
    # Small splits first: their pairs then stay the same when train grows.
    for split in sorted(sizes, key=lambda name: (sizes[name], name)):
        part, pairs = pairs[: sizes[split]], pairs[sizes[split] :]
        for index, language in enumerate(("de", "en")):
            final = directory / f"{split}.{language}"
            beside = directory / f".{split}.{language}.part"
            beside.write_text("".join(f"{pair[index]}\n" for pair in part), encoding="utf-8")
            written.append((beside, final))
    for beside, final in written:
        beside.replace(final)


def _has_good_length(text: str) -> bool:
    return _MIN_WORDS <= len(text.split()) <= _MAX_WORDS
