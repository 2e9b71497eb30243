"""Words and signs of a line, cut by Moses' rules, except for signs that its detokeniser would not join again.

A sign between two letters that is no punctuation of prose stays with them: `AT&T`, `10:30`, `EU:n`, `col·lecció`. The
tokens are therefore the words and punctuation that a reader sees, in any script. For English and German they are equal
to sacremoses' tokens where its detokeniser returns the line.

Rules see a run of non-white space by itself, whether it begins or ends the line, and, for a full stop, the character
after it.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from deepnmt.text.languages import main_language
from deepnmt.text.moses import sacremoses
from deepnmt.text.signs import (
    APOSTROPHES,
    CJK,
    CLOSERS,
    CURRENCY,
    DASHES,
    ELISION,
    GUILLEMETS,
    IDEOGRAPHS,
    OPENERS,
    OTHER_CLOSERS,
    SINGLE_GUILLEMETS,
    SINGLE_QUOTES,
    WIDE_SIGNS,
    is_wide_language,
    marks,
    numbers,
)

# Runs of one language whose words are remembered.
REMEMBERED = 1 << 16
# Characters; longer runs are rarely seen again, and would fill the memory of a server.
LONGEST_REMEMBERED = 100
LANGUAGES = 64  # more than a process has at a time
ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z+.-]*://[^\s<>\"“”„«»—()]*[^\s<>\"“”„«»—(),.;:!?\]}'’`…]")
Words = tuple[str, ...]


class Cutter:
    """Cuts clean lines by the rules of one language."""

    def __init__(self, language: str) -> None:
        main = main_language(language)
        self._words = _words_of_runs(main)
        self._whole, self._before_digits = _prefixes(main)
        self.abbreviations = self._whole | self._before_digits

    def __call__(self, line: str) -> tuple[list[str], list[bool]]:
        """Return the words and signs of a line, and whether a space stands before each."""
        words: list[str] = []
        spaced: list[bool] = []
        runs = line.split()
        for place, (run, following) in enumerate(zip(runs, [*runs[1:], ""])):
            found = self.words_of(run, place == 0, following[:1])
            words += found
            spaced += [True, *[False] * (len(found) - 1)]
        return words, spaced

    def words_of(self, run: str, begins: bool, following: str) -> list[str]:
        """Return the words and signs of a run.

        Args:
            begins: the run begins its line
            following: first character of the next run; empty: the run ends its line
        """
        if run.isascii() and run.isalnum():
            return [run]
        words = list(self._words(run, begins, not following))
        if "." in run:
            self._cut_full_stops(words, following)
        return words

    def _cut_full_stops(self, words: list[str], following: str) -> None:
        """Set the full stop apart from words that are no abbreviations."""
        for place in range(len(words) - 1, -1, -1):
            word = words[place]
            if word[-1] == "." and len(word) > 1 and word[-2] != "." and not self.is_abbreviation(word[:-1], following):
                words[place : place + 1] = [word[:-1], "."]
            following = word

    def is_abbreviation(self, prefix: str, following: str) -> bool:
        """Return whether a full stop after `prefix` belongs to it."""
        if not (prefix[-1].isalpha() or prefix[-1].isdecimal() or prefix[-1] in "',`-"):
            # Moses has set such a sign apart before.
            return False
        if ("." in prefix and any(map(str.isalpha, prefix))) or prefix in self._whole or following[:1].islower():
            return True
        return prefix in self._before_digits and following[:1].isascii() and following[:1].isdigit()


@lru_cache(maxsize=LANGUAGES)
def _prefixes(main: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return Moses' abbreviations of a language: general ones, and ones before numbers alone."""
    moses = sacremoses().MosesTokenizer(lang=main)
    numeric = frozenset(moses.NUMERIC_ONLY_PREFIXES)
    return frozenset(moses.NONBREAKING_PREFIXES) - numeric, numeric


