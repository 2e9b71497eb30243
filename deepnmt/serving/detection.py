"""The language of a text, among the languages that a server translates from, by the library py3langid."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from deepnmt.text.languages import main_language

# Of a longer text, the beginning tells.
LONGEST = 2_000


class Detector:
    """Detects languages.

    With one language there is nothing to tell apart, and the library's model, of 120 MB in memory, is not loaded. A
    language that the library does not know is never detected.

    Args:
        languages: that a text may have
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = list(languages)
        self._names: dict[str, str] = {}
        if len(languages) > 1:
            # Of two variants of a language, the first.
            names = {main_language(language): language for language in reversed(self.languages)}
            self._identifier = copy.copy(_identifier())
            self._names = {name: names[name] for name in self._identifier.labels if name in names}
            self._identifier.set_languages(list(self._names))

    def ranked(self, text: str) -> list[tuple[str, float]]:
        """Return the languages and their probabilities, the most probable first, equal ones in the server's order."""
        if len(self._names) < 2:
            return [(next(iter(self._names.values()), self.languages[0]), 1.0)]
        found = [(self._names[name], probability) for name, probability in self._identifier.rank(text[:LONGEST])]
        # Of short texts without features, such as "OK.", all languages are equally probable.
        return sorted(found, key=lambda each: (-each[1], self.languages.index(each[0])))


@cache
def _identifier() -> LanguageIdentifier:
    """Return the library's detector of all languages; only its copies may be limited to some."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
