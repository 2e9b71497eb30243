"""Choose the best translation of each sentence from n-best lists, as a command line requests."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import deepnmt
from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.reranking.bleu_statistics import Array, oracle
from deepnmt.reranking.consensus import expected_similarity
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.feature_table import FeatureTable
from deepnmt.reranking.merged_lists import Candidate, MergedLists, read_lists
from deepnmt.reranking.result_folder import ResultFolder, bleu_lines
from deepnmt.reranking.tuning import Tuned, tune
from deepnmt.reranking.weights_file import FILE, check_kinds, is_per_token, weights_for, write_weights
from deepnmt.text.nbest import MODEL, Translation

if TYPE_CHECKING:
    from deepnmt.reranking.model_scores import ModelFeature

KINDS = ("score", "reverse", "lm")  # options that name models
CONSENSUS = "consensus"


def rerank(arguments: argparse.Namespace) -> None:
    """Run `deepnmt rerank`: read, check, score, write, print. Raises `UserError` for faulty input."""
    started = time.monotonic()
    out = ResultFolder(console.program("rerank"), arguments.out, "rerank.json")
    by_model = bool(arguments.consensus) and arguments.posterior == "model"
    lists = read_lists(arguments.nbest, arguments.data, probable=by_model)
    if arguments.features:
        lists = lists.with_features(arguments.features)
    if arguments.tune and lists.subset.startswith("test"):
        raise UserError(
            f"--tune: must not be on test sentences, but the lists are of {lists.subset}; tune on lists of valid, and "
            "choose among these with --weights"
        )
    features = model_features(arguments, lists)
    names = tuple(feature.name for feature in features)
    if not arguments.ensemble:
        names = (*lists.names, *names)
    # The search divides by the length, too.
    by_token = is_per_token(arguments.weights) if arguments.weights else arguments.per_token or arguments.ensemble
    weights = weights_for(arguments.weights, names, by_token) if arguments.weights else None
    if arguments.weights:
        check_kinds(arguments.weights, {feature.name: feature.kind.value for feature in features})
    if (arguments.consensus or arguments.ensemble) and all(len(found) <= 1 for found in lists.candidates):
        option = "--consensus" if arguments.consensus else "--ensemble"
        raise UserError(f"{option}: must have lists of several translations, but no sentence has more than one")
    if features:
        from deepnmt.reranking.model_scores import add_model_features

        add_model_features(lists, features, arguments.data, out.out, arguments.max_tokens)
    corpus = Corpus.read(arguments.data, lists)
    report: dict[str, Any] = {"lists": [str(path) for path in arguments.nbest], "hypotheses": corpus.size()}
    if arguments.consensus:
        orders = by_consensus(lists, corpus, arguments.consensus, arguments.posterior)
        report |= {"consensus": arguments.consensus, "posterior": arguments.posterior}
    else:
        table = FeatureTable.of(values(lists, features, arguments.data, by_token), names)
        if weights is None:
            weights = best_weights(table, corpus, [MODEL, *(each.name for each in features)], arguments)
            if arguments.ensemble:
                weights = of_ensemble(weights)
                report["search"] = search_options(weights)
        # A row has a place for each translation of the longest list.
        orders = [_order(row[: len(found)]) for row, found in zip(table.scores(weights), lists.candidates)]
        report |= {"weights": dict(zip(names, weights.tolist())), "per_token": by_token}
    chosen = np.array([order[0] if order else 0 for order in orders], dtype=np.intp)
    report["bleu"] = {"first": corpus.first_bleu(lists), "chosen": round(corpus.bleu(chosen), 2)}
    if arguments.oracle:
        counts = np.array([len(texts) for texts in corpus.texts], dtype=np.intp)
        report["bleu"]["oracle"] = round(corpus.bleu(oracle(corpus.statistics, counts)), 2)
    report["seconds"] = round(time.monotonic() - started, 1)
    lines = [
        Translation(sentence, rank, found[place].subwords, found[place].features)
        for sentence, (found, order) in enumerate(zip(lists.candidates, orders))
        for rank, place in enumerate(order, start=1)
    ]
    with out.building() as folder:
        if arguments.tune:
            tuned = {"subset": lists.subset, "seed": arguments.seed, "starts": arguments.starts, **report["bleu"]}
            models = {
                each.name: {"option": each.kind.value, "checkpoints": [str(path) for path in each.checkpoints]}
                for each in features
            }
            write_weights(folder / FILE, report["weights"], models, tuned, by_token)
        records = [record for feature in features for record in feature.records()]
        out.write(folder, arguments.data, lists, lines, records, report)
    for name, weight in report.get("weights", {}).items():
        print(f"{name:<12} {weight:9.5f}")
    if "search" in report:
        print(f"for deepnmt generate and translate: {report['search']}")
    print(bleu_lines(report))
    print(f"{out.out} is ready: translations in {out.out}/hyp.{corpus.language}")


def model_features(arguments: argparse.Namespace, lists: MergedLists) -> list[ModelFeature]:
    """Return the features that models give, checked. Raises `UserError` if a name or a checkpoint does not fit."""
    given = [(f"--{option}", *each) for option in KINDS for each in getattr(arguments, option)]
    if not given:
        return []
    taken = set(lists.names)
    for option, name, _ in given:
        if name in taken:
            raise UserError(f"{option}: the name must be new, but '{name}' belongs to another feature")
        taken.add(name)
    deepnmt.register()
    from deepnmt.reranking.model_scores import Kind, ModelFeature

    features = [ModelFeature(name, Kind(option), paths) for option, name, paths in given]
    for feature in features:
        feature.check(arguments.data, lists.reverse, bool(lists.read))
    return features


def values(
    lists: MergedLists, features: list[ModelFeature], data: Path, by_token: bool
) -> Sequence[Sequence[Mapping[str, float]]]:
    """Return the features of all candidates in their weighted form: as they are, or per token."""
    if not by_token:
        return [[each.features for each in found] for found in lists.candidates]
    from deepnmt.reranking.model_scores import Kind, source_subwords

    sources = source_subwords(data, lists.subset, lists.reverse)
    of_translation = [MODEL, *(each.name for each in features if each.kind is Kind.TRANSLATION)]
    of_source = [each.name for each in features if each.kind is not Kind.TRANSLATION]
    return per_token(lists.candidates, sources, of_translation, of_source)


def best_weights(table: FeatureTable, corpus: Corpus, positive: list[str], arguments: argparse.Namespace) -> Any:
    """Return the weights of the best start."""
    statistics = corpus.statistics
    best: Tuned | None = None
    with console.progress(arguments.starts + 1, "tuning", " starts") as bar:
        for found in tune(table, statistics, positive, arguments.seed, arguments.starts, arguments.ensemble):
            bar.update(1)
            if best is None or found.bleu > best.bleu:
                best = found
    assert best is not None
    # In the form in which they will be read from the file.
    return np.array([float(f"{weight:.6g}") for weight in best.weights])


def of_ensemble(weights: Array) -> Array:
    """Return weights with six decimals whose sum is 1 in spite of rounding."""
    rounded = weights.round(6)
    rounded[rounded.argmax()] += 1 - rounded.sum()
    return rounded.round(6)


def search_options(weights: Array) -> str:
    """Return the options of the search that combine the models by these weights, (26)."""
    return f"--ensemble-rule log-linear --ensemble-weights {','.join(f'{weight:.6g}' for weight in weights)}"


def by_consensus(lists: MergedLists, corpus: Corpus, metric: str, posterior: str) -> list[list[int]]:
    """Return the places of each sentence's candidates by expected similarity, the best first; it becomes a feature.

    P(y) is the `posterior`: "model" or "share".
    """
    orders = []
    for texts, found in zip(corpus.texts, lists.candidates):
        chances = [each.probability if posterior == "model" else each.share for each in found]
        values = expected_similarity(texts, chances, metric, corpus.tokenize) if found else np.empty(0)
        for candidate, value in zip(found, values):
            candidate.features[CONSENSUS] = float(value)
        orders.append(_order(values))
    return orders


def _order(scores: Array) -> list[int]:
    """Return places by score, the best first; equal ones stay in order."""
    return [int(place) for place in np.argsort(-scores, kind="stable")]


def per_token(
    lists: Sequence[Sequence[Candidate]],
    sources: Sequence[str],
    of_translation: Collection[str],
    of_source: Collection[str],
) -> list[list[Mapping[str, float]]]:
    """Return the features of all candidates, some of them per token; the candidates keep theirs.

    Sums of log probabilities favour short translations. The following values per token do not:

        1/t log P(y | x) + 1/s (w_1 log P(x | y) + w_2 log P(y))                                              (43)

    by t tokens of y and s of x, end symbols included (Yee 2019, arXiv 1908.05731).

    Args:
        lists: candidates of each sentence
        sources: subwords of each sentence's source
        of_translation: features to divide by t, the tokens of the candidate
        of_source: features to divide by s, the tokens of its source
    """
    result: list[list[Mapping[str, float]]] = []
    for source, candidates in zip(sources, lists):
        found: list[Mapping[str, float]] = []
        for candidate in candidates:
            tokens = dict.fromkeys(of_translation, len(candidate.subwords.split()) + 1)
            tokens |= dict.fromkeys(of_source, len(source.split()) + 1)
            found.append({name: value / tokens.get(name, 1) for name, value in candidate.features.items()})
        result.append(found)
    return result
