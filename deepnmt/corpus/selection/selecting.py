"""A data folder of the training pairs of another one that are like a text."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deepnmt import console
from deepnmt.corpus.selection.likeness import CrossEntropyDifference, Scorer, TfIdf, best, score_all
from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_dictionaries, check_subset, check_texts
from deepnmt.text.in_order import cores
from deepnmt.text.like_folder import (
    TRAIN,
    binarise_text,
    check_like,
    copy_frame,
    frame_record,
    held_out_lines,
    settings_record,
)
from deepnmt.text.lines import clean, read_lines, read_text
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.record import SELECTED_ON, read_record, selected_on, sha256
from deepnmt.text.settings import RECORD, TextSettings
from deepnmt.text.words import Words, counted_words, spread

TFIDF, CROSS_ENTROPY = METHODS = ("tfidf", "cross-entropy")
LEAST_LINES = 100
SCORES = "selection.tsv"


@dataclass(frozen=True)
class Selection:
    """Inputs and options of a selection by one of `METHODS`; `like` is text of the source language."""

    data: Path
    like: Path
    method: str
    number: int

    def record(self) -> dict[str, Any]:
        """Return the first entries of the folder's record.

        Raises `UserError` if DATA is faulty or has fewer pairs than requested, or the text is missing, too short, or
        one of references.
        """
        data = self.data
        languages = check_like(data).languages
        pairs = check_subset(data, TRAIN, languages, check_dictionaries(data, languages))
        if pairs is None:
            raise UserError(f"{data}: must be binarised by deepnmt preprocess, but is in an older format of fairseq's")
        check_texts(data, TRAIN, [f"{kind}.{name}" for kind in ("tok", "bpe") for name in languages], pairs)
        if not 1 <= self.number < pairs:
            must = f"must be from 1 to {pairs - 1}, one less than the pairs of {data}"
            raise UserError(f"--number {must}, but is {self.number}")
        self._check_text(held_out_lines(data, languages[1]))
        return {
            **settings_record(data),
            **frame_record(data),
            "selection": {"method": self.method, "number": self.number},
            # First this text, then the texts that DATA's own pairs were chosen by.
            **selected_on(
                [{SELECTED_ON: {"file": self.like.name, "sha256": sha256(self.like)}}, read_record(data / RECORD)]
            ),
            "inputs": {name: sha256(data / "text" / f"{TRAIN}.tok.{name}") for name in languages},
        }

    def _check_text(self, references: Container[str]) -> None:
        if not self.like.is_file():
            raise UserError(f"--like must be a text, but there is no '{self.like}'")
        lines = self._lines
        if self.method == CROSS_ENTROPY and len(lines) < LEAST_LINES:
            must = f"must have at least {LEAST_LINES} lines for --method {self.method}"
            raise UserError(f"{self.like}: {must}, but has {len(lines)}")
        found = sum(line in references for line in lines)
        if 2 * found > len(lines):
            raise UserError(
                f"--like must be a text of the source, but {found} of the {len(lines)} lines of {self.like} are "
                f"references of {self.data}'s validation or test sets"
            )

    @cached_property
    def _lines(self) -> Sequence[str]:
        """The lines of the text as DATA has them."""
        tokenize = TextPipeline.read(self.data).tokenize
        return [tokenize(clean(line)) for line in read_text(self.like)]

    def make(self, folder: Path) -> dict[str, int]:
        """Write the chosen pairs as DATA's training text, copy everything else, and return the counts."""
        data, languages = self.data, TextSettings.read(self.data).languages
        source = data / "text" / f"{TRAIN}.tok.{languages[0]}"
        pairs = check_subset(data, TRAIN, languages, check_dictionaries(data, languages)) or 0
        with console.progress(pairs, "scoring", " pairs") as bar:
            scores = score_all(
                self._scorer(source, languages[0], pairs), read_lines(source), languages[0], cores(), bar.update
            )
        # A cosine of 0 has nothing to say, and the first pairs of DATA would be taken.
        if self.method == TFIDF and (alike := int((scores > 0).sum())) < self.number:
            raise UserError(
                f"--number must be at most {alike}, the pairs of {data} whose source has a word in common with "
                f"{self.like}, but is {self.number}"
            )
        chosen = np.zeros(pairs, bool)
        chosen[best(scores, self.number)] = True
        copy_frame(data, folder)
        for name in (f"{TRAIN}.{kind}.{language}" for kind in ("tok", "bpe") for language in languages):
            with (folder / "text" / name).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(
                    line.rstrip("\n") + "\n" for line, taken in zip(read_lines(data / "text" / name), chosen) if taken
                )
        with (folder / SCORES).open("w", encoding="utf-8") as file:
            file.write(f"{self.method.replace('-', '_')}\n")
            file.writelines(f"{score:.6g}\n" for score in scores)
        binarise_text(folder, TRAIN)
        return {"read": pairs, "kept": self.number}

    def _scorer(self, source: Path, language: str, pairs: int) -> Scorer:
        like: list[Words] = [counted_words(line, language, tokens=True) for line in self._lines]
        lines = read_lines(source)
        chosen = lines if self.method == TFIDF else spread(lines, len(like), pairs)
        words = (counted_words(line, language, tokens=True) for line in chosen)
        return TfIdf(words, like) if self.method == TFIDF else CrossEntropyDifference(words, like)
