"""A corpus whose source is a letter substitution of the target, as a data folder made without fairseq."""

from __future__ import annotations

import codecs
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Optional

from deepnmt.preparation.subword_learning import learn_merges
from deepnmt.text.like_folder import binarise_text
from deepnmt.text.subwords import Bpe, join_bpe
from support.flow import in_process
from support.numbered import words_of

SOURCE, TARGET = LANGUAGES = ("de", "en")
SIZES = {"train": 40, "valid": 6, "test": 5}


def substituted(line: str) -> str:
    """The line in the other language; twice is the line again."""
    return codecs.encode(line, "rot13")


def sentences(number: int, seed: int = 1) -> list[str]:
    """Different sentences of the target, of 2 to 6 words, with letters up to m."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklm", k=draw.randint(1, 5))) for _ in range(40)]
    found: dict[str, None] = {}
    while len(found) < number:
        found[" ".join(draw.choices(words, k=draw.randint(2, 6)))] = None
    return list(found)


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def substitution_data(folder: Path, seed: int = 1) -> Path:
    """A whole data folder, as preprocess.sh --pretokenized leaves it."""
    text = folder / "text"
    text.mkdir(parents=True)
    lines = sentences(sum(SIZES.values()), seed)
    for split, size in SIZES.items():
        part, lines = lines[:size], lines[size:]
        write_lines(text / f"{split}.tok.{TARGET}", part)
        write_lines(text / f"{split}.tok.{SOURCE}", [substituted(line) for line in part])
    learn_merges(folder / "codes", 30, words_of(*(text / f"train.tok.{language}" for language in LANGUAGES)))
    bpe, counts = Bpe(folder / "codes"), Counter[str]()
    for split in SIZES:
        for language in LANGUAGES:
            subwords = [bpe(line) for line in (text / f"{split}.tok.{language}").read_text("utf-8").splitlines()]
            write_lines(text / f"{split}.bpe.{language}", subwords)
            for line in subwords:
                counts.update(line.split())
    for language in LANGUAGES:
        write_lines(folder / f"dict.{language}.txt", [f"{word} {number}" for word, number in sorted(counts.items())])
    record = {"source_lang": SOURCE, "target_lang": TARGET, "lowercase": False, "pretokenized": True}
    record |= {"bpe_merges": 30, "joined_dictionary": True, "max_len": 0, "max_ratio": 0, "inputs": {}}
    (folder / "preprocess.json").write_text(json.dumps(record), encoding="utf-8")
    for split in SIZES:
        binarise_text(folder, split)
    types = len((folder / f"dict.{SOURCE}.txt").read_text("utf-8").splitlines()) + 4
    record["types"] = dict.fromkeys(LANGUAGES, types)
    (folder / "preprocess.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def monolingual(folder: Path, data: Path, language: str, lines: list[str], symbols: list[str]) -> Path:
    """A folder as binarise.sh --mono leaves it."""
    write_lines(folder / f"mono.{language}", lines)
    made = folder / f"mono-{language}"
    words = [word for symbol in symbols for word in ("--symbols", symbol)]
    done = in_process(
        "binarise",
        "--like",
        data,
        "--mono",
        folder / "mono",
        "--lang",
        language,
        "--dest",
        made,
        "--workers",
        1,
        *words,
    )
    assert done.returncode == 0, done.stderr
    return made


class Substitution:
    """In place of `LineDecoder`: the reverse model is the substitution. `calls` are the seeds that it was given."""

    calls: ClassVar[list[str]] = []
    stop_after: ClassVar[Optional[int]] = None

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __call__(self, lines: Sequence[str], seed: str, done: Callable[[int], object]) -> list[Optional[list[str]]]:
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt("killed")
        self.calls.append(seed)
        done(len(lines))
        return [[substituted(join_bpe(line))] for line in lines]
