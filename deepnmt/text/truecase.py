"""True case: the first word of a sentence gets the form that it mostly has elsewhere; other words keep theirs.

Forms are counted where a word is not the first of a sentence or after a colon, where its case says nothing. A model is
a file as Moses' train-truecaser.perl writes it, a word a line with all its forms, the commonest first:

    das (812/840) Das (28)

A sentence ends with a full stop, a question mark or an exclamation mark; quotation marks and brackets may stand before
its first word. The way back makes the first letter of each sentence's first word upper case.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.units import ATTACHED, SPACED

ENDS = frozenset(".?!")
SAYS_NOTHING_AFTER = ENDS | {":"}
BEFORE_FIRST = frozenset({"&apos;", "&quot;", "&#91;", "&#93;", *"([\"'„“«»‚‘¿¡", ATTACHED, SPACED})
LINE = re.compile(r"(?P<form>\S+) \((?P<count>\d+)/\d+\)(?: \S+ \(\d+\))*")


def model_name(language: str) -> str:
    """Return the name of a language's model in a folder."""
    return f"truecase.{language}"


def count_forms(lines: Iterable[str]) -> Counter[str]:
    """Return how often each form of a word stands where its case says something, in lines of tokens."""
    forms: Counter[str] = Counter()
    for line in lines:
        first = True
        for token in line.split():
            if token in SAYS_NOTHING_AFTER:
                first = True
            elif token not in BEFORE_FIRST:
                if not first and token.lower() != token.upper():
                    forms[token] += 1
                first = False
    return forms


def learn(text: Path, model: Path) -> int:
    """Write the model of a tokenised text, and return the number of its words. Memory grows with the forms of words.

    Raises:
        UserError: the text is empty, or has sentences that begin with small letters, and no capital
    """
    count_lines(text)
    forms = count_forms(read_lines(text))
    words: dict[str, list[tuple[int, str]]] = {}
    for form, count in forms.items():
        words.setdefault(form.lower(), []).append((-count, form))
    if forms and all(form == form.lower() for form in forms) and _is_lowered(text):
        raise UserError(f"{text}: must have capitals to learn true case from, but has none")
    with whole_file(model) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for word in sorted(words):
            # Of two that are as common, the one in small letters.
            (most, best), *others = sorted(words[word], key=lambda entry: (entry[0], entry[1] != word, entry[1]))
            total = -sum(count for count, _ in words[word])
            rest = "".join(f" {form} ({-count})" for count, form in others)
            file.write(f"{best} ({-most}/{total}){rest}\n")
    return len(words)


def _is_lowered(text: Path) -> bool:
    """Return whether there are sentences that begin with small letters, and no capital; some languages have no case."""
    small = False
    for line in read_lines(text):
        if line != line.lower():
            return False
        small = small or line[:1] != line[:1].upper()
    return small


class Truecaser:
    """Gives the first word of a sentence its commonest form; one that is not known keeps its own.

    Args:
        model: file of a language's forms
        units: words that keep their form

    Raises:
        UserError: a line of the file is faulty
    """

    def __init__(self, model: Path, units: Container[str] = ()) -> None:
        self.units = units
        self.best: dict[str, str] = {}
        for number, line in enumerate(read_lines(model), start=1):
            found = LINE.fullmatch(line.rstrip("\n"))
            if not found:
                must = "must be a word's forms, such as 'das (812/840) Das (28)'"
                raise UserError(f"{model}:{number}: {must}, but is '{line[:60].strip()}'")
            self.best[found["form"].lower()] = found["form"]

    def __call__(self, tokens: str) -> str:
        """Return a line of tokens in true case."""
        words = tokens.split(" ")
        for place in first_words(words):
            if words[place] not in self.units:
                words[place] = self.best.get(words[place].lower(), words[place])
        return " ".join(words)


def sentence_case(tokens: str, units: Container[str] = ()) -> str:
    """Return a line of tokens with a capital at the start of each sentence, unless it begins with one of some units."""
    words = tokens.split(" ")
    for place in first_words(words):
        if words[place] not in units:
            words[place] = words[place][:1].title() + words[place][1:]
    return " ".join(words)


def first_words(words: list[str]) -> list[int]:
    """Return the places of the first words of the sentences of a line."""
    places, first = [], True
    for place, word in enumerate(words):
        if word in ENDS:
            first = True
        elif first and word not in BEFORE_FIRST:
            places.append(place)
            first = False
    return places
