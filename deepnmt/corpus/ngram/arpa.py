"""ARPA files: a model as text, which KenLM, SRILM and others read and write."""

import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from deepnmt import console
from deepnmt.corpus.distinct import Keys
from deepnmt.corpus.ngram.ngram_model import BEGIN, END, SPECIAL, Level, NgramModel
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines

BLOCK = 200_000
HEADER, FOOTER = "\\data\\", "\\end\\"
# Fields stand between these alone: other white space is part of a word to other tools.
SPACE, SPACES = " \t\r\n", re.compile("[ \t]+")
# Of an unknown word, where a file has no <unk>.
UNKNOWN_LOG_P = -7.0


def write(path: Path, model: NgramModel) -> None:
    """Write a model."""
    with console.whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{HEADER}\n")
        file.writelines(f"ngram {size}={len(level.keys)}\n" for size, level in enumerate(model.levels, start=1))
        for size, level in enumerate(model.levels, start=1):
            file.write(f"\n\\{size}-grams:\n")
            for start in range(0, len(level.keys), BLOCK):
                stop = min(start + BLOCK, len(level.keys))
                rows = zip(level.log_p[start:stop].tolist(), texts(model, size, start, stop), level.backoff[start:stop])
                if size == len(model.levels):
                    file.writelines(f"{log_p:.7g}\t{words}\n" for log_p, words, _ in rows)
                else:
                    file.writelines(f"{log_p:.7g}\t{words}\t{backoff:.7g}\n" for log_p, words, backoff in rows)
        file.write(f"\n{FOOTER}\n")


def texts(model: NgramModel, size: int, start: int, stop: int) -> Iterator[str]:
    """Yield the words of a range of the n-grams of an order."""
    columns = []
    keys = model.levels[size - 1].keys[start:stop]
    for level in range(size - 1, 0, -1):
        prefix, last = np.divmod(keys, len(model.words))
        columns.append(last)
        keys = model.levels[level - 1].keys[prefix]
    columns.append(keys)
    words = model.words
    return (" ".join([words[number] for number in row]) for row in zip(*(c.tolist() for c in columns[::-1])))


class _Reader:
    """Reads a file line by line, and knows where it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line = 0
        self._lines = read_lines(path)

    def next(self) -> str:
        """Return the next line that is not empty. Raises `UserError` at the end."""
        for line in self._lines:
            self.line += 1
            if line.strip(SPACE):
                return line.strip("\r\n")
        self.fail(f"the file must end with {FOOTER}, but ends here")

    def fail(self, message: str) -> NoReturn:
        """Raise `UserError` about the line that was read."""
        raise UserError(f"{self.path}:{self.line}: {message}")


def read(path: Path) -> NgramModel:
    """Return the model of a file. Raises `UserError` with the line of the first fault."""
    reader = _Reader(path)
    while (line := reader.next()) != HEADER:
        if reader.line > 100:
            reader.fail(f"an ARPA file must begin with {HEADER}, but has none in 100 lines")
    counts: list[int] = []
    while found := re.fullmatch(r"ngram\s+(\d{1,2})\s*=\s*(\d{1,12})\s*", line := reader.next()):
        if int(found[1]) != len(counts) + 1:
            reader.fail(f"must be the number of {len(counts) + 1}-grams, but is of {found[1]}-grams")
        counts.append(int(found[2]))
    if not counts:
        reader.fail(f"must be 'ngram 1=' and a number, but is '{line[:60]}'")
    levels: list[Level] = []
    words, number = list(SPECIAL), {word: place for place, word in enumerate(SPECIAL)}
    with console.progress(sum(counts), "reading the model", " n-grams") as bar:
        for size, rows in enumerate(counts, start=1):
            if line != f"\\{size}-grams:":
                reader.fail(f"must be \\{size}-grams:, but is '{line[:60]}'")
            levels.append(_read_level(reader, size, rows, len(counts), levels, words, number))
            bar.update(rows)
            line = reader.next()
    if line != FOOTER:
        reader.fail(f"must be {FOOTER} after {sum(counts)} n-grams, but is '{line[:60]}'")
    return NgramModel(words, levels)


def _read_level(
    reader: _Reader, size: int, rows: int, order: int, lower: list[Level], words: list[str], number: dict[str, int]
) -> Level:
    first = reader.line + 1
    # Not lists, whose numbers take three times the memory.
    numbers, logs = array("q"), array("d")
    for _ in range(rows):
        fields = SPACES.split(reader.next().strip(SPACE))
        # A back-off weight may be left out.
        if len(fields) not in ((size + 1, size + 2) if size < order else (size + 1,)):
            reader.fail(f"must be a logarithm and {size} words, but is '{' '.join(fields)[:60]}'")
        try:
            log_p, backoff = float(fields[0]), float(fields[size + 1]) if len(fields) > size + 1 else 0.0
        except ValueError:
            reader.fail(f"the first and the last field must be logarithms, but are {fields[0]} and {fields[-1]}")
        if not log_p <= 0:
            reader.fail(f"the logarithm of a probability must be 0 or less, but is {fields[0]}")
        if not abs(backoff) <= 999:
            reader.fail(f"the logarithm of a back-off weight must be from -999 to 999, but is {fields[-1]}")
        logs.extend((log_p, backoff))
        for word in fields[1 : size + 1]:
            if size == 1 and word not in number:
                number[word] = len(words)
                words.append(word)
            if word not in number:
                reader.fail(f"all words must be among the 1-grams, but '{word[:60]}' is not")
            numbers.append(number[word])
    table = np.frombuffer(numbers, np.int64).reshape(rows, size)
    pairs = np.frombuffer(logs).reshape(rows, 2)
    if size == 1:
        return _unigrams(reader, table[:, 0], pairs, words)
    keys = table[:, 0]
    for level in range(1, size):
        place = keys if level == 1 else lower[level - 1].find(keys).astype(np.int64)
        if (place < 0).any():
            raise UserError(
                f"{reader.path}:{first + int((place < 0).argmax())}: must begin with an n-gram that the file has"
            )
        keys = place * len(words) + table[:, level]
    order_ = np.argsort(keys, kind="stable")
    keys = keys[order_]
    if (keys[1:] == keys[:-1]).any():
        twice = int(order_[1:][keys[1:] == keys[:-1]][0])
        raise UserError(
            f"{reader.path}:{first + twice}: an n-gram must stand once in a file, but this one stands twice"
        )
    return Level(keys, pairs[order_, 0].astype(np.float32), pairs[order_, 1].astype(np.float32))


def _unigrams(reader: _Reader, numbers: Keys, logs: np.ndarray, words: list[str]) -> Level:
    if len(set(numbers.tolist())) < len(numbers):
        reader.fail("a word must stand once among the 1-grams, but one stands twice")
    if SPECIAL.index(END) not in numbers:
        reader.fail(f"{END} must be among the 1-grams, but is not")
    log_p, backoff = np.full(len(words), UNKNOWN_LOG_P, np.float32), np.zeros(len(words), np.float32)
    log_p[SPECIAL.index(BEGIN)] = -99
    log_p[numbers], backoff[numbers] = logs[:, 0], logs[:, 1]
    return Level(np.arange(len(words)), log_p, backoff)
