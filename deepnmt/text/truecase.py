"""True case: the first word of a sentence gets its commonest form elsewhere; other words keep their form.

Forms are counted inside sentences (`sentence_starts`), where case is informative, but not in headlines. A model is a
file in the format of Moses' train-truecaser.perl, a word per line with all its forms, the commonest first:

    das (812/840) Das (28)

The way back makes the first letter of each sentence's first word a capital. In both directions a sentence in capitals
alone is unchanged. Data folders of earlier versions have rules of their own, with Unicode's case. There, a first word
follows a full stop, a question mark or an exclamation mark, and perhaps some quotation marks and brackets.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.text.casing import Casing
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.sentence_starts import Place, is_headline, is_in_capitals, places_of
from deepnmt.text.units import unescaped

EARLIER_ENDS = frozenset(".?!")
EARLIER_BEFORE_FIRST = frozenset({"&apos;", "&quot;", "&#91;", "&#93;", *"([\"'„“«»‚‘¿¡"})
# By all rules, the first of these words alone begins a sentence, if it has letters alone.
PLAIN = re.compile(r"\w\w+(?: [\w,-]+)*+(?: [.!?])?")
FIRST_WITHOUT_CASE = "\u0590"  # of scripts: Hebrew
LINE = re.compile(r"(?P<form>\S+) \((?P<count>\d+)/\d+\)(?: \S+ \(\d+\))*")


def model_name(language: str) -> str:
    """Return the name of a language's model in a folder."""
    return f"truecase.{language}"


def count_forms(lines: Iterable[str], language: str = "") -> Counter[str]:
    """Return how often each form of a word stands where its case says something, in lines of tokens."""
    forms: Counter[str] = Counter()
    for line in lines:
        tokens = line.split()
        found = list(places_of(tokens, language))
        texts, places = [unescaped(tokens[number]) for number, _ in found], [place for _, place in found]
        if not is_headline(texts, places) and not is_in_capitals(texts):
            words = (tokens[number] for number, place in found if place is Place.INSIDE)
            forms.update(word for word in words if word.lower() != word.upper())
    return forms


def learn(text: Path, model: Path, language: str = "") -> int:
    """Write the model of a tokenised text, and return the number of its words. Memory grows with the forms of words.

    Raises `UserError` if the text is empty, or has sentences that begin with small letters, and no capital.

    Args:
        language: language whose rules apply; empty: the general rules
    """
    count_lines(text)
    forms, lower = count_forms(read_lines(text), language), Casing(language).lower
    words: dict[str, list[tuple[int, str]]] = {}
    for form, count in forms.items():
        words.setdefault(lower(form), []).append((-count, form))
    if forms and all(form == lower(form) for form in forms) and _is_lowered(text, language):
        raise UserError(f"{text}: contains no capitals to learn true case from")
    with whole_file(model) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for word in sorted(words):
            # Of two that are as common, the one in small letters.
            (most, best), *others = sorted(words[word], key=lambda entry: (entry[0], entry[1] != word, entry[1]))
            total = -sum(count for count, _ in words[word])
            rest = "".join(f" {form} ({-count})" for count, form in others)
            file.write(f"{best} ({-most}/{total}){rest}\n")
    return len(words)


def _is_lowered(text: Path, language: str) -> bool:
    """Return whether there are sentences that begin with small letters, and no capital; some languages have no case."""
    small, lower = False, Casing(language).lower
    for line in read_lines(text):
        if line != lower(line):
            return False
        small = small or line[:1] != line[:1].upper()
    return small


class Truecaser:
    """Gives the first word of a sentence its commonest form; an unknown word keeps its own.

    Raises `UserError` if a line of the file is faulty.

    Args:
        units: words that keep their form
        language: language whose rules apply; empty: the general rules; None: the rules of earlier versions
    """

    def __init__(self, model: Path, units: Container[str] = (), language: str | None = "") -> None:
        self.units, self.language = units, language
        self.lower = Casing(language or "").lower
        self.best: dict[str, str] = {}
        for number, line in enumerate(read_lines(model), start=1):
            found = LINE.fullmatch(line.rstrip("\n"))
            if not found:
                must = "must be a word's forms, such as 'das (812/840) Das (28)'"
                raise UserError(f"{model}:{number}: {must}, but is '{line[:60].strip()}'")
            self.best[self.lower(found["form"])] = found["form"]

    def __call__(self, tokens: str) -> str:
        """Return a line of tokens in true case."""
        words = tokens.split(" ")
        for place in _places(tokens, words, self.language):
            if words[place] not in self.units:
                words[place] = self.best.get(self.lower(words[place]), words[place])
        return " ".join(words)


def sentence_case(tokens: str, units: Container[str] = (), language: str | None = "") -> str:
    """Return a line of tokens with a capital at the start of each sentence, unless it begins with one of some units.

    Args:
        units: words that keep their form
        language: language whose rules apply; empty: the general rules; None: the rules of earlier versions
    """
    words = tokens.split(" ")
    if language is not None and _has_no_case(tokens):
        return tokens
    capitalised = _first_capital if language is None else Casing(language).capitalised
    for place in _places(tokens, words, language):
        if words[place] not in units:
            words[place] = capitalised(words[place])
    return " ".join(words)


def _first_capital(word: str) -> str:
    return word[:1].title() + word[1:]


def _has_no_case(tokens: str) -> bool:
    """Return whether a third of a line's letters are of a script without case, whose sentences have no capital."""
    if max(tokens, default="") < FIRST_WITHOUT_CASE:
        return False
    letters = [sign for sign in tokens if sign.isalpha()]
    return bool(letters) and 3 * sum(sign.lower() == sign.upper() for sign in letters) >= len(letters)


def _places(tokens: str, words: list[str], language: str | None) -> list[int]:
    """Return `first_words`, at once for lines of one sentence without any sign that matters."""
    if PLAIN.fullmatch(tokens) and words[0].isalpha() and not words[0].isupper():
        return [0]
    return first_words(words, language)


def first_words(words: list[str], language: str | None = "") -> list[int]:
    """Return the places of the first words of a line's sentences, except sentences in capitals alone.

    Args:
        language: language whose rules apply; empty: unknown; None: the rules of earlier versions
    """
    if language is None:
        return list(_earlier_first_words(words))
    found = list(places_of(words, language))
    starts = [at for at, (_, place) in enumerate(found) if place is Place.FIRST]
    firsts = []
    for start, end in zip(starts, [*starts[1:], len(found)]):
        number = found[start][0]
        # All else is soon told by the first word.
        if not words[number].isupper() or not is_in_capitals([unescaped(words[at]) for at, _ in found[start:end]]):
            firsts.append(number)
    return firsts


def _earlier_first_words(words: list[str]) -> Iterator[int]:
    first = True
    for place, word in enumerate(words):
        if word in EARLIER_ENDS:
            first = True
        elif first and word not in EARLIER_BEFORE_FIRST:
            yield place
            first = False
