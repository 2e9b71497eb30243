"""`deepnmt-rerank`: the best translation of each sentence among those of n-best lists."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import deepnmt
from deepnmt import console
from deepnmt.console import Parser, run
from deepnmt.errors import UserError
from deepnmt.reference import add_reference_option
from deepnmt.reranking.choice import Chosen, by_consensus, by_weights, oracle_bleu
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.feature_table import FeatureTable
from deepnmt.reranking.merged_lists import MergedLists, read_lists
from deepnmt.reranking.per_token import per_token
from deepnmt.reranking.result_folder import ResultFolder
from deepnmt.reranking.similarity import METRICS
from deepnmt.reranking.tuning import STARTS, Tuned, tune
from deepnmt.reranking.weights_file import FILE, check_kinds, is_per_token, weights_for, write_weights
from deepnmt.text.nbest import MODEL, NAME
from deepnmt.text.record import selection_texts

if TYPE_CHECKING:
    from deepnmt.reranking.model_scores import ModelFeature

EPILOG = """Lists are those that generate.sh writes with --nbest, of the same subset of DATA. Several are merged, and
equal translations become one. One list keeps its features (model, length, coverage, unk); of several, length and unk
are kept, and --score gives the models' scores. docs/search.md has the formulas.

OUT gets what generate.sh writes (hyp.LANG, ref.LANG, ..., for score.sh), nbest.tsv in the new order with all features,
rerank.json, and with --tune weights.json. Scores of each model are kept in OUT/scores: a command that was stopped
resumes, and other weights need no models again.

example:
  scripts/generate.sh a.pt DATA valid.a --subset valid --nbest 12 --beam 12     (and so for b.pt, and for test)
  deepnmt-rerank --nbest valid.a valid.b --data DATA --score a=a.pt --score b=b.pt --reverse back=back.pt \\
      --tune valid.out
  deepnmt-rerank --nbest test.a test.b --data DATA --score a=a.pt --score b=b.pt --reverse back=back.pt \\
      --weights valid.out/weights.json test.out"""
OPTIONS = ("score", "reverse", "lm")


def main() -> None:
    """The command."""
    run(command, "deepnmt-rerank")


def command() -> None:
    """Read everything, score, choose, write, print."""
    arguments = parse()
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


def parse() -> argparse.Namespace:
    """Return the command line. Raises `UserError` if it is faulty."""
    parser = Parser("deepnmt-rerank", "Choose the best translation of each sentence from n-best lists.", EPILOG)
    parser.add_argument(
        "--nbest", nargs="+", type=Path, required=True, metavar="LIST", help="nbest.tsv, or the folder that it is in"
    )
    parser.add_argument("--data", type=Path, required=True, help="the data folder, made by preprocess.sh")
    for name, what in zip(OPTIONS, ("P(y | x)", "P(x | y), of the other direction", "P(y), a language model")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            type=named_model,
            metavar="NAME=CHECKPOINT",
            help=f"a feature: log {what}; repeatable; CHECKPOINT:CHECKPOINT2 is an ensemble",
        )
    parser.add_argument(
        "--features",
        type=lambda text: tuple(text.split(",")),
        metavar="NAME,NAME",
        help="features of the lists to use, such as model,length,unk, which deepnmt-translate --rerank needs",
    )
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--tune", action="store_true", help="find the weights of the highest BLEU")
    how.add_argument("--weights", type=Path, metavar="FILE", help="choose by these weights, from an earlier --tune")
    how.add_argument("--consensus", choices=METRICS, help="choose what is most like all others")
    parser.add_argument(
        "--posterior",
        choices=("model", "share"),
        default="model",
        help="with --consensus, P(y) of a list: by the search's scores, or by how often y stands in it, which is right "
        "for samples (default: model)",
    )
    parser.add_argument(
        "--per-token",
        action="store_true",
        help="with --tune, divide each log P by a number of tokens: log P(y | x) by those of y, others by those of x",
    )
    parser.add_argument("--oracle", action="store_true", help="also report the best BLEU that any choice could have")
    parser.add_argument("--seed", type=int, default=1, help="of the random starts of --tune (default: 1)")
    parser.add_argument("--starts", type=whole, default=STARTS, help=f"random starts of --tune (default: {STARTS})")
    parser.add_argument("--max-tokens", type=whole, default=2048, help="of a batch, in scoring (default: 2048)")
    add_reference_option(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write")
    arguments = parser.parse_args()
    if not 0 <= arguments.seed < 2**32:
        raise UserError(f"--seed: must be from 0 to {2**32 - 1}, but is {arguments.seed}")
    if arguments.consensus and any(getattr(arguments, option) for option in OPTIONS):
        raise UserError("--score, --reverse, --lm: must not be given with --consensus, which takes P(y) from the lists")
    if arguments.posterior != "model" and not arguments.consensus:
        raise UserError("--posterior: must be given with --consensus alone")
    if arguments.per_token and not arguments.tune:
        raise UserError("--per-token: must be given with --tune alone; the weights' file knows of it")
    return arguments


def named_model(text: str) -> tuple[str, tuple[Path, ...]]:
    """Return name and checkpoints of NAME=CHECKPOINT[:...]."""
    name, equals, paths = text.partition("=")
    if not equals or not NAME.fullmatch(name) or not paths:
        raise argparse.ArgumentTypeError(f"must be NAME=CHECKPOINT, but is '{text}'")
    return name, tuple(Path(path) for path in paths.split(":"))


def whole(text: str) -> int:
    """Return a whole number from 1 on."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, but is {text}")
    return int(text)


def finite(text: str) -> float:
    """Return a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be a finite number, but is {text}")
    return number


def model_features(arguments: argparse.Namespace, lists: MergedLists) -> list[ModelFeature]:
    """Return the features that models give, checked. Raises `UserError` if a name or a checkpoint does not fit."""
    given = [(f"--{option}", *each) for option in OPTIONS for each in getattr(arguments, option)]
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


if __name__ == "__main__":
    main()
