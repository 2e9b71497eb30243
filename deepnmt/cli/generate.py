"""`deepnmt generate`: translate a subset of a data folder, and write the references beside it."""

import os
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, program
from deepnmt.limits import DEFAULT_BATCH_SIZE, DEFAULT_BEAM

NAME = "generate"
DESCRIPTION = """Translate a subset of DATA, a folder made by deepnmt preprocess, with one checkpoint or an ensemble. On
a GPU, the search runs in half precision; else it runs on the CPU."""
DEFAULTS = f"--beam {DEFAULT_BEAM} --batch-size {DEFAULT_BATCH_SIZE}"
EPILOG = f"""All other options go to fairseq-generate and override the defaults {DEFAULTS}. docs/search.md
lists this package's options: length and coverage penalties, length ranges, stopping rules, ensembles. They and --nbest
need the package's task, which is the default.

OUT_DIR gets translations (hyp.LANG; hyp.tok.LANG as tokens without BPE) and references (ref.LANG, ref.tok.LANG). Other
files are src.LANG, generate.log (all output of fairseq-generate) and generate.json. With --glossary, inline.LANG has
the sources with inline targets. An existing OUT_DIR is replaced when everything is done.

example:
  deepnmt generate checkpoints/de-en/average.pt data/de-en results/de-en --beam 4 --lenpen 0.6"""


def parser() -> Parser:
    """Return the parser of the command line."""
    usage = "%(prog)s CHECKPOINT[:CHECKPOINT2...] DATA OUT_DIR [options] [options of fairseq-generate]"
    parser = Parser(program(NAME), DESCRIPTION, EPILOG, usage=usage)
    add = parser.add_argument
    add("checkpoints", metavar="CHECKPOINT", help="checkpoint, or ensemble with colons between checkpoints")
    add("data", type=Path, metavar="DATA", help="data folder")
    add("out", type=Path, metavar="OUT_DIR", help="folder to make")
    add("--subset", "--gen-subset", default="test", metavar="SUBSET", help="subset: valid, test1, ... (default: test)")
    add("--reverse", action="store_true", help="translate the other way, from DATA's target language to its source "
        "language; DATA must have no placeholders")  # fmt: skip
    add("--nbest", metavar="N", help="number of best translations of each sentence to write to OUT_DIR/nbest.tsv. "
        "Its columns are sentence (from 0), rank, subwords, and features as name=value: model (log P in nats), length, "
        "coverage, unk.")  # fmt: skip
    add("--glossary", type=Path, metavar="FILE", help="glossary to follow: on each line a term, a tab, and its "
        "translation. If the output lacks it, the sentence is translated again with it beside the term. Needs models "
        "and data of deepnmt preprocess --glossary-training (docs/glossary.md).")  # fmt: skip
    add("--terms", type=Path, metavar="FILE", help="terms, as for --glossary, whose translations are forced. The "
        "output has the translation wherever the source has the term, for any model, but the rest of the sentence "
        "suffers. Slower; cannot be combined with this package's search options.")  # fmt: skip
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Translate the subset that a command line names."""
    given, options = parser().parse_before_options(words, "fairseq-generate")
    from deepnmt.generation.translated_subset import TranslatedSubset  # takes longer than --help may
    from deepnmt.text.translated_folder import data_settings

    if given.nbest:
        options += ["--nbest", given.nbest]
    checkpoints = [Path(path) for path in given.checkpoints.split(os.pathsep)]
    places = checkpoints, given.data, given.out, given.subset
    TranslatedSubset(*places, given.reverse, given.terms, given.glossary, options).make(program(NAME))
    target = data_settings(given.data, given.reverse).target_lang
    print(f"{given.out} is ready: translations in {given.out}/hyp.{target}")
