"""`deepnmt marginals`: score both sides of the training pairs by language models."""

from collections.abc import Sequence
from pathlib import Path

import deepnmt
from deepnmt.console import Parser, program, whole
from deepnmt.errors import UserError

DESCRIPTION = """Write log P of both sides of each training pair of DATA, in nats, by language models: the file for
--marginals of dual supervised learning. A model is an ARPA file over subwords, or a checkpoint made by train-lm."""
EPILOG = """OUT appears only when everything is done, and must not exist.

example:
  deepnmt ngram train data/de-en/text/train.bpe.de de.arpa
  deepnmt marginals data/de-en marginals.tsv --source-lm de.arpa --target-lm lm/checkpoint_best.pt"""


def main(words: Sequence[str] | None = None) -> None:
    """Write the file that a command line names."""
    parser = Parser(program("marginals"), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="folder made by preprocess, with its text")
    add("out", type=Path, metavar="OUT", help="file to write: a heading, then both numbers of each pair")
    add("--source-lm", type=Path, required=True, metavar="MODEL", help="language model of the source")
    add("--target-lm", type=Path, required=True, metavar="MODEL", help="language model of the target")
    add("--max-tokens", type=whole("--max-tokens", 1, 10**6), metavar="N",
        help="maximum tokens per batch of a checkpoint (default: 4096)")  # fmt: skip
    given = parser.parse_args(words)
    if given.max_tokens and {given.source_lm.suffix, given.target_lm.suffix} == {".arpa"}:
        raise UserError("--max-tokens needs a checkpoint as --source-lm or --target-lm")
    deepnmt.register()
    from deepnmt.reranking.pair_marginals import write_marginals

    write_marginals(given.data, given.out, [given.source_lm, given.target_lm], given.max_tokens or 4096)
    print(f"{given.out} is ready")
