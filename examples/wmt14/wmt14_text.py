"""The text of WMT14 English-German from the organisers' archives, a sentence a line: OUT/{train,valid,test}.{en,de}.

Training text is Europarl v7, Common Crawl and News Commentary v9, one after the other; newstest2013 is for validation
and newstest2014 is the test, all 3,003 sentences. Segments of the test stand as the organisers' file has them, so that
detokenised scores can be compared with those of sacrebleu's own copy.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from deepnmt import beside, console
from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text

LANGUAGES = ("en", "de")
SEGMENT = re.compile(rb"<seg[^>]*>\s*(.*?)\s*</seg>")
RECORD = "archives.json"


@dataclass(frozen=True)
class Part:
    """A parallel text in an archive.

    Attributes:
        archive: the file, as the organisers name it
        split: to which the text belongs
        members: of the archive, English and German, without folders
        pairs: that it must have; 0: any number
    """

    archive: str
    split: str
    members: tuple[str, str]
    pairs: int = 0


def _plain(name: str) -> tuple[str, str]:
    return (f"{name}.en", f"{name}.de")


# In the order in which the training text is joined.
PARTS = (
    Part("training-parallel-europarl-v7.tgz", "train", _plain("europarl-v7.de-en")),
    Part("training-parallel-commoncrawl.tgz", "train", _plain("commoncrawl.de-en")),
    Part("training-parallel-nc-v9.tgz", "train", _plain("news-commentary-v9.de-en")),
    Part("dev.tgz", "valid", _plain("newstest2013"), 3000),
    Part("test-full.tgz", "test", ("newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm"), 3003),
)


def extract(archives: Path, output: Path, parts: tuple[Part, ...] = PARTS) -> bool:
    """Write the texts; return False where those of the same archives are there already.

    Args:
        archives: folder of the archives
        output: folder to make
        parts: in the archives

    Raises:
        UserError: archives or members are missing, damaged, or their two sides do not match
    """
    if lacking := [part.archive for part in parts if not (archives / part.archive).is_file()]:
        raise UserError(f"{archives} must hold the organisers' archives, but lacks {', '.join(lacking)}")
    stamp = {part.archive: (archives / part.archive).stat().st_size for part in parts}
    record = output / RECORD
    if record.is_file() and whole_text(record) == json.dumps(stamp):
        return False
    with beside.whole_folder(output) as folder:
        for part in parts:
            _take(archives / part.archive, part, folder)
        (folder / RECORD).write_text(json.dumps(stamp), encoding="utf-8")
    return True


def _take(archive: Path, part: Part, folder: Path) -> None:
    """Append a part's two sides to the files of its split."""
    counts: dict[str, int] = {}
    for name, file in _members(archive, set(part.members)):
        if name not in counts:
            language = LANGUAGES[part.members.index(name)]
            with (folder / f"{part.split}.{language}").open("ab") as text:
                counts[name] = _copy(file, text, sgm=name.endswith(".sgm"))
    if lacking := [name for name in part.members if name not in counts]:
        raise UserError(f"{archive} must hold {' and '.join(part.members)}, but lacks {' and '.join(lacking)}")
    english, german = (counts[name] for name in part.members)
    if english != german or not english:
        raise UserError(
            f"{archive}: both sides must have the same number of sentences, at least one, but have {english} in "
            f"English and {german} in German"
        )
    if part.pairs and english != part.pairs:
        raise UserError(f"{archive}: {part.members[0]} must have {part.pairs:,} sentences, but has {english:,}")


def _members(archive: Path, names: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of an archive that have these names, with their names."""
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                file = tar.extractfile(member) if name in names and member.isfile() else None
                if file is not None:
                    yield name, file
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{archive} must be a whole archive, but is not: {error}") from None


def _copy(file: IO[bytes], text: IO[bytes], sgm: bool) -> int:
    """Copy the lines of a text, or the segments of an SGML file; return their number."""
    count = 0
    for line in file:
        segment = SEGMENT.search(line) if sgm else None
        if not sgm or segment is not None:
            text.write((line.rstrip(b"\r\n") if segment is None else segment[1]) + b"\n")
            count += 1
    return count


def main() -> None:
    """Extract what the command line names."""
    parser = console.Parser("prepare.sh", __doc__)
    parser.add_argument("archives", type=Path, metavar="ARCHIVES")
    parser.add_argument("output", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    if not arguments.archives.is_dir():
        raise UserError(f"--archives: no such folder: '{arguments.archives}'")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    if not extract(arguments.archives, arguments.output):
        print(f"{arguments.output} is up to date")


if __name__ == "__main__":
    console.run(main)
