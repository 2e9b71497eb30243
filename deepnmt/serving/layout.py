"""A text of several lines: its sentences, and the white space around them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from itertools import chain, islice

from deepnmt.serving.directions import Direction
from deepnmt.translator.line_stream import unknown_words
from deepnmt.translator.paragraphs import Paragraph
from deepnmt.translator.translator import Translated

# Words with letters. Shorter ones, such as "in", are the same in related languages.
WORD = re.compile(r"[^\W_]{3,}")
# From the first to the last sign of a line.
LINE = re.compile(r"\S[^\n]*")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The lines of a text.

    Attributes:
        lines: sentences of each line that is not blank
        gaps: white space before, between and after these lines, with line ends and blank lines
    """

    lines: Sequence[Paragraph]
    gaps: Sequence[str]

    @classmethod
    def of(cls, text: str, direction: Direction, split: bool) -> Layout:
        """Return the lines of a text; `split`: a line may have several sentences."""
        settings = direction.translator.pipeline.settings
        whole = settings.pretokenized or not split
        lines, gaps, end = [], [], 0
        for found in LINE.finditer(text):
            line = found[0].rstrip()
            lines.append(Paragraph([line], []) if whole else Paragraph.of(line, *settings.languages))
            gaps.append(text[end : found.start()])
            end = found.start() + len(line)
        return cls(lines, [*gaps, text[end:]])

    @property
    def sentences(self) -> list[str]:
        """All sentences, in order."""
        return [sentence for line in self.lines for sentence in line.sentences]

    def texts(self, results: Sequence[Translated]) -> list[str]:
        """Return the text's translations, the best first, from its sentences' results."""
        found = iter(results)
        joined = [line.joined(list(islice(found, len(line.sentences)))).translations for line in self.lines]
        texts = []
        for rank in range(max(map(len, joined), default=1)):
            line_texts = (options[min(rank, len(options) - 1)].text for options in joined)
            texts.append("".join(chain(*zip(self.gaps, line_texts), self.gaps[-1:])))
        return texts


def details(sentence: str, result: Translated) -> dict[str, object]:
    """Return a sentence's translations with their scores and marks, for JSON."""
    given = set(words(sentence))
    return {
        "source": sentence,
        "unknown": list(dict.fromkeys(unknown_words(result))),
        "translations": [
            {
                "text": found.text,
                "score": round(found.score, 6),
                "copied": [word for word in words(found.text) if word in given],
            }
            for found in result.translations
        ],
    }


def words(text: str) -> list[str]:
    """Return the distinct words of a text that have letters, in order."""
    return list(dict.fromkeys(word for word in WORD.findall(text) if not word.isnumeric()))
