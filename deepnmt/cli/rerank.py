"""`deepnmt rerank`: the best translation of each sentence among those of n-best lists."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from deepnmt.console import Parser, program
from deepnmt.errors import UserError
from deepnmt.reference import add_reference_option
from deepnmt.reranking import METRICS, STARTS
from deepnmt.text import nbest

NAME = "rerank"

EPILOG = """Lists are those that generate.sh writes with --nbest, of the same subset of DATA. Several are merged, and
equal translations become one. One list keeps its features (model, length, coverage, unk); of several, length and unk
are kept, and --score gives the models' scores. docs/search.md has the formulas.

OUT gets what generate.sh writes (hyp.LANG, ref.LANG, ..., for score.sh), nbest.tsv in the new order with all features,
rerank.json, and with --tune weights.json. Scores of each model are kept in OUT/scores: a command that was stopped
resumes, and other weights need no models again.

example:
  deepnmt generate a.pt DATA valid.a --subset valid --nbest 12 --beam 12     (and so for b.pt, and for test)
  deepnmt rerank --nbest valid.a valid.b --data DATA --score a=a.pt --score b=b.pt --reverse back=back.pt \\
      --tune valid.out
  deepnmt rerank --nbest test.a test.b --data DATA --score a=a.pt --score b=b.pt --reverse back=back.pt \\
      --weights valid.out/weights.json test.out"""

OPTIONS = ("score", "reverse", "lm")


def parse(words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Return the command line. Raises `UserError` if it is faulty."""
    parser = Parser(program(NAME), "Choose the best translation of each sentence from n-best lists.", EPILOG)
    parser.add_argument("--nbest", nargs="+", type=Path, required=True, metavar="LIST",
        help="nbest.tsv, or the folder that it is in")  # fmt: skip
    parser.add_argument("--data", type=Path, required=True, help="the data folder, made by preprocess.sh")
    for name, what in zip(OPTIONS, ("P(y | x)", "P(x | y), of the other direction", "P(y), a language model")):
        parser.add_argument(f"--{name}", action="append", default=[], type=named_model, metavar="NAME=CHECKPOINT",
            help=f"a feature: log {what}; repeatable; CHECKPOINT:CHECKPOINT2 is an ensemble")  # fmt: skip
    parser.add_argument("--features", type=lambda text: tuple(text.split(",")), metavar="NAME,NAME", help="features of "
        "the lists to use, such as model,length,unk, which deepnmt translate --rerank needs")  # fmt: skip
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--tune", action="store_true", help="find the weights of the highest BLEU")
    how.add_argument("--weights", type=Path, metavar="FILE", help="choose by these weights, from an earlier --tune")
    how.add_argument("--consensus", choices=METRICS, help="choose what is most like all others")
    parser.add_argument("--posterior", choices=("model", "share"), default="model", help="with --consensus, P(y) of a "
        "list: by the search's scores, or by how often y stands in it, which is right for samples (default: "
        "model)")  # fmt: skip
    parser.add_argument("--per-token", action="store_true", help="with --tune, divide each log P by a number of "
        "tokens: log P(y | x) by those of y, others by those of x")  # fmt: skip
    parser.add_argument("--oracle", action="store_true", help="also report the best BLEU that any choice could have")
    parser.add_argument("--seed", type=int, default=1, help="of the random starts of --tune (default: 1)")
    parser.add_argument("--starts", type=whole, default=STARTS, help=f"random starts of --tune (default: {STARTS})")
    parser.add_argument("--max-tokens", type=whole, default=2048, help="of a batch, in scoring (default: 2048)")
    add_reference_option(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to write")
    arguments = parser.parse_args(words)
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
    if not equals or not nbest.NAME.fullmatch(name) or not paths:
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


def main(words: Optional[Sequence[str]] = None) -> None:
    """Choose what a command line says."""
    given = parse(words)
    # Here, since it takes longer than --help may.
    from deepnmt.reranking.reranked_lists import rerank

    rerank(given)
