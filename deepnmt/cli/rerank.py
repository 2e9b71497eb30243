"""`deepnmt rerank`: choose the best translation of each sentence from n-best lists."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, as_number, program
from deepnmt.errors import UserError
from deepnmt.reference import add_reference_option
from deepnmt.reranking import METRICS, STARTS
from deepnmt.text import nbest

EPILOG = """The lists are written by deepnmt generate --nbest, for one subset of DATA. Several lists are merged, and
equal translations become one. One list keeps its features (model, length, coverage, unk). Several keep length and unk;
--score adds the models' scores. docs/search.md has the formulas.

OUT gets the files of deepnmt generate (hyp.LANG, ref.LANG, ...) and rerank.json. Its nbest.tsv has the new order and
all features. With --tune, it gets weights.json. OUT/scores keeps each model's scores: a stopped command
resumes, and other weights need no model.
example (the first command also for b.pt, and for test):

    deepnmt generate a.pt DATA valid.a --subset valid --nbest 12 --beam 12
    deepnmt rerank --nbest valid.a valid.b --data DATA --score a=a.pt --score b=b.pt --reverse back=back.pt \\
        --tune valid.out
    deepnmt rerank --nbest test.a test.b --data DATA --score a=a.pt --score b=b.pt --reverse back=back.pt \\
        --weights valid.out/weights.json test.out"""

OPTIONS = ("score", "reverse", "lm")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line. Raises `UserError` if it is faulty."""
    parser = Parser(program("rerank"), "Choose the best translation of each sentence from n-best lists.", EPILOG)
    parser.add_argument("--nbest", nargs="+", type=Path, required=True, metavar="LIST", help="nbest.tsv, or its folder")
    parser.add_argument("--data", type=Path, required=True, help="data folder, made by deepnmt preprocess")
    for name, what in zip(OPTIONS, ("P(y | x)", "P(x | y), the other direction", "P(y), a language model")):
        parser.add_argument(f"--{name}", action="append", default=[], type=named_model, metavar="NAME=CHECKPOINT",
            help=f"name of a feature, log {what}; repeatable; CHECKPOINT:CHECKPOINT2 is an ensemble")  # fmt: skip
    parser.add_argument("--features", type=lambda text: tuple(text.split(",")), metavar="NAME,NAME", help="features of "
        "the lists to use, such as model,length,unk, which deepnmt translate --rerank needs")  # fmt: skip
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--tune", action="store_true", help="find the weights with the highest BLEU")
    how.add_argument("--weights", type=Path, metavar="FILE", help="weights to choose by, from an earlier --tune")
    how.add_argument("--consensus", choices=METRICS, help="metric by which to choose the most typical translation")
    parser.add_argument("--posterior", choices=("model", "share"), default="model", help="source of a list's P(y) with "
        "--consensus: the search's scores, or the share of y in the list, which suits samples (default: "
        "model)")  # fmt: skip
    parser.add_argument("--per-token", action="store_true", help="with --tune, divide each log P by a number of "
        "tokens: log P(y | x) by y's, others by x's")  # fmt: skip
    parser.add_argument("--ensemble", action="store_true", help="with --tune, find weights of the --score models for "
        "the search: --ensemble-weights of deepnmt generate and translate")  # fmt: skip
    parser.add_argument("--oracle", action="store_true", help="also report the best BLEU of all possible choices")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random starts of --tune (default: 1)")
    parser.add_argument("--starts", type=whole, default=STARTS, help=f"random starts of --tune (default: {STARTS})")
    parser.add_argument("--max-tokens", type=whole, default=2048, help="tokens of a scoring batch (default: 2048)")
    add_reference_option(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    parser.needs("--posterior", "--consensus")
    parser.needs("--max-tokens", *(f"--{name}" for name in OPTIONS))
    for part in ("--per-token", "--ensemble", "--seed", "--starts"):
        parser.needs(part, "--tune")
    arguments = parser.parse_args(words)
    if not 0 <= arguments.seed < 2**32:
        raise UserError(f"--seed must be from 0 to {2**32 - 1}, but is {arguments.seed}")
    if arguments.consensus and any(getattr(arguments, option) for option in OPTIONS):
        raise UserError("--score, --reverse, --lm cannot be combined with --consensus, which takes P(y) from the lists")
    if arguments.ensemble:
        _check_ensemble(arguments)
    return arguments


def _check_ensemble(arguments: argparse.Namespace) -> None:
    """Raise `UserError`, a line for each fault, if --ensemble has other features than models, or too few of them."""
    given = [f"--{name}" for name in ("reverse", "lm", "features", "per_token") if getattr(arguments, name)]
    faults = [f"{name.replace('_', '-')} cannot be combined with --ensemble" for name in given]
    if len(arguments.score) < 2:
        faults.append(f"--score must name two models or more with --ensemble, but names {len(arguments.score)}")
    several = [name for name, paths in arguments.score if len(paths) > 1]
    faults += [f"--score {name} must be one checkpoint with --ensemble" for name in several]
    if faults:
        raise UserError(*faults)


def named_model(text: str) -> tuple[str, tuple[Path, ...]]:
    """Return name and checkpoints of NAME=CHECKPOINT[:...]."""
    name, equals, paths = text.partition("=")
    if not equals or not nbest.NAME.fullmatch(name) or not paths:
        raise argparse.ArgumentTypeError(f"must be NAME=CHECKPOINT, but is '{text}'")
    return name, tuple(Path(path) for path in paths.split(":"))


def whole(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, but is {text}")
    return int(text)


def finite(text: str) -> float:
    """Return a finite number."""
    number = as_number(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"must be a finite number, but is {text}")
    return number


def main(words: Sequence[str] | None = None) -> None:
    """Choose translations from the lists that a command line names."""
    given = parse(words)
    from deepnmt.reranking.reranked_lists import rerank  # takes longer than --help may

    rerank(given)
