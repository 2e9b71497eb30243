"""Training pairs with inline targets: the part `train1` of the training set, for both directions.

fairseq joins train1 to train, and takes train1.de-en before train1.en-de where it translates from de to en.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

from deepnmt.console import whole_file
from deepnmt.corpus.alignment.grow_diag import Link, parse_line
from deepnmt.corpus.alignment.term_examples import TermExamples
from deepnmt.errors import UserError
from deepnmt.text.in_order import lines_in_order
from deepnmt.text.inline_targets import PART, cut_inline
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords


def part_name(settings: TextSettings) -> str:
    """Return the name of the pairs of a direction."""
    return f"{PART}.{'-'.join(settings.languages)}"


def make_inline(
    folder: Path, settings: TextSettings, texts: Mapping[str, Path], alignment: Path, share: float, workers: int
) -> dict[str, int]:
    """Write the pairs of one direction in subwords, FOLDER/text/NAME.bpe.LANG, and return the counts.

    Args:
        folder: folder of the data in the making, with record and codes
        settings: settings of the data, or `reversed()`
        texts: texts of the training set in tokens, by language
        alignment: alignment of these texts, source words of the data first
        share: share of the training pairs that get another one with inline targets
        workers: number of processes that cut words

    Raises:
        UserError: no pair has a term
    """
    examples = TermExamples(share)
    turned = settings.languages != TextSettings.read(folder).languages
    with ExitStack() as stack:
        paths = [
            stack.enter_context(whole_file(folder / "text" / f"{part_name(settings)}.bpe.{language}"))
            for language in settings.languages
        ]
        files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
        pairs = examples(_aligned([texts[language] for language in settings.languages], alignment, turned))
        most = count_lines(alignment)
        for sides in lines_in_order(partial(_cutter, folder, settings), pairs, workers, most):
            for file, side in zip(files, sides):
                file.write(side + "\n")
    if not examples.made.kept:
        raise UserError(f"--glossary-training: no pair has a term of {settings.source_lang}; is there more text?")
    return asdict(examples.made)


def _aligned(texts: Sequence[Path], alignment: Path, turned: bool) -> Iterator[tuple[str, str, list[Link]]]:
    """Yield pairs of lines and their links; `turned` where the alignment is of the other direction."""
    for number, (source, target, line) in enumerate(zip(*map(read_lines, (*texts, alignment))), start=1):
        words, others = source.split(), target.split()
        sizes = len(words), len(others)
        links = parse_line(line, *(sizes[::-1] if turned else sizes), f"{alignment}:{number}")
        yield source, target, [(j, i) for i, j in links] if turned else links


def _cutter(folder: Path, settings: TextSettings) -> Callable[[tuple[str, str]], tuple[str, str]]:
    """Return the function that cuts a pair into subwords."""
    source, target = (Subwords(folder, settings, language) for language in settings.languages)
    return lambda pair: (cut_inline(pair[0], source, target), target(pair[1]))
