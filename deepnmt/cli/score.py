"""`deepnmt score`: score a folder of translations, or two texts."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from deepnmt.console import Parser, program
from deepnmt.errors import UserError
from deepnmt.options.option_table import option

if TYPE_CHECKING:
    from deepnmt.text.corpus_scores import Scores

DESCRIPTION = """Score a folder made by deepnmt generate, or a text and its reference, one sentence per line.
The scores of a folder are also written to OUT_DIR/scores.json."""
EPILOG = """Scores:

    tokenised BLEU    on tokens, as in papers on small corpora (as multi-bleu.perl, fairseq-score)
    compounds split   with --split-compounds: tokenised BLEU with words split at hyphens in both texts (as fairseq's
                      compound_split_bleu.sh); usually a little higher
    BLEU, chrF, TER   on detokenised translations and the raw reference, by sacrebleu, with signatures: comparable
                      with published scores. Case-insensitive if the data was lower-cased.
    chrF++            with --chrf: chrF with words. Without a raw reference, chrF and chrF++ are on tokens.
    COMET             with --comet: score of a trained model, times 100, computed in a separate environment
examples:
  deepnmt score results/de-en
  deepnmt score translations.en reference.en
  deepnmt score results/de-en --comet model.ckpt --comet-python ~/comet/bin/python --source test.de"""
# sacrebleu's tokenisations that need neither a download nor another package.
TOKENIZERS = ("13a", "intl", "zh", "char", "none")
# Options of only one of the two forms.
OF_FOLDERS = ("reverse",)
OF_TEXTS = ("language", "tokenizer", "lowercase", "pretokenized")


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program("score"), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("translations", type=Path, metavar="OUT_DIR|HYP", help="folder made by deepnmt generate, or text to score")
    add("reference", type=Path, nargs="?", metavar="DATA|REF", help="data folder, if OUT_DIR has no generate.json, "
        "or reference of HYP")  # fmt: skip
    add("--reverse", action="store_true", help="score the other direction, from DATA's target to its source")
    add("--split-compounds", action="store_true", help="also score tokenised BLEU with words split at hyphens")
    add("--chrf", action="store_true", help="also score chrF++; without a raw reference, chrF and chrF++ of tokens")
    add("--comet", type=Path, metavar="MODEL", help="checkpoint of COMET, for a COMET score")
    add("--comet-python", metavar="PYTHON", help="Python of an environment with unbabel-comet, for --comet")
    add("--source", type=Path, metavar="FILE", help="raw text of the source, for --comet")
    add("--output", type=Path, metavar="FILE", help="file for JSON scores (default: OUT_DIR/scores.json, if given)")
    texts = parser.add_argument_group("options of two texts").add_argument
    texts("--language", metavar="LANG", help="language of both texts (default: the ending of REF, as in reference.zh)")
    texts("--tokenizer", choices=TOKENIZERS, help="sacrebleu's tokenisation for BLEU (default: 13a; zh for Chinese; "
          "char for other languages without spaces)")  # fmt: skip
    texts("--lowercase", action="store_true", help="ignore case, by the rules of the language")
    texts("--pretokenized", action="store_true", help="score tokenised BLEU alone: the texts are tokens")
    parser.needs("--comet-python", "--comet")
    parser.needs("--source", "--comet")
    return parser


def main(words: Optional[Sequence[str]] = None) -> None:
    """Score the translations that a command line names, and print the scores."""
    given = parser().parse_intermixed_args(words)
    place: Path = given.translations
    if not place.exists():
        raise UserError(f"{place}: {'not found' if given.reference else 'no such folder'}")
    check_options(given)
    from deepnmt.text import corpus_scores as scores  # sacrebleu takes longer than --help may
    from deepnmt.text.record import write_record

    if place.is_dir():
        options = given.reverse, given.split_compounds, given.output, given.chrf
        found = scores.score_result(place, given.reference, *options, partial(comet, given))
    else:
        found = {**score_texts(given), **comet(given, place, given.reference)}
        if given.output:
            write_record(given.output, found)
    print(scores.shown(found))
    if "BLEU" not in found and place.is_dir():
        print("no detokenised scores: the data was --pretokenized, and has no --raw-test or --raw-valid text")


def check_options(given: Namespace) -> None:
    """Raise `UserError` for an option that does not apply to the translations, or for a missing file."""
    from deepnmt.text.comet import find_python  # here, since --help need not wait for it

    folder = given.translations.is_dir()
    if not folder and given.reference is None:
        raise UserError(f"{given.translations} is a text, which needs a reference, REF")
    if wrong := [name for name in (OF_TEXTS if folder else OF_FOLDERS) if getattr(given, name)]:
        raise UserError(*(f"--{name} needs {'texts' if folder else 'a folder'}" for name in wrong))
    needed = {"comet_python": "the Python of an environment with unbabel-comet", "source": "the raw text of the source"}
    for name, what in needed.items():
        if given.comet and not getattr(given, name):
            raise UserError(f"--comet needs {option(name)}, {what}")
    if given.comet and given.pretokenized:
        raise UserError("--comet cannot be combined with --pretokenized")
    if given.comet:
        # The other scores take minutes for a large text.
        find_python(given.comet, given.comet_python)
        if not given.source.is_file():
            raise UserError(f"--source: {given.source} not found")
    if given.tokenizer and given.pretokenized:
        raise UserError("--tokenizer cannot be combined with --pretokenized")
    if given.split_compounds and not folder and not given.pretokenized:
        raise UserError("--split-compounds needs --pretokenized, since it splits tokens")


def score_texts(given: Namespace) -> "Scores":
    """Return the scores of a text. Raises `UserError` if its reference has another number of lines."""
    from deepnmt.text import corpus_scores as scores
    from deepnmt.text.casing import Casing

    texts = scores.read_pair(given.translations, given.reference)
    language = given.language or given.reference.suffix[1:]
    if given.pretokenized:
        lower = Casing(language).lower if given.lowercase else str
        texts = [*map(lower, texts[0])], [*map(lower, texts[1])]
        return scores.score_tokens(texts, language, given.split_compounds, given.chrf)
    return scores.score_text(texts, language, given.lowercase, language, given.tokenizer or "", given.chrf)


def comet(given: Namespace, hypothesis: Path, reference: Path) -> "Scores":
    """Return the score of --comet for two texts. Raises `UserError` if a file is missing, or COMET fails."""
    if not given.comet:
        return {}
    from deepnmt.text import corpus_scores as scores
    from deepnmt.text.comet import comet_score

    if not reference.is_file():
        raise UserError(f"--comet needs a raw reference, but {reference} was not found")
    texts, (sources, _) = scores.read_pair(hypothesis, reference), scores.read_pair(given.source, reference)
    return {"COMET": comet_score(given.comet, given.comet_python, sources, *texts)}
