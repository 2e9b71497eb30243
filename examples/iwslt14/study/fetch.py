"""Download the official archive of IWSLT14 German to English.

The SHA-256 of what was downloaded is written beside it, and must be the same ever after. No published one is known that
a first download could be held against; --sha256 takes one that you trust. Without it, that the archive is whole is
known from gzip's own checksum, and that it is the right one from its members and, later, the numbers of its lines.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text
from examples.download import download
from study.archive import read_archive

# The place that fairseq's prepare-iwslt14.sh names, encrypted and as it names it; between them, the organisers' own.
ADDRESSES = (
    "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
    "https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz",
    "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
)


def fetch(archive: Path, addresses: list[str], digest: str = "") -> None:
    """Have the archive there, whole and checked; a download that fails the check is removed.

    Args:
        archive: where it belongs
        addresses: where to get it, one after the other
        digest: SHA-256 that it must have; empty: that of the first download, if there was one

    Raises:
        UserError: no address has it, or it is not what it must be
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    record = archive.with_name(f"{archive.name}.sha256")
    known = whole_text(record).split()[:1] if record.is_file() else []
    with lock(archive):
        if not archive.is_file():
            download_from_any(addresses, archive)
        try:
            read_archive(archive, digest or "".join(known))
        except UserError as error:
            archive.unlink()
            hint = "" if digest or not known else f" (the first download's, in {record})"
            raise UserError(f"{error}{hint}; it has been removed, and the same command gets it again") from None
        if not known:
            with console.whole_file(record) as temporary:
                temporary.write_text(f"{sha256(archive)}  {archive.name}\n", encoding="utf-8")


def download_from_any(addresses: list[str], archive: Path) -> None:
    """Download from the first address that has it."""
    failures = []
    for address in addresses:
        try:
            content = download(address)
        except UserError as error:
            failures.append(str(error))
        else:
            with console.whole_file(archive) as temporary:
                temporary.write_bytes(content)
            return
    raise UserError(f"{'; '.join(failures)}; run the same command again, or give the file: --archive FILE")


@contextmanager
def lock(archive: Path) -> Iterator[None]:
    """Let one process at a time work on the archive."""
    path = archive.with_name(f"{archive.name}.lock")
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sha256(path: Path) -> str:
    """The checksum, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, metavar="FILE", help="where the archive belongs")
    parser.add_argument("--url", action="append", help="where to get it, in place of the known addresses")
    parser.add_argument("--sha256", default="", metavar="HEX", help="checksum that it must have")
    arguments = parser.parse_args()
    fetch(arguments.archive, arguments.url or list(ADDRESSES), arguments.sha256)


if __name__ == "__main__":
    console.run(main)
