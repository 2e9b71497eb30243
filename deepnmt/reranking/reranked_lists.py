"""Choose the best translation of each sentence from n-best lists, as a command line says."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import deepnmt
from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.reranking.choice import Chosen, by_consensus, by_weights, oracle_bleu
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.feature_table import FeatureTable
from deepnmt.reranking.merged_lists import MergedLists, read_lists
from deepnmt.reranking.per_token import per_token
from deepnmt.reranking.result_folder import ResultFolder
from deepnmt.reranking.tuning import Tuned, tune
from deepnmt.reranking.weights_file import FILE, check_kinds, is_per_token, weights_for, write_weights
from deepnmt.text.nbest import MODEL
from deepnmt.text.record import selection_texts

if TYPE_CHECKING:
    from deepnmt.reranking.model_scores import ModelFeature

KINDS = ("score", "reverse", "lm")  # options that name models


def rerank(arguments: argparse.Namespace) -> None:
    """Read everything, check it, do the work, write, print.

    Args:
        arguments: as `deepnmt rerank` reads them

    Raises:
        UserError: something does not fit
    """
    started = time.monotonic()
    out = ResultFolder(arguments.out, "rerank.json")
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
    names = (*lists.names, *(feature.name for feature in features))
    by_token = is_per_token(arguments.weights) if arguments.weights else bool(arguments.per_token)
    weights = weights_for(arguments.weights, names, by_token) if arguments.weights else None
    if arguments.weights:
        check_kinds(arguments.weights, {feature.name: feature.kind.value for feature in features})
    if arguments.consensus and all(len(found) <= 1 for found in lists.candidates):
        raise UserError("--consensus: must have lists of several translations, but no sentence has more than one")
    if features:
        from deepnmt.reranking.lists_scoring import add_model_features

        add_model_features(lists, features, arguments.data, out.path, arguments.max_tokens)
    corpus = Corpus.read(arguments.data, lists)
    report: dict[str, Any] = {"lists": [str(path) for path in arguments.nbest], "hypotheses": corpus.size()}
    if arguments.consensus:
        chosen = by_consensus(lists, corpus, arguments.consensus, arguments.posterior)
        report |= {"consensus": arguments.consensus, "posterior": arguments.posterior}
    else:
        table = FeatureTable.of(values(lists, features, arguments.data, by_token), names)
        if weights is None:
            weights = best_weights(table, corpus, [MODEL, *(each.name for each in features)], arguments)
        chosen = by_weights(lists, table, weights)
        report |= {"weights": dict(zip(names, weights.tolist())), "per_token": by_token}
    report |= scores(lists, corpus, chosen, arguments.oracle)
    report["seconds"] = round(time.monotonic() - started, 1)
    with out.building() as folder:
        if arguments.tune:
            write_weights(folder / FILE, report["weights"], models(features), tuned(arguments, lists, report), by_token)
        known = [*lists.records, *(record for feature in features for record in feature.records())]
        chosen.write(folder, arguments.data, lists, report, selection_texts(known))
    print(summary(report))
    print(f"{out.path} is ready: translations in {out.path}/hyp.{corpus.language}")


def model_features(arguments: argparse.Namespace, lists: MergedLists) -> list[ModelFeature]:
    """Return the features that models give, checked. Raises `UserError` if a name or a checkpoint does not fit."""
    given = [(f"--{option}", *each) for option in KINDS for each in getattr(arguments, option)]
    if not given:
        return []
    taken = set(lists.names)
    for option, name, _ in given:
        if name in taken:
            raise UserError(f"{option}: the name must be new, but '{name}' is that of another feature")
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
    """Return the features of all candidates as they are weighted: as they are, or per token."""
    if not by_token:
        return [[each.features for each in found] for found in lists.candidates]
    from deepnmt.reranking.lists_scoring import source_subwords
    from deepnmt.reranking.model_scores import Kind

    sources = source_subwords(data, lists.subset, lists.reverse)
    of_translation = [MODEL, *(each.name for each in features if each.kind is Kind.TRANSLATION)]
    of_source = [each.name for each in features if each.kind is not Kind.TRANSLATION]
    return per_token(lists.candidates, sources, of_translation, of_source)


def best_weights(table: FeatureTable, corpus: Corpus, positive: list[str], arguments: argparse.Namespace) -> Any:
    """Return the weights of the best start."""
    statistics = corpus.statistics
    best: Tuned | None = None
    with console.progress(arguments.starts + 1, "tuning", " starts") as bar:
        for found in tune(table, statistics, positive, arguments.seed, arguments.starts):
            bar.update(1)
            if best is None or found.bleu > best.bleu:
                best = found
    assert best is not None
    # As they will be read from the file.
    return np.array([float(f"{weight:.6g}") for weight in best.weights])


def scores(lists: MergedLists, corpus: Corpus, chosen: Chosen, oracle: bool) -> dict[str, Any]:
    """Return BLEU of the first translations of each list, of the choice, and of the oracle."""
    result = {"first": [round(corpus.bleu_of_subwords(top), 2) for top in lists.tops]}
    found: dict[str, Any] = {"bleu": {**result, "chosen": round(corpus.bleu(chosen.places), 2)}}
    if oracle:
        found["bleu"]["oracle"] = round(oracle_bleu(corpus), 2)
    return found


def models(features: list[ModelFeature]) -> dict[str, dict[str, Any]]:
    """Return what each model feature is of."""
    return {
        each.name: {"option": each.kind.value, "checkpoints": [str(path) for path in each.checkpoints]}
        for each in features
    }


def tuned(arguments: argparse.Namespace, lists: MergedLists, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return how weights came to be."""
    return {"subset": lists.subset, "seed": arguments.seed, "starts": arguments.starts, **report["bleu"]}


def summary(report: Mapping[str, Any]) -> str:
    """Return the weights and the BLEU scores as lines."""
    lines = [f"{name:<12} {weight:9.5f}" for name, weight in report.get("weights", {}).items()]
    bleu = report["bleu"]
    lines += [
        f"BLEU of the first translations of {path}: {score}" for path, score in zip(report["lists"], bleu["first"])
    ]
    lines.append(f"BLEU of the chosen translations: {bleu['chosen']}")
    if "oracle" in bleu:
        lines.append(f"BLEU of the best choice possible: {bleu['oracle']}")
    return "\n".join(lines)
