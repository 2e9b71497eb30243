"""True case for texts in tokens: a text at a time, or those of several languages side by side."""

import os
import sys
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path
from typing import Optional

from deepnmt.errors import UserError
from deepnmt.text.pipeline import whole_units
from deepnmt.text.settings import TextSettings
from deepnmt.text.text_rewriting import Lines, Rewriter, rewrite
from deepnmt.text.truecase import Truecaser, learn, model_name, sentence_case


def learn_case(text: Path, model: Path, language: str) -> None:
    """Write the model of a text, by the rules of a language; see `deepnmt.text.truecase.learn`."""
    if os.path.realpath(model) == os.path.realpath(text):
        raise UserError(f"MODEL must be another file than TEXT, but is {model}")
    print(f"{learn(text, model, language)} words in {model}", file=sys.stderr)


def case_like(
    data: Path, settings: TextSettings, languages: Sequence[str], texts: Sequence[Path], workers: int
) -> None:
    """Give texts the true case of a data folder, in their place.

    Args:
        data: with the models
        settings: of the data
        languages: of the texts
        texts: in tokens
        workers: processes, at most
    """
    cases = [(data / model_name(language), settings.case_language(language)) for language in languages]
    rewrite(partial(_caser, cases, whole_units(settings)), texts, texts, workers, "casing")


def apply_case(model: Path, text: Path, output: Path, language: str, workers: int) -> None:
    """Write a text in true case. Raises `UserError` if a file is faulty."""
    rewrite(partial(_caser, [(model, language)], ()), [text], [output], workers, "casing")


def undo_case(text: Path, output: Path, language: str, workers: int) -> None:
    """Write a text whose sentences begin with a capital. Raises `UserError` if a line is not UTF-8."""
    rewrite(partial(_each, [partial(sentence_case, language=language)]), [text], [output], workers, "casing")


def _caser(cases: Sequence[tuple[Path, Optional[str]]], units: Container[str]) -> Rewriter:
    return _each([Truecaser(model, units, language) for model, language in cases])


def _each(functions: Sequence[Callable[[str], str]]) -> Rewriter:
    """Return what does one function to each of the texts."""

    def all_sides(numbered: tuple[int, Lines]) -> Lines:
        return tuple(function(line) for function, line in zip(functions, numbered[1]))

    return all_sides
