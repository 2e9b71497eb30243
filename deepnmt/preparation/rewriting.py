"""Rewrites texts line by line, on all cores: true case, tags, subwords with dropout."""

import os
import random
import sys
from collections.abc import Callable, Container, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.preparation.stage_bar import Done, Stages, unseen
from deepnmt.text.in_order import Block, blocks_in_order, lines_of
from deepnmt.text.lines import check_parallel
from deepnmt.text.pipeline import placeholders_of, whole_units
from deepnmt.text.placeholders import first_tag
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords
from deepnmt.text.truecase import Truecaser, learn, model_name, sentence_case

Lines = tuple[str, ...]
Rewriter = Callable[[tuple[int, Lines]], Lines]


def rewrite(function: Rewriter, sources: Sequence[Path], targets: Sequence[Path], workers: int, done: Done) -> None:
    """Write a function's result for each line, or for each line of several parallel texts.

    Args:
        function: function of a line's number, from 0, and its text in each of the sources
        sources: texts to read
        targets: as many texts to write; each appears when it is complete, and may be a source
        workers: maximum number of processes
        done: told of the parts that are done

    Raises:
        UserError: the texts are empty, or of different lengths, a line is not UTF-8, or the disk is full
    """
    total = check_parallel(sources)
    with ExitStack() as stack:
        temporary = [stack.enter_context(whole_file(path)) for path in targets]
        files = [stack.enter_context(path.open("wb")) for path in temporary]
        for lines, texts in blocks_in_order(_of_block(function, sources), sources, workers, total):
            for file, text in zip(files, texts):
                file.write(text)
            done(lines / total)


def _of_block(function: Rewriter, sources: Sequence[Path]) -> Callable[[Block], tuple[int, list[bytes]]]:
    """Return the function that rewrites a block of lines; it returns their number and the new texts."""

    def rewritten(block: Block) -> tuple[int, list[bytes]]:
        first, texts = block
        lines = zip(*(lines_of(text, str(path), first) for text, path in zip(texts, sources)))
        made = list(map(function, enumerate(lines, start=first - 1)))
        return len(made), ["\n".join([*side, ""]).encode() for side in zip(*made)]

    return rewritten


def learn_case(text: Path, model: Path, language: str) -> None:
    """Write the model of a text, by the rules of a language; see `deepnmt.text.truecase.learn`."""
    if os.path.realpath(model) == os.path.realpath(text):
        raise UserError(f"MODEL must be another file than TEXT, but is {model}")
    print(f"{learn(text, model, language)} words in {model}", file=sys.stderr)


def case_like(
    data: Path,
    settings: TextSettings,
    languages: Sequence[str],
    texts: Sequence[Path],
    workers: int,
    done: Done = unseen,
) -> None:
    """Give texts the true case of a data folder, in their place.

    Args:
        data: folder with the models
        settings: settings of the data
        languages: languages of the texts
        texts: texts in tokens
        workers: maximum number of processes
        done: told of the parts that are done
    """
    cases = [(data / model_name(language), settings.case_language(language)) for language in languages]
    rewrite(_caser(cases, whole_units(settings)), texts, texts, workers, done)


def apply_case(model: Path, text: Path, output: Path, language: str, workers: int) -> None:
    """Write a text in true case. Raises `UserError` if a file is faulty."""
    with Stages({"casing": 1}) as stages, stages.stage("casing") as done:
        rewrite(_caser([(model, language)], ()), [text], [output], workers, done)


def undo_case(text: Path, output: Path, language: str, workers: int) -> None:
    """Write a text whose sentences begin with a capital. Raises `UserError` if a line is not UTF-8."""
    with Stages({"casing": 1}) as stages, stages.stage("casing") as done:
        rewrite(_each([partial(sentence_case, language=language)]), [text], [output], workers, done)


def _caser(cases: Sequence[tuple[Path, str | None]], units: Container[str]) -> Rewriter:
    return _each([Truecaser(model, units, language) for model, language in cases])


def _each(functions: Sequence[Callable[[str], str]]) -> Rewriter:
    """Return the rewriter that applies one function to each of the texts."""

    def all_sides(numbered: tuple[int, Lines]) -> Lines:
        return tuple(function(line) for function, line in zip(functions, numbered[1]))

    return all_sides


def tag(
    settings: TextSettings,
    texts: Sequence[Path],
    outputs: Sequence[Path],
    training: bool,
    workers: int,
    done: Done = unseen,
) -> None:
    """Write both sides of a split with tags.

    Args:
        settings: settings of the data, which name the kinds of tags
        texts: texts of source and target, in tokens
        outputs: files to write
        training: tag the source as its target, and not all its units, as in translation
        workers: maximum number of processes
        done: told of the parts that are done

    Raises:
        UserError: a tag occurs in the text
    """
    names = tuple(path.name for path in texts)
    rewrite(_tagger(settings, names, training), texts, outputs, workers, done)


def _tagger(settings: TextSettings, names: Sequence[str], training: bool) -> Rewriter:
    placeholders = placeholders_of(settings)
    tags = list(placeholders.patterns)
    lowers = [settings.casing(language).lower for language in settings.languages]

    def tagged(numbered: tuple[int, Lines]) -> Lines:
        number, lines = numbered
        for name, line in zip(names, lines):
            if found := first_tag(line, tags):
                raise UserError(
                    f"{name}:{number + 1}: must not have the tag {found}, which --placeholders uses, but does"
                )
        source, target = lines
        both = placeholders.tagged_pair(source, target)
        if not training:
            both = placeholders.tagged(source), both[1]
        # Addresses without a tag, which keep their case until now, are words like others.
        return tuple(lower(side) for lower, side in zip(lowers, both)) if settings.lowercase else both

    return tagged


@dataclass(frozen=True)
class Dropout:
    """How text is cut at random.

    Attributes:
        folder: folder with the codes
        settings: settings of its data
        languages: languages of the texts that are cut side by side
        probability: probability with which a merge is left out, or the sharpness of a unigram model's draws
        seed: seed of the draws
    """

    folder: Path
    settings: TextSettings
    languages: tuple[str, ...]
    probability: float
    seed: int

    def write(self, texts: Sequence[Path], outputs: Sequence[Path], workers: int, done: Done = unseen) -> None:
        """Write texts in subwords.

        Args:
            texts: texts in tokens, one of each language
            outputs: files to write
            workers: maximum number of processes
            done: told of the parts that are done

        Raises:
            UserError: a text or the codes are faulty, or the disk is full
        """
        rewrite(_segmenter(self), texts, outputs, workers, done)


def _segmenter(how: Dropout) -> Rewriter:
    """Return the function that cuts lines, by random numbers that the line's number seeds."""
    cutters = [Subwords(how.folder, how.settings, language) for language in how.languages]

    def segment(numbered: tuple[int, Lines]) -> Lines:
        number, lines = numbered
        cut = []
        for cutter, line in zip(cutters, lines):
            # The same whatever the number of processes.
            random.seed(f"{how.seed} {number}")
            cut.append(cutter(line, how.probability))
        return tuple(cut)

    return segment
