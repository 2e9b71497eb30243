"""`deepnmt preprocess`: turn raw parallel text into the binarised data that fairseq reads."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from deepnmt.console import Parser, add_workers, decimal, program, single_threaded, whole
from deepnmt.preparation.preprocessing import MERGES, PAIR_COUNT, TYPES, Preprocessing
from deepnmt.text.in_order import cores

NAME = "preprocess"
MOST = 2**31 - 1
DESCRIPTION = """Turn parallel text, PREFIX.LANG with one sentence per line, into binarised data. Tokenise, learn and
apply a joint BPE (subword-nmt), count types, and write fairseq's files."""
EPILOG = """DIR gets fairseq's dict.LANG.txt, *.bin and *.idx, and the codes of the subwords. preprocess.json has
settings, checksums of the input, counts, and sizes of the files; preprocess.log has the share of unknown tokens in each
text. text/SPLIT.KIND.LANG are the texts, where KIND is raw, tok (tokenised) or bpe. DIR appears only when everything is
done. Run again with the same input and options, the command checks the files and does nothing.

With --copies, DIR holds the first copy, and DIR/copy1, DIR/copy2, ... the others. Train on all, an epoch each, with
deepnmt train RECIPE DIR:DIR/copy1:DIR/copy2:... SAVE. The dictionary has the types of the text without dropout and
every symbol that dropout can leave; text/train.bpe.LANG is without dropout.

example:
  deepnmt preprocess --source-lang de --target-lang en --train raw/train --valid raw/valid --test raw/test \\
      --dest data/de-en --bpe-merges 8000"""


def main(words: Sequence[str] | None = None) -> None:
    """Make the data folder that a command line describes."""
    given = vars(parser().parse_args(words))
    workers = given.pop("workers")
    single_threaded()
    preprocess(Preprocessing(**given), workers)


def preprocess(options: Preprocessing, workers: int | None = None) -> None:
    """Make a data folder, unless the same one is there, by default with a process per core.

    Raises:
        UserError: options or texts do not match, or the folder belongs to another job
    """
    options.check()
    # They import numpy.
    from deepnmt.jobs.data_job import DataJob
    from deepnmt.preparation.data_pipeline import Pipeline

    job = DataJob(program(NAME), options.dest, made_with=options.record(), option="--dest")
    made = job.make(lambda folder: Pipeline(folder, options, workers or cores()).run())
    if made and options.copies:
        copies = [f"{options.dest}/copy{number}" for number in range(1, options.copies)]
        print(f"train on all copies with: deepnmt train RECIPE {':'.join([str(options.dest), *copies])} SAVE")


