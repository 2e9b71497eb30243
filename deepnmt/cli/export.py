"""`deepnmt export`: make checkpoints into the only folder that deepnmt translate needs."""

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, program
from deepnmt.engines.engine import RERANKING, WEIGHTS, SearchSettings
from deepnmt.engines.registry import AUTO, ENGINES
from deepnmt.limits import DEFAULT_BEAM, DEFAULT_LENPEN

EPILOG = """MODEL appears when it is complete and has passed its check: for validation pairs, it must give the
checkpoints' log-probabilities and translations. With --shortlist, or --weights other than float32, it may lose at most
1.0 BLEU. An existing model folder is replaced. docs/translating.md lists the models that each engine can run.

example: deepnmt export checkpoints/de-en/average.pt data/de-en model"""


def main(words: Sequence[str] | None = None) -> None:
    """Export the checkpoints that the command line names."""
    arguments = parse(words)
    # The fast paths in use do not matter here.
    logging.getLogger("deepnmt").setLevel(logging.WARNING)
    from deepnmt.export.exporter import Export, export  # takes seconds
    from deepnmt.reranking.weights_file import as_option

    paths = [Path(path) for path in arguments.checkpoints.split(os.pathsep)]
    rerank = as_option(arguments.rerank, RERANKING) if arguments.rerank else ""
    search = SearchSettings(beam=arguments.beam, lenpen=arguments.lenpen, rerank=rerank)
    kind = arguments.engine, arguments.weights, arguments.check, arguments.allow_loss
    more = arguments.shortlist, arguments.lexicon, arguments.scores
    result = export(Export(paths, arguments.data, *kind, search, *more), arguments.model, print)
    print(f"check of {result}" if result else "not checked, as --check 0 says")
    print(f"{arguments.model} is ready")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = Parser(program("export"), "Write a model folder with all files needed to translate.", EPILOG)
    add = parser.add_argument
    add("checkpoints", metavar="CHECKPOINT[:CHECKPOINT...]", help="checkpoint, or several for an ensemble")
    add("data", type=Path, metavar="DATA", help="data folder of its training, made by deepnmt preprocess")
    add("model", type=Path, metavar="MODEL", help="folder to make")
    add("--engine", choices=(AUTO, *ENGINES), default=AUTO, help="inference engine; auto: the fastest installed one "
        "that can run the model (default: auto)")  # fmt: skip
    add("--weights", choices=WEIGHTS, default="float32", help="number format of the weights (default: float32)")
    add("--check", type=int, default=200, metavar="N", help="validation pairs to compare; 0: no check (default: 200)")
    add("--allow-loss", action="store_true", help="export even if reduced weights or shortlists lose over 1.0 BLEU")
    add("--beam", type=int, default=DEFAULT_BEAM, metavar="K", help=f"default beam of the model's searches "
        f"(default: {DEFAULT_BEAM})")  # fmt: skip
    add("--lenpen", type=float, default=DEFAULT_LENPEN, metavar="A", help="default length penalty (default: "
        f"{DEFAULT_LENPEN:g})")  # fmt: skip
    add("--rerank", type=Path, metavar="FILE", help="weights of deepnmt rerank --tune, which choose from the beam by "
        "default")  # fmt: skip
    add("--shortlist", type=int, metavar="N", help="most frequent types on each sentence's shortlist, with likely "
        "translations of its words; from 500 on, few translations change (default: no shortlists)")  # fmt: skip
    add("--lexicon", type=Path, metavar="FILE", help="lexicon for the shortlists, lexicon.forward.tsv of deepnmt "
        "align DATA OUT --subwords --lexicon (default: learnt from DATA's training text)")  # fmt: skip
    add("--scores", type=Path, metavar="FILE", help="scores.json of deepnmt score, for the model card of --engine "
        "transformers")  # fmt: skip
    return parser.parse_args(words)
