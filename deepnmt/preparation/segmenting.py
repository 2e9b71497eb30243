"""Text in tokens to text in subwords.

subword-nmt is called as a library: its commands leave files unclosed, so that a full disk cuts them off with status 0,
and read a text with one process whatever --num-workers says.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords
from deepnmt.text.text_rewriting import Lines, Rewriter, rewrite


@dataclass(frozen=True)
class Segmentation:
    """How text is cut.

    Attributes:
        folder: with the codes
        settings: of its data
        languages: of the texts that are cut side by side
        limited: by the types of the training text, too, where the settings say so
        dropout: probability with which a merge is left out
        seed: of dropout
    """

    folder: Path
    settings: TextSettings
    languages: tuple[str, ...]
    limited: bool = True
    dropout: float = 0
    seed: int = 1

    def write(self, texts: Sequence[Path], outputs: Sequence[Path], workers: int) -> None:
        """Write texts in subwords.

        Args:
            texts: in tokens, one of each language
            outputs: files to write
            workers: processes, at most

        Raises:
            UserError: a text or the codes are faulty, or the disk is full
        """
        rewrite(partial(_segmenter, self), texts, outputs, workers, "segmenting")


def _segmenter(how: Segmentation) -> Rewriter:
    """Return what cuts lines; with dropout, by random numbers that the line's number seeds."""
    cutters = [Subwords(how.folder, how.settings, language, how.limited) for language in how.languages]

    def segment(numbered: tuple[int, Lines]) -> Lines:
        number, lines = numbered
        cut = []
        for cutter, line in zip(cutters, lines):
            if how.dropout:
                # The same whatever the number of processes.
                random.seed(f"{how.seed} {number}")
            cut.append(cutter(line, how.dropout))
        return tuple(cut)

    return segment
