"""Moses' rules, by sacremoses, which knows languages only without regions: en's rules serve for en-US."""

import functools
import importlib
import re
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from deepnmt.text.languages import main_language

Step = Callable[[str], str]
# More than a word may have: a text with such a run is refused once it is in tokens.
LONG_RUN = re.compile(r"\.{1001}")
# Characters of an expression that lists all letters of Unicode.
LONG_EXPRESSION = 1_000


@functools.cache
def sacremoses() -> Any:
    """Return the library, in a fifth of the usual time of its import.

    Of two dozen expressions with all letters, a line needs one or two: they are compiled on first use. Libraries that
    only the library's own commands and functions for XML need are imported by them.
    """
    needless = "joblib", "tqdm", "xml.sax.saxutils"
    compiled, stand_ins = re.compile, [name for name in needless if name not in sys.modules]

    def compile_(pattern: Any, flags: int = 0) -> Any:
        is_long = isinstance(pattern, str) and len(pattern) > LONG_EXPRESSION
        return _Expression(partial(compiled, pattern, flags)) if is_long else compiled(pattern, flags)

    re.compile = compile_
    sys.modules.update({name: _Later(name) for name in stand_ins})
    try:
        import sacremoses
    finally:
        re.compile = compiled
        for name in stand_ins:
            del sys.modules[name]
    return sacremoses


class _Expression:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, compiled: Callable[[], Any]) -> None:
        self._compiled = functools.cache(compiled)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled(), name)


class _Later(ModuleType):
    """A library whose functions import it when they are called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *values, **named: getattr(importlib.import_module(self.__name__), name)(*values, **named)


def punctuation_normaliser(language: str, pre_replace_unicode_punct: bool = False) -> Step:
    """Return what normalises a line's punctuation by the rules of a language, perhaps with Unicode's to ASCII first."""
    lang = main_language(language)
    normalizer = sacremoses().MosesPunctNormalizer(lang=lang, pre_replace_unicode_punct=pre_replace_unicode_punct)

    def normalize(text: str) -> str:
        # A rule of de, es and fr takes time that grows with the square of a run of dots.
        dotted = text.replace("…", "...")
        return dotted if LONG_RUN.search(dotted) else str(normalizer.normalize(text))

    return normalize


def ascii_punctuation() -> Step:
    """Return the function that only turns Unicode's punctuation in a line into ASCII."""
    replace: Step = sacremoses().MosesPunctNormalizer().replace_unicode_punct
    return replace


def tokeniser(language: str) -> Step:
    """Return the function that turns a line into tokens of a language with spaces between them."""
    return partial(sacremoses().MosesTokenizer(lang=main_language(language)).tokenize, return_str=True)


def detokeniser(language: str) -> Step:
    """Return the function that turns tokens of a language into a line."""
    detokenize = sacremoses().MosesDetokenizer(lang=main_language(language)).detokenize
    return lambda tokens: str(detokenize(tokens.split()))
