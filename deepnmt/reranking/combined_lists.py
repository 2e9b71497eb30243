"""New translations from the words of several, by a confusion network and translation models."""

from __future__ import annotations

import argparse
import time
from typing import Any

import deepnmt
from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.merged_lists import MergedLists, read_lists
from deepnmt.reranking.network_search import NETWORK, SearchWeights
from deepnmt.reranking.result_folder import ResultFolder
from deepnmt.reranking.weights_file import weights_for
from deepnmt.text.nbest import FILE, LENGTH, MODEL, Translation, write_nbest
from deepnmt.text.record import selection_texts, write_record
from deepnmt.text.subwords import join_bpe
from deepnmt.text.translated_folder import write_translations

PARTS = (NETWORK, MODEL, LENGTH)


def combine_lists(arguments: argparse.Namespace) -> None:
    """Read everything, check it, do the work, write, print.

    Args:
        arguments: as `deepnmt combine` reads them

    Raises:
        UserError: something does not fit
    """
    started = time.monotonic()
    out = ResultFolder(arguments.out, "combine.json")
    lists = read_lists(arguments.nbest, arguments.data, probable=True)
    weights = SearchWeights(arguments.network_weight, arguments.model_weight, arguments.length_weight)
    if arguments.weights:
        weights = SearchWeights(*weights_for(arguments.weights, PARTS).tolist())
    deepnmt.register()
    # fairseq takes seconds to import, which faulty options need not wait for.
    from deepnmt.reranking import combination
    from deepnmt.reranking.lists_scoring import read_subwords
    from deepnmt.reranking.loaded_models import load_models
    from deepnmt.reranking.model_scores import Kind, ModelFeature

    combination.check_sizes(lists)
    feature = ModelFeature("models", Kind.TRANSLATION, arguments.models, given="--models")
    feature.check(arguments.data, lists.reverse, bool(lists.read))
    loaded = load_models(arguments.models, arguments.data, feature.languages(arguments.data, lists.reverse))
    if loaded.right_to_left:
        raise UserError("--models: must write left to right, as the search of a network does, but one is right to left")
    corpus = Corpus.read(arguments.data, lists)
    how = combination.Combination(weights, arguments.beam, arguments.paths, arguments.max_tokens)
    slots = combination.networks(lists, corpus)
    sources = read_subwords(arguments.data, lists)
    combination.check_lengths(slots, sources, loaded)
    # A place that nobody can write to shows before the work.
    out.path.mkdir(parents=True, exist_ok=True)
    with console.progress(len(slots), "combining", " sentences") as bar:
        found = combination.combine(slots, sources, loaded, arguments.models, how, out.path, bar.update)
    lines = [
        Translation(number, rank, " ".join(path.subwords), dict(zip(PARTS, (path.network, path.model, path.length))))
        for number, each in enumerate(found)
        if lists.candidates[number]
        for rank, path in enumerate(each, start=1)
    ]
    report = facts(arguments, lists, corpus, lines)
    report |= {"weights": dict(zip(PARTS, (weights.network, weights.model, weights.length)))}
    report["seconds"] = round(time.monotonic() - started, 1)
    with out.building() as folder:
        best = {line.sentence: join_bpe(line.subwords) for line in lines if line.rank == 1}
        texts = [best.get(number, "") for number in range(len(slots))]
        selected_on = selection_texts([*lists.records, *feature.records()])
        left_out = len(texts) - len(best)
        write_translations(folder, texts, arguments.data, lists.subset, left_out, lists.reverse, selected_on)
        write_nbest(folder / FILE, lines)
        write_record(folder / "combine.json", report)
    for path, score in zip(report["lists"], report["bleu"]["first"]):
        print(f"BLEU of the first translations of {path}: {score}")
    print(f"BLEU of the combined translations: {report['bleu']['combined']}")
    print(f"sentences that no list has: {report['new']} of {len(best)}")
    print(f"{out.path} is ready: translations in {out.path}/hyp.{corpus.language}")


def facts(
    arguments: argparse.Namespace, lists: MergedLists, corpus: Corpus, lines: list[Translation]
) -> dict[str, Any]:
    """Return BLEU of the first translations of each list and of the combined ones, and how many of those are new."""
    best = {line.sentence: line.subwords for line in lines if line.rank == 1}
    known = [{join_bpe(each.subwords) for each in found} for found in lists.candidates]
    texts = [best.get(number) for number in range(len(known))]
    return {
        "lists": [str(path) for path in arguments.nbest],
        "models": [str(path) for path in arguments.models],
        "bleu": {
            "first": [round(corpus.bleu_of_subwords(top), 2) for top in lists.tops],
            "combined": round(corpus.bleu_of_subwords(texts), 2),
        },
        "new": sum(join_bpe(text) not in known[number] for number, text in best.items()),
    }
