"""Moses' rules, by sacremoses, which knows languages only without regions: en's rules serve for en-US."""

import re
from collections.abc import Callable
from functools import partial

from deepnmt.text.languages import main_language

Step = Callable[[str], str]
# More than a word may have: a text with such a run is refused once it is in tokens.
LONG_RUN = re.compile(r"\.{1001}")


def punctuation_normaliser(language: str, pre_replace_unicode_punct: bool = False) -> Step:
    """Return what normalises a line's punctuation by the rules of a language, perhaps with Unicode's to ASCII first."""
    from sacremoses import MosesPunctNormalizer

    lang = main_language(language)
    normalizer = MosesPunctNormalizer(lang=lang, pre_replace_unicode_punct=pre_replace_unicode_punct)

    def normalize(text: str) -> str:
        # A rule of de, es and fr takes time that grows with the square of a run of dots.
        dotted = text.replace("…", "...")
        return dotted if LONG_RUN.search(dotted) else str(normalizer.normalize(text))

    return normalize


def ascii_punctuation() -> Step:
    """Return the function that only turns Unicode's punctuation in a line into ASCII."""
    from sacremoses import MosesPunctNormalizer

    replace: Step = MosesPunctNormalizer().replace_unicode_punct
    return replace


def tokeniser(language: str) -> Step:
    """Return the function that turns a line into tokens of a language with spaces between them."""
    from sacremoses import MosesTokenizer

    return partial(MosesTokenizer(lang=main_language(language)).tokenize, return_str=True)


def detokeniser(language: str) -> Step:
    """Return the function that turns tokens of a language into a line."""
    from sacremoses import MosesDetokenizer

    detokenize = MosesDetokenizer(lang=main_language(language)).detokenize
    return lambda tokens: str(detokenize(tokens.split()))