@lru_cache(maxsize=LANGUAGES)
def _words_of_runs(main: str) -> Callable[[str, bool, bool], Words]:
    """Return the function that cuts a run of a main language; its arguments tell whether the line begins or ends."""
    substitutions = _punctuation(main)
    apart = _apostrophes(main)
    comma = [(re.compile(rf"([^{numbers()}]),"), r"\1 , "), (re.compile(rf",([^{numbers()}])"), r" , \1")]
    ideographs = re.compile(f"[{IDEOGRAPHS}]")

    def cut(text: str, begins: bool, ends: bool) -> list[str]:
        if text.isalnum() and (main in CJK or not ideographs.search(text)):
            return [text]
        text = ("" if begins else " ") + text + ("" if ends else " ")
        for pattern, replacement in substitutions:
            text = pattern.sub(replacement, text)
        if ".." in text:
            text = re.sub(r"\.{2,}", r" \g<0> ", text)
        if "," in text:
            for pattern, replacement in comma:
                text = pattern.sub(replacement, text)
            if text.endswith(","):
                text = text[:-1] + " ,"
        for sign, rules in apart.items():
            if sign in text:
                for pattern, replacement in rules:
                    text = pattern.sub(replacement, text)
        if ends and text.endswith(".'"):
            text = text[:-2] + " . '"
        return text.split()

    def words(run: str, begins: bool, ends: bool) -> Words:
        return remembered(run, begins, ends) if len(run) <= LONGEST_REMEMBERED else of_run(run, begins, ends)

    def of_run(run: str, begins: bool, ends: bool) -> Words:
        if "://" in run and (address := ADDRESS.search(run)):
            before, after = run[: address.start()], run[address.end() :]
            return (
                *(cut(before, begins, False) if before else ()),
                address[0],
                *(cut(after, False, ends) if after else ()),
            )
        return tuple(cut(run, begins, ends))

    remembered = lru_cache(maxsize=REMEMBERED)(of_run)
    return words


def _punctuation(main: str) -> list[tuple[re.Pattern[str], str]]:
    """Return the step that sets punctuation apart."""
    letter = rf"\w{marks()}\u24b6-\u24e9"
    always = re.escape(f"{OPENERS}?!;%}}])") + f"„“”{OTHER_CLOSERS}{GUILLEMETS}{SINGLE_GUILLEMETS}{SINGLE_QUOTES}"
    always += WIDE_SIGNS
    # Not between two letters.
    inside = re.escape(':\\"–')
    if is_wide_language(main):
        always, inside = always + inside, ""
    if main not in CJK:
        always += IDEOGRAPHS
    parts = [f"[{always}]", f"[{DASHES}]+", "…+", f"(?<![{letter}])[{CURRENCY}]", f"@(?![{letter}])"]
    # A sign that stands alone, perhaps quoted.
    parts.append(rf"(?<![^\s'`])(?:[^\w\s.,'`{marks()}-]|_)(?=[{re.escape(CLOSERS)}]*(?:['`\s]|$))")
    if inside:
        parts += [f"(?<![{letter}])[{inside}]", f"[{inside}](?![{letter}])"]
    return [(re.compile(f"({'|'.join(parts)})"), r" \1 ")]


def _apostrophes(main: str) -> dict[str, list[tuple[re.Pattern[str], str]]]:
    """Return the step that sets apostrophes apart: English starts a word with one, French ends one, others keep it."""
    letter, digit = rf"(?:[^\W\d_]|[{marks()}])", f"[{numbers()}]"
    not_letter = rf"(?:(?![{marks()}])[\W\d_])"
    found: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for sign in APOSTROPHES:
        edges = rf"(?<![\w{marks()}]){sign}|{sign}(?![\w{marks()}])"
        if main == "en" and sign == "'":
            # Moses' rules, one after the other.
            rules = [
                (rf"(?!{digit}'{digit})({not_letter})'({not_letter})", r"\1 ' \2"),
                (rf"(?!{digit})({not_letter})'({letter})", r"\1 ' \2"),
                (rf"({letter})'({not_letter})", r"\1 ' \2"),
                (rf"({letter})'({letter})", r"\1 '\2"),
                (rf"({digit})'(s)", r"\1 '\2"),
            ]
        elif main == "en":
            rules = [(edges, f" {sign} "), (rf"({letter}|{digit}(?={sign}s)){sign}(?={letter})", rf"\1 {sign}")]
        elif main in ELISION:
            rules = [(edges, f" {sign} "), (rf"({letter}){sign}(?={letter})", rf"\1{sign} ")]
        else:
            rules = [(edges, f" {sign} ")]
        found[sign] = [(re.compile(pattern), replacement) for pattern, replacement in rules]
    return found
