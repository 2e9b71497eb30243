"""Inline targets: a term's translation beside the term, in the line that a model reads (Dinu 2019, P19-1294).

    a <term> dog <as> hund </term> is running

A model trained on such lines writes the translation in the term's place. The three marks are types of the source's
dictionary. Each begins with a control character, which `lines.clean` removes from all text, even if tokenised.
So `<term>` in a text is an ordinary word, and never a mark.
"""

import re
from collections.abc import Callable, Iterable

MARKS = TERM, AS, END = ("\x02<term>", "\x02<as>", "\x02</term>")
MARK = re.compile("|".join(MARKS))
# The record of a data folder has it if some of its training pairs have inline targets; then a checkpoint's `task_state`
# has the other.
TRAINING, STATE = "glossary_training", "glossary"
# The part of the training set that has these pairs.
PART = "train1"
Cut = Callable[[str], str]


def inline(term: Iterable[str], translation: Iterable[str]) -> list[str]:
    """Return the words of a term with its translation beside them, between marks."""
    return [TERM, *term, AS, *translation, END]


def cut_inline(tokens: str, source: Cut, target: Cut) -> str:
    """Return the subwords of a line of tokens with inline targets."""
    if AS not in tokens:
        return source(tokens)
    pieces: list[str] = []
    words: list[str] = []
    cut = source
    for token in [*tokens.split(), ""]:
        if token and token not in MARKS:
            words.append(token)
            continue
        pieces += cut(" ".join(words)).split()
        pieces += [token] if token else []
        words, cut = [], target if token == AS else source
    return " ".join(pieces)


def without_marks(text: str) -> str:
    """Return a line without marks, which a model may write, however improbable they are."""
    return " ".join(MARK.sub(" ", text).split()) if MARK.search(text) else text
