"""`deepnmt bleu-per-depth`: score a model with fewer and fewer of its layers."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, program

USAGE = """%(prog)s CHECKPOINT DATA OUT [--encoder-every N,N...] [--decoder-every N,N...] [--subset SUBSET]
                              [fairseq-generate options]"""
DESCRIPTION = """Translate and score a subset of a data folder with the whole model, then with models shrunk by `deepnmt
shrink`. For each N, one stack keeps the first of each N layers, and the other stack stays whole. Shrunk models are not
trained further, and their checkpoints are not kept."""
EPILOG = """All other options go to fairseq-generate, as in `deepnmt generate`.

OUT gets bleu.tsv, a line per model with its depths and scores, and a folder for each with translations and scores.json.
The command can be stopped at any moment; run it again to resume with the first model without scores. CHECKPOINT, DATA
and the files that options name must be the same. A later run may give other N: bleu.tsv then lists these alone, so name
the earlier ones again; they are not translated anew.

example:
  deepnmt bleu-per-depth checkpoints/de-en/average.pt data/de-en results/depths --encoder-every 2,3,4,6,12"""


def main(words: Sequence[str] | None = None) -> None:
    """Score the models that a command line names. Exits with the status of the step that fails."""
    parser = Parser(program("bleu-per-depth"), DESCRIPTION, EPILOG, usage=USAGE)
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT", help="model")
    add("data", type=Path, metavar="DATA", help="folder made by preprocess")
    add("out", type=Path, metavar="OUT", help="folder to make")
    add("--encoder-every", default="", metavar="N,N...", help="values of N from 2 to the depth, as in 2,3,6 (default, "
        "without --decoder-every: 2,3,4,6 up to the depth)")  # fmt: skip
    add("--decoder-every", default="", metavar="N,N...", help="values of N for the decoder (default: no values)")
    add("--subset", "--gen-subset", default="valid", metavar="SUBSET", help="subset: valid, test, ... (default: valid)")
    given, options = parser.parse_before_options(words, "fairseq-generate")
    # It imports torch.
    from deepnmt.generation.depths import Depths

    every = {"encoder": given.encoder_every, "decoder": given.decoder_every}
    Depths(given.checkpoint, given.data, given.out, given.subset, every, options).score()
