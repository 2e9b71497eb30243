"""`deepnmt clean`: keep the pairs of a corpus that are worth training on."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from deepnmt.console import Parser, add_workers, program, single_threaded, whole
from deepnmt.corpus.cleaning.filter_recipe import OPTIONS, joined, parse_filter, read_recipe
from deepnmt.corpus.cleaning.filters import KINDS
from deepnmt.text.in_order import cores

if TYPE_CHECKING:
    from deepnmt.corpus.cleaning.clean_job import Options

NAME = "clean"
MOST = 1_000_000
DESCRIPTION = """Read parallel text, PREFIX.LANG with one sentence per line, and keep the pairs that pass all filters,
unchanged and in their order. Each removed pair is counted under the first filter that it fails."""
FILTERS = """Pairs pass the recipe's filters in its order, then the others in the order of the command line. Each can
also be a line of the recipe, without the dashes. A filter without a value has its default. Unnamed filters are off."""
SCORES = "One score from many, and words that would be unseen; in a recipe too."
EPILOG = """Writes OUTPUT.LANG; OUTPUT.report.txt with each filter's removals and examples; and OUTPUT.report.html,
the same with histograms. OUTPUT.clean.json has options, checksums and counts. Unfinished work is kept in OUTPUT.parts.
The command can be stopped at any moment; run it again to resume. Any number of starts and processes gives equal files.

examples:

    deepnmt clean --input raw/train --output raw/clean --source-lang de --target-lang en --recipe configs/clean.txt
    deepnmt clean --input raw/train --output raw/clean --source-lang de --target-lang en --ratio 0.5:2 --dedup pair"""


def main(words: Optional[Sequence[str]] = None) -> None:
    """Clean the corpus that a command line names."""
    given = parser().parse_args(words)
    single_threaded()
    # It imports numpy.
    from deepnmt.corpus.cleaning.clean_steps import clean

    clean(program(NAME), options_of(given), given.input, given.output, given.rejected, given.workers or cores())


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("--input", required=True, metavar="PREFIX", help="corpus to read")
    add("--output", type=Path, required=True, metavar="PREFIX", help="files to write")
    add("--source-lang", required=True, metavar="LANG", help="source language")
    add("--target-lang", required=True, metavar="LANG", help="target language")
    add("--recipe", type=Path, metavar="FILE", help="recipe, a filter a line; the same filters as options override it")
    add("--rejected", default="", metavar="PREFIX",
        help="files for the removed pairs (PREFIX.LANG) and for line number and filter (PREFIX.reason)")  # fmt: skip
    add("--score", default="", metavar="OUT.tsv", help="file for all measures and the score of each pair, a line each")
    add("--chunk", type=whole("--chunk", 1, MOST), default=20_000, metavar="N",
        help="number of pairs that a process measures at a time (default: 20000)")  # fmt: skip
    add_workers(parser)
    add = parser.add_argument_group("filters", FILTERS).add_argument
    for name, kind in KINDS.items():
        flag, default = f"--{name}" if name != "score" else "--score-filter", f" (default: {kind.default})"
        add(flag, dest="filters", action=FilterAction, nargs="?" if kind.default else None, const="", default=[],
            metavar=kind.syntax, help=kind.text + (default if kind.default else ""))  # fmt: skip
    add = parser.add_argument_group("scores", SCORES).add_argument
    for name, option in OPTIONS.items():
        if option.metavar:
            add(f"--{name}", metavar=option.metavar, help=option.help)
        else:
            add(f"--{name}", action="store_const", const="", help=option.help)
    add("--seed", type=whole("--seed", 0, 2**31 - 1), default=1, metavar="S", help="seed of broken pairs (default: 1)")
    return parser


def options_of(given: Namespace) -> "Options":
    """Return the options that decide which pairs are kept, from the recipe and the command line."""
    from deepnmt.corpus.cleaning.clean_job import Options

    filters, said = read_recipe(given.recipe) if given.recipe else ([], {})
    own = {name: getattr(given, name.replace("-", "_")) for name in OPTIONS}
    said |= {name: value for name, value in own.items() if value is not None}
    return Options(
        given.source_lang,
        given.target_lang,
        joined(filters, given.filters),
        given.chunk,
        lexicon=said.get("lexicon", ""),
        language_models=tuple(said.get("language-models", "").split()),
        classifier=said.get("classifier", ""),
        train_classifier="train-classifier" in said,
        rank_by=said.get("rank-by", ""),
        keep_best=said.get("keep-best", ""),
        keep_unseen=whole("--keep-unseen", 0, MOST)(said.get("keep-unseen", "0")),
        seed=given.seed,
        scores=given.score,
    )


class FilterAction(Action):
    """Collects the filters in the order of the command line."""

    def __call__(self, parser: ArgumentParser, space: Namespace, value: object, option: str | None = None) -> None:
        """Append a filter."""
        name = str(option).removeprefix("--").removesuffix("-filter")
        space.filters = [*space.filters, parse_filter(name, str(value or ""), str(option))]
