"""Write a small archive in the format of the official one, with sentences of the demo's grammar."""

from __future__ import annotations

import argparse
import gzip
import io
import tarfile
from html import escape
from pathlib import Path

from grammar.corpus import Pair, sample_pairs

from deepnmt import console
from study.archive import LANGUAGES, TESTS, TRAIN

TALK = 20


def tags(sentences: list[str], language: str) -> str:
    """Sentences as a file of tags: talks, each with its address, keywords, number, title and description."""
    lines = []
    for first in range(0, len(sentences), TALK):
        number = first // TALK + 1
        lines += [
            f"<url>http://www.ted.com/talks/lang/{language}/talk_{number}.html</url>",
            f"<keywords>talks, {number}</keywords>",
            f"<talkid>{number}</talkid>",
            f"<title>Talk {number}</title>",
            f"<description>TED Talk Subtitles and Transcript: {number}.</description>",
            *(f" {sentence} " for sentence in sentences[first : first + TALK]),
        ]
    return "".join(f"{line}\n" for line in lines)


def xml(sentences: list[str], language: str, name: str) -> str:
    """Sentences as an XML file of segments, the source's or the reference's."""
    kind = "srcset" if language == LANGUAGES[0] else "refset"
    rows = [f'<seg id="{number}"> {escape(text, quote=False)} </seg>' for number, text in enumerate(sentences, start=1)]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<mteval>",
        f'<{kind} setid="{name}" srclang="german" trglang="english">',
        '<doc docid="1" genre="lectures">',
        "<title>A talk</title>",
        *rows,
        "</doc>",
        f"</{kind}>",
        "</mteval>",
    ]
    return "".join(f"{line}\n" for line in lines)


def write_archive(path: Path, train: list[Pair], tests: list[list[Pair]]) -> None:
    """Write the archive.

    Args:
        path: the file
        train: sentences, German and English
        tests: the same for each of `TESTS`
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the time, the same sentences give the same file.
    with (
        console.whole_file(path) as temporary,
        temporary.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, 0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for side, language in enumerate(LANGUAGES):
            _add(tar, f"{TRAIN}.{language}", tags([pair[side] for pair in train], language))
            for name, pairs in zip(TESTS, tests):
                _add(tar, f"{name}.{language}.xml", xml([pair[side] for pair in pairs], language, name))


def _add(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8")
    member = tarfile.TarInfo(f"de-en/{name}")
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path, metavar="FILE", help="the archive to write")
    parser.add_argument("--train", type=int, default=1500, metavar="N", help="training pairs (default: %(default)s)")
    parser.add_argument(
        "--test", type=int, default=10, metavar="N", help="pairs of each test set (default: %(default)s)"
    )
    arguments = parser.parse_args()
    size = arguments.test
    pairs = sample_pairs(arguments.train + size * len(TESTS), seed=1)
    tests, train = pairs[: size * len(TESTS)], pairs[size * len(TESTS) :]
    write_archive(arguments.archive, train, [tests[i * size :][:size] for i in range(len(TESTS))])


if __name__ == "__main__":
    console.run(main)
