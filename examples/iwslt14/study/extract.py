"""The text of the official archive, a sentence a line: OUT/train.LANG and OUT/test.LANG.

What fairseq's prepare-iwslt14.sh does with grep and sed: of the training text, lines with an address, number or
keywords of a talk are left out, and the tags around its title and description, which count as sentences; of the five
test sets, in the order of that script, the segments are kept, with ' in the place of the typographic apostrophe.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import without_mark
from study.archive import LANGUAGES, TESTS, TRAIN, read_archive

ABOUT_THE_TALK = ("<url>", "<talkid>", "<keywords>")
TITLE = re.compile("</?(?:title|description)>")
SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')


def lines_of(members: dict[str, bytes], name: str) -> list[str]:
    """The lines of a member, ended by line feeds alone."""
    try:
        text = without_mark(members[name], name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: invalid UTF-8 at byte {error.start}") from None
    return text.removesuffix("\n").split("\n")


def training_text(lines: list[str]) -> list[str]:
    """The sentences of a file of tags."""
    return [TITLE.sub("", line) for line in lines if not any(tag in line for tag in ABOUT_THE_TALK)]


def segments(lines: list[str]) -> list[str]:
    """The sentences of an XML file."""
    return [SEGMENT.sub("", line).replace("\u2019", "'") for line in lines if "<seg id" in line]


def extract(archive: Path, output: Path, digest: str = "") -> None:
    """Write the training text and the standard test set.

    Raises:
        UserError: the archive is not what it must be, or the two sides of a text do not match
    """
    members = read_archive(archive, digest)
    texts: dict[str, dict[str, list[str]]] = {
        split: {language: [] for language in LANGUAGES} for split in ("train", "test")
    }
    for source in (TRAIN, *TESTS):
        split, end, read = ("train", "", training_text) if source == TRAIN else ("test", ".xml", segments)
        sides = {language: read(lines_of(members, f"{source}.{language}{end}")) for language in LANGUAGES}
        german, english = map(len, sides.values())
        if german != english or not german:
            raise UserError(
                f"{archive}: {source} must have as many sentences in both languages, and some, "
                f"but has {german} in German and {english} in English"
            )
        for language, sentences in sides.items():
            texts[split][language] += sentences
    output.mkdir(parents=True, exist_ok=True)
    for split, sides in texts.items():
        for language, sentences in sides.items():
            with console.whole_file(output / f"{split}.{language}") as temporary:
                temporary.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, metavar="ARCHIVE")
    parser.add_argument("output", type=Path, metavar="OUT")
    parser.add_argument("--sha256", default="", metavar="HEX", help="checksum that the archive must have")
    arguments = parser.parse_args()
    extract(arguments.archive, arguments.output, arguments.sha256)


if __name__ == "__main__":
    console.run(main)
