"""Words of a text, and the text in subwords, as `deepnmt preprocess` makes both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from deepnmt.preparation.cut_text import Output, cut_words, write_texts
from deepnmt.preparation.numbered_text import Words, number_texts
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords


def words_of(*texts: Path) -> list[Words]:
    """The words of texts in tokens."""
    found = []
    for text in texts:
        counts = Counter(text.read_text("utf-8").split())
        found.append(Words(text, "".join(f"{word}\n" for word in counts), np.array([*counts.values()], np.int64)))
    return found


@contextmanager
def cut_text(codes: Path, text: Path, output: Path, workers: int = 1) -> Iterator[Output]:
    """A text in tokens, and the subwords of its words by the codes in a folder."""
    with TemporaryDirectory() as folder:
        (numbered,) = number_texts([text], Path(folder), workers)
        (pieces,) = cut_words([(numbered, Subwords(codes, TextSettings("de", "en"), "de"))], workers)
        yield Output(numbered, pieces, output)


def write_subwords(codes: Path, text: Path, output: Path, workers: int = 1) -> None:
    """Write a text in tokens in the subwords of a folder with codes."""
    with cut_text(codes, text, output, workers) as cut:
        write_texts([cut], workers)
