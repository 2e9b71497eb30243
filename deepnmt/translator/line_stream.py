"""Translate a stream of lines: a line in, a line out, in order, with warnings that name lines."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from deepnmt.engines.engine import SearchSettings
from deepnmt.errors import UserError
from deepnmt.text.glossary import Glossary
from deepnmt.text.lines import decode_lines
from deepnmt.text.subwords import join_bpe, words_of
from deepnmt.text.units import unescaped
from deepnmt.translator.translator import BATCH, Translated, Translator

# Most unknown words to list, and most characters of each.
LISTED, LONGEST = 20, 40
# Function from the number of a line, from 1, and its result to the printed text.
Format = Callable[[int, Translated], str]


def plain(number: int, line: Translated) -> str:
    """Return the translation alone."""
    return f"{line.translations[0].text}\n"


def scored(number: int, line: Translated) -> str:
    """Return score and translation."""
    best = line.translations[0]
    return f"{best.score:.4f}\t{best.text}\n"


def numbered(number: int, line: Translated) -> str:
    """Return a line for each translation: number of the source line, score and translation."""
    return "".join(f"{number}\t{found.score:.4f}\t{found.text}\n" for found in line.translations)


def as_json(number: int, line: Translated) -> str:
    """Return a JSON object, on one line."""
    record: dict[str, object] = {"line": number, "text": line.translations[0].text}
    record["translations"] = [
        {"text": found.text, "score": round(found.score, 6), "tokens": found.tokens} for found in line.translations
    ]
    record |= {"source_tokens": line.source, "unknown": line.unknown}
    if line.terms:
        record["terms"] = [
            {"term": term.text, "translation": term.translation, "found": term not in line.missing}
            for term in line.terms
        ]
    if line.fault:
        record["fault"] = line.fault
    return json.dumps(record, ensure_ascii=False) + "\n"


@dataclass
class LineStream:
    """Translates lines in chunks, sorting each chunk by length, and writes them in order.

    Args:
        translator: for all of them
        settings: of the search
        form: output of a line
        batch_size: most lines of a batch
        chunk: lines to read at a time
        strict: a line that is too long is an error
        glossary: terms and their required translations
        split: translate each sentence of a line by itself
    """

    translator: Translator
    settings: SearchSettings
    form: Format = plain
    batch_size: int = BATCH
    chunk: int = 2_000
    strict: bool = False
    glossary: Glossary | None = None
    split: bool = True

    def __post_init__(self) -> None:
        self.unknown: dict[str, int] = {}
        self.lines_with_unknown = 0

    def run(self, lines: Iterable[bytes], name: str, output: BinaryIO, done: Callable[[int], object]) -> None:
        """Translate all lines of the file `name`, and flush the output after each chunk; `done` is told of more lines.

        Raises:
            UserError: a line is not UTF-8, or too long where that is an error
        """
        start = 1
        for chunk in _chunks(decode_lines(lines, name), self.chunk):
            found = self.translator.run(chunk, self.settings, self.batch_size, done, self.glossary, self.split)
            for number, line in enumerate(found, start=start):
                self._look_at(f"{name}:{number}", line)
            output.write("".join(self.form(number, line) for number, line in enumerate(found, start)).encode("utf-8"))
            output.flush()
            start += len(chunk)
        self._warn_of_unknown(name)

    def _look_at(self, place: str, line: Translated) -> None:
        if line.fault and self.strict:
            raise UserError(f"{place}: {line.fault} (--strict)")
        if line.fault:
            _warn(f"{place}: {line.fault}; its translation is left empty")
        self.lines_with_unknown += bool(line.unknown)
        for word in unknown_words(line):
            self.unknown[word] = self.unknown.get(word, 0) + 1

    def _warn_of_unknown(self, name: str) -> None:
        if not self.unknown:
            return
        words = sorted(self.unknown, key=lambda word: -self.unknown[word])
        times = {word: f" ({self.unknown[word]} times)" for word in words if self.unknown[word] > 1}
        listed = [f"{word[:LONGEST]}{times.get(word, '')}" for word in words[:LISTED]]
        more = [f"and {len(words) - LISTED:,} more"] if len(words) > LISTED else []
        _warn(
            f"{name}: {_number(len(words), 'word')} unknown to the model, in "
            f"{_number(self.lines_with_unknown, 'line')}: {', '.join(listed + more)}"
        )


def unknown_words(line: Translated) -> Iterator[str]:
    """Yield the words of a source with a subword that the model does not know."""
    unknown = set(line.unknown)
    for pieces in words_of(" ".join(line.source)) if unknown else ():
        if unknown.intersection(pieces):
            yield unescaped(join_bpe(" ".join(pieces)))


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _warn(text: str) -> None:
    from tqdm import tqdm  # here, since it takes longer than a start may

    # A line of its own, whatever progress bar is shown.
    tqdm.write(f"warning: {text}", file=sys.stderr)


def _chunks(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    while chunk := list(islice(lines, size)):
        yield chunk