def parser() -> Parser:
    """Return the parser of the command line, with the defaults of `Preprocessing`."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    _add_places(parser)
    _add_text(parser)
    _add_subwords(parser)
    add = parser.add_argument_group("more training pairs").add_argument
    add("--bpe-dropout", type=decimal("--bpe-dropout"), metavar="P", help="probability of leaving out each merge, in N "
        "segmentations of the training text (default: no dropout); for bpe and wordpiece")  # fmt: skip
    add("--unigram-sampling", type=decimal("--unigram-sampling"), metavar="A", help="sharpness of random cuts by the "
        "unigram model, in N segmentations of the training text: 1 draws by its probabilities, smaller numbers more "
        "evenly; for unigram")  # fmt: skip
    add("--copies", type=whole("--copies", 1, 1000), metavar="N", help="number of copies for --bpe-dropout or "
        "--unigram-sampling, with seeds 1 to N")  # fmt: skip
    add("--glossary-training", type=decimal("--glossary-training"), metavar="SHARE", help="share of the training "
        "pairs, such as 0.5, that get an additional pair. Its source has the translations of some of its terms beside "
        "them: a model thus learns to follow a glossary (docs/glossary.md). Terms come from a word "
        "alignment.")  # fmt: skip
    add_workers(parser)
    parser.set_defaults(**{each.name: each.default for each in fields(Preprocessing)[4:] if each.default != ()})
    return parser


def _add_places(parser: Parser) -> None:
    add = parser.add_argument_group("text and place").add_argument
    add("--source-lang", required=True, metavar="LANG", help="language of the source, and ending of its files")
    add("--target-lang", required=True, metavar="LANG", help="language of the target, and ending of its files")
    add("--train", required=True, metavar="PREFIX", help="training text; pairs that are empty, too long or out of "
        "ratio are skipped and counted. In all texts, so are pairs with a word of over 1,000 characters.")  # fmt: skip
    add("--valid", metavar="PREFIX", help="validation text; pairs with an empty side are skipped and counted")
    add("--valid-every", type=whole("--valid-every", 2, MOST), metavar="N", help="interval: every Nth remaining "
        "training pair is for validation, in place of --valid")  # fmt: skip
    add("--test", action="append", default=[], metavar="PREFIX", help="test text, as --valid; repeatable for the "
        "subsets test, test1, ... (default: no tests)")  # fmt: skip
    add("--dest", type=Path, required=True, metavar="DIR", help="folder to make; it must not exist, unless the same "
        "command made it")  # fmt: skip
    add("--max-len", type=whole("--max-len", 0, MOST), metavar="N", help="longest side of a training pair, in words "
        "before BPE (default: 175); 0: no limit. In a language without spaces, such as zh, ja or th, each character "
        "is a word.")  # fmt: skip
    add("--max-ratio", type=decimal("--max-ratio"), metavar="R", help="highest ratio of the two lengths of a training "
        "pair, in the same words (default: 0, no limit)")  # fmt: skip


def _add_text(parser: Parser) -> None:
    add = parser.add_argument_group("tokens").add_argument
    add("--pretokenized", action="store_true", help="take text already normalised and tokenised; fairseq's <s>, "
        "</s>, <pad> and <unk> are refused")  # fmt: skip
    add("--raw-valid", metavar="PREFIX", help="untokenised text of --valid, needed for detokenised scores of "
        "--pretokenized text (default: no text)")  # fmt: skip
    add("--raw-test", action="append", default=[], metavar="PREFIX", help="untokenised text of --test, once for "
        "each (default: no text)")  # fmt: skip
    add("--normalise", metavar="STEPS", help="steps, comma-separated, that unify variants of characters before "
        "tokenisation: width (full-width and small forms), nfkc (Unicode's NFKC), punctuation (Unicode's punctuation "
        "to ASCII), simplified (traditional Chinese). They are done in this order.")  # fmt: skip
    add("--keep-punctuation", action="store_true", help="no effect: punctuation is kept anyway (earlier versions "
        "normalised it; today --normalise punctuation does)")  # fmt: skip
    add("--lowercase", action="store_true", help="lower-case all text by the rules of its language; scores are then "
        "case-insensitive")  # fmt: skip
    add("--truecase", action="store_true", help="give the first word of each sentence its most frequent form elsewhere "
        "in the training text. deepnmt generate and deepnmt translate capitalise sentences "
        "again.")  # fmt: skip
    add("--segment", metavar="jieba", help="jieba: cut Chinese into words (pip install 'deepnmt[chinese]')")
    add("--protect", type=Path, metavar="FILE", help="patterns, a regular expression per line; matching words are "
        "cut neither by the tokeniser nor into subwords")  # fmt: skip
    add("--placeholders", metavar="KINDS", help="numbers, urls, or numbers,urls, which tags replace: in training where "
        "both sides of a pair agree, in translation always. The originals are then put back in their "
        "order.")  # fmt: skip


def _add_subwords(parser: Parser) -> None:
    add = parser.add_argument_group("subwords").add_argument
    add("--subwords", metavar="KIND", help="bpe (subword-nmt), wordpiece, unigram (learnt by sentencepiece), or char "
        "(default: bpe)")  # fmt: skip
    add("--bpe-merges", type=whole("--bpe-merges", 1, MOST), metavar="N", help="merge operations of the BPE, learnt "
        f"on both languages together (default: {MERGES})")  # fmt: skip
    add("--vocabulary", type=whole("--vocabulary", 1, MOST), metavar="N", help="number of subword types, including "
        f"characters (default for wordpiece and unigram: {TYPES}); for bpe in place of --bpe-merges; not for "
        "char")  # fmt: skip
    add("--min-pair-count", type=whole("--min-pair-count", 1, MOST), metavar="N", help="number of times that two word "
        f"pieces must be adjacent to be merged (default: {PAIR_COUNT})")  # fmt: skip
    add("--separate", action="store_true", help="learn the subwords of each language separately")
    add("--separate-dictionaries", action="store_true", help="make a dictionary for each language (default: one for "
        "both)")  # fmt: skip
    add("--vocabulary-threshold", type=whole("--vocabulary-threshold", 0, MOST), metavar="N", help="count below "
        "which a type of a language's training text is split again")  # fmt: skip
    add("--spell-unknown", action="store_true", help="cut a word into characters if it would have a type that is "
        "missing in the training text")  # fmt: skip
    add("--byte-fallback", action="store_true", help="cut characters that the training text lacks into bytes: no token "
        "is unknown. With --vocabulary-threshold, cut rare characters too, which trains the bytes.")  # fmt: skip
