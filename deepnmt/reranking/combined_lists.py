"""New translations from the words of several: for each sentence, the best path through a confusion network."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import deepnmt
from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.reranking.confusion_network import NETWORK, Path, SearchWeights, Slot, network, search_all, words_of
from deepnmt.reranking.consensus import expected_similarity
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.merged_lists import Candidate, MergedLists, read_lists
from deepnmt.reranking.result_folder import FOLDER, ResultFolder, bleu_lines, digest, keep, kept
from deepnmt.reranking.weights_file import weights_for
from deepnmt.text.nbest import LENGTH, MODEL, Translation
from deepnmt.text.subwords import join_bpe

if TYPE_CHECKING:
    from deepnmt.reranking.model_scores import LoadedModels

PARTS = (NETWORK, MODEL, LENGTH)
# More translations make slots that are mostly noise, and take long.
MOST = 64
# Sentences that are searched together, and kept together for resuming.
TOGETHER = 32
SKELETON = "chrf"


def combine_lists(arguments: argparse.Namespace) -> None:
    """Run `deepnmt combine`: read, check, search, write, print. Raises `UserError` for faulty input."""
    started = time.monotonic()
    out = ResultFolder(console.program("combine"), arguments.out, "combine.json")
    lists = read_lists(arguments.nbest, arguments.data, probable=True)
    weights = SearchWeights(arguments.network_weight, arguments.model_weight, arguments.length_weight)
    if arguments.weights:
        weights = SearchWeights(*weights_for(arguments.weights, PARTS).tolist())
    deepnmt.register()
    # Importing fairseq takes seconds; faulty options are reported before.
    from deepnmt.reranking.model_scores import Kind, ModelFeature, load_models, read_subwords

    check_sizes(lists)
    feature = ModelFeature("models", Kind.TRANSLATION, arguments.models, given="--models")
    feature.check(arguments.data, lists.reverse, bool(lists.read))
    loaded = load_models(arguments.models, arguments.data, feature.languages(arguments.data, lists.reverse))
    if loaded.right_to_left:
        raise UserError("--models: must write left to right, as the search of a network does, but one is right to left")
    corpus = Corpus.read(arguments.data, lists)
    how = Combination(weights, arguments.beam, arguments.paths, arguments.max_tokens)
    slots = networks(lists, corpus)
    sources = read_subwords(arguments.data, lists)
    check_lengths(slots, sources, loaded)
    # An unwritable place is reported before the work.
    out.out.mkdir(parents=True, exist_ok=True)
    with console.progress(len(slots), "combining", " sentences") as bar:
        found = combine(slots, sources, loaded, arguments.models, how, out.out, bar.update)
    lines = [
        Translation(number, rank, " ".join(path.subwords), dict(zip(PARTS, (path.network, path.model, path.length))))
        for number, each in enumerate(found)
        if lists.candidates[number]
        for rank, path in enumerate(each, start=1)
    ]
    best = {line.sentence: line.subwords for line in lines if line.rank == 1}
    known = [{join_bpe(each.subwords) for each in candidates} for candidates in lists.candidates]
    combined = corpus.bleu_of_subwords([best.get(number) for number in range(len(known))])
    report: dict[str, Any] = {
        "lists": [str(path) for path in arguments.nbest],
        "models": [str(path) for path in arguments.models],
        "bleu": {"first": corpus.first_bleu(lists), "combined": round(combined, 2)},
        "new": sum(join_bpe(text) not in known[number] for number, text in best.items()),
        "weights": dict(zip(PARTS, (weights.network, weights.model, weights.length))),
        "seconds": round(time.monotonic() - started, 1),
    }
    with out.building() as folder:
        out.write(folder, arguments.data, lists, lines, feature.records(), report)
    print(bleu_lines(report))
    print(f"sentences that no list has: {report['new']} of {len(best)}")
    print(f"{out.out} is ready: translations in {out.out}/hyp.{corpus.language}")


@dataclass(frozen=True)
class Combination:
    """How to combine: weights of the score, prefixes to keep, paths to return, and tokens of a batch."""

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
    """Return the network of each sentence, with the consensus as its skeleton; no slots without translations."""
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

    A sentence without slots has nothing to combine, and does not count.
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
    """Return the best paths of each sentence. Results are kept in OUT, and earlier ones are reused.

    Args:
        slots: of each sentence
        sources: as subwords
        loaded: translation models
        checkpoints: of the models
        how: to combine
        out: folder of the results
        done: receives the number of finished sentences
    """
    result: list[list[Path]] = []
    own = digest(checkpoints, dataclasses.asdict(how))
    for start in range(0, len(slots), TOGETHER):
        part, texts = slots[start : start + TOGETHER], sources[start : start + TOGETHER]
        file = out / FOLDER / f"{start}.json"
        key = digest((), [own, texts, [[[*map(list, slot.items())] for slot in each] for each in part]])
        found = kept(file, key)
        if found is None:
            from deepnmt.reranking.prefix_scores import PrefixScorer

            scorer = PrefixScorer(loaded, texts, part, how.max_tokens)
            found = [each[: how.nbest] for each in search_all(part, how.weights, how.beam, scorer)]
            keep(file, key, [[dataclasses.astuple(path) for path in each] for each in found])
        else:
            found = [[Path(tuple(path[0]), *path[1:]) for path in each] for each in found]
        result += found
        done(len(part))
    return result
