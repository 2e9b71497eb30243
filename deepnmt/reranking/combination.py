"""Recombination: for each sentence the best path through the confusion network of its translations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from deepnmt.errors import UserError
from deepnmt.reranking.confusion_network import Slot, network, words_of
from deepnmt.reranking.consensus import expected_similarity
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.loaded_models import LoadedModels
from deepnmt.reranking.merged_lists import Candidate, MergedLists
from deepnmt.reranking.network_search import Path, SearchWeights, search_all
from deepnmt.reranking.prefix_scores import PrefixScorer
from deepnmt.reranking.score_files import FOLDER, digest, keep, kept

# More translations make slots of which most words are noise, and take long.
MOST = 64
# Sentences that are searched at the same time, and kept together for resuming.
TOGETHER = 32
SKELETON = "chrf"


@dataclass(frozen=True)
class Combination:
    """How to combine.

    Attributes:
        weights: of the score
        beam: prefixes to keep
        nbest: paths to return
        max_tokens: of a batch
    """

    weights: SearchWeights
    beam: int
    nbest: int
    max_tokens: int


def check_sizes(lists: MergedLists) -> None:
    """Raise `UserError` if a sentence has more different translations than a network may have."""
    for number, found in enumerate(lists.candidates):
        if len(found) > MOST:
            raise UserError(
                f"--nbest: a sentence must have at most {MOST} different translations, but sentence {number} has "
                f"{len(found)}"
            )


def networks(lists: MergedLists, corpus: Corpus) -> list[list[Slot]]:
    """Return the network of each sentence, with the consensus as its skeleton; no slots where there is nothing."""
    return [_network(texts, found, corpus.language) for texts, found in zip(corpus.texts, lists.candidates)]


def _network(texts: Sequence[str], found: Sequence[Candidate], language: str) -> list[Slot]:
    if not found:
        return []
    chances = [each.probability for each in found]
    skeleton = int(expected_similarity(texts, chances, SKELETON).argmax())
    words = [words_of(each.subwords, language) for each in found]
    return network(words[skeleton], words, chances)


def check_lengths(slots: Sequence[Sequence[Slot]], sources: Sequence[str], loaded: LoadedModels) -> None:
    """Raise `UserError` if a source, or the longest path of its network, is longer than the models' positions.

    Args:
        slots: of each sentence; none where there is nothing to combine
        sources: as subwords
        loaded: translation models
    """
    pairs = [(source, each) for source, each in zip(sources, slots) if each]
    # The end symbol takes a position.
    longest = (sum(max(map(len, slot)) for slot in each) + 1 for _, each in pairs)
    loaded.check_lengths("--models", (len(source.split()) + 1 for source, _ in pairs), longest)


def combine(
    slots: Sequence[Sequence[Slot]],
    sources: Sequence[str],
    loaded: LoadedModels,
    checkpoints: Sequence[FilePath],
    how: Combination,
    out: FilePath,
    done: Callable[[int], object],
) -> list[list[Path]]:
    """Return the best paths of each sentence; what stands in OUT already is taken.

    Args:
        slots: of each sentence
        sources: as subwords
        loaded: translation models
        checkpoints: of the models
        how: to combine
        out: results are kept there
        done: is told how many sentences are done
    """
    result: list[list[Path]] = []
    own = digest(checkpoints, dataclasses.asdict(how))
    for start in range(0, len(slots), TOGETHER):
        part, texts = slots[start : start + TOGETHER], sources[start : start + TOGETHER]
        file = out / FOLDER / f"{start}.json"
        key = digest((), [own, texts, [[[*map(list, slot.items())] for slot in each] for each in part]])
        found = kept(file, key)
        if found is None:
            scorer = PrefixScorer(loaded, texts, part, how.max_tokens)
            found = [each[: how.nbest] for each in search_all(part, how.weights, how.beam, scorer)]
            keep(file, key, [[dataclasses.astuple(path) for path in each] for each in found])
        else:
            found = [[Path(tuple(path[0]), *path[1:]) for path in each] for each in found]
        result += found
        done(len(part))
    return result
