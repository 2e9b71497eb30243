"""A text of several lines: its sentences, and the white space around them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from itertools import islice

from deepnmt.serving.directions import Direction
from deepnmt.translator.line_stream import unknown_words
from deepnmt.translator.paragraphs import Paragraph
from deepnmt.translator.translator import Translated

# Words with letters. Shorter ones, such as "in", are the same in related languages.
WORD = re.compile(r"[^\W_]{3,}")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The lines of a text.

    Attributes:
        lines: of each line the white space before it, its sentences, and the white space after it, with the line end
    """

    lines: Sequence[tuple[str, Paragraph, str]]

    @classmethod
    def of(cls, text: str, direction: Direction, split: bool) -> Layout:
        """Return the lines of a text; `split`: a line may have several sentences."""
        settings = direction.translator.pipeline.settings
        lines = []
        for line in re.split(r"(?<=\n)", text):
            body = line.strip()
            if body and split and not settings.pretokenized:
                paragraph = Paragraph.of(body, *settings.languages)
            else:
                paragraph = Paragraph([body] if body else [], [])
            start = line.find(body)
            lines.append((line[:start], paragraph, line[start + len(body) :]))
        return cls(lines)

    @property
    def sentences(self) -> list[str]:
        """All sentences, in order."""
        return [sentence for _, paragraph, _ in self.lines for sentence in paragraph.sentences]

    def texts(self, results: Sequence[Translated]) -> list[str]:
        """Return the text's translations, the best first, from its sentences' results."""
        found = iter(results)
        joined = []
        for before, paragraph, after in self.lines:
            line = list(islice(found, len(paragraph.sentences)))
            options = [each.text for each in paragraph.joined(line).translations] if line else [""]
            joined.append((before, options, after))
        return [
            "".join(before + options[min(rank, len(options) - 1)] + after for before, options, after in joined)
            for rank in range(max(len(options) for _, options, _ in joined))
        ]


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
