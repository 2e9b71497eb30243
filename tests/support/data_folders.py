"""Binarised data folders made without fairseq, from its file format alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

LANGUAGES = ("de", "en")
SUBSETS = ("train", "valid", "test")
TYPES = 12
Sentences = Sequence[Sequence[int]]
SENTENCES: Sentences = ([4, 5, 6, 2], [7, 2], [8, 9, 10, 11, 4, 2])


def write_side(prefix: Path, sentences: Sentences) -> None:
    """PREFIX.idx and PREFIX.bin of 16-bit numbers, as fairseq-preprocess writes them for small dictionaries."""
    lengths = [len(sentence) for sentence in sentences]
    offsets = [2 * sum(lengths[:number]) for number in range(len(lengths))]
    count = len(lengths)
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, 8, count)
    Path(f"{prefix}.idx").write_bytes(index + struct.pack(f"<{count}i", *lengths) + struct.pack(f"<{count}q", *offsets))
    numbers = [number for sentence in sentences for number in sentence]
    Path(f"{prefix}.bin").write_bytes(struct.pack(f"<{len(numbers)}H", *numbers))


def change_record(folder: Path, **said: object) -> None:
    """Let the record of a data folder say something else."""
    record = folder / "preprocess.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **said}))


def data_folder(folder: Path, subsets: Sequence[str] = SUBSETS, lines: Sequence[str] = ()) -> Path:
    """A folder as preprocess.sh leaves it; `lines` are the text of both languages, in place of that of `SENTENCES`."""
    sentences = [[4, 2]] * len(lines) if lines else SENTENCES
    (folder / "text").mkdir(parents=True)
    for language in LANGUAGES:
        (folder / f"dict.{language}.txt").write_text("".join(f"w{number} 1\n" for number in range(TYPES - 4)))
        for subset in subsets:
            write_side(folder / f"{subset}.de-en.{language}", sentences)
            for kind, stop in (("tok", " ."), ("raw", ".")):
                text = lines or [f"{language} {number}{stop}" for number in range(1, 1 + len(sentences))]
                path = folder / "text" / f"{subset}.{kind}.{language}"
                path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    files = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    record = {
        "source_lang": "de",
        "target_lang": "en",
        "lowercase": True,
        "pretokenized": False,
        "types": dict.fromkeys(LANGUAGES, TYPES),
        "files": files,
    }
    (folder / "preprocess.json").write_text(json.dumps(record))
    return folder
