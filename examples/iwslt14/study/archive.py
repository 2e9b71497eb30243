"""What the official archive of IWSLT14 German to English must hold, and whether a file is such an archive."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError

LANGUAGES = ("de", "en")
TRAIN = "train.tags.de-en"
# In the order of fairseq's prepare-iwslt14.sh, the standard test set.
TESTS = (
    "IWSLT14.TED.dev2010.de-en",
    "IWSLT14.TEDX.dev2012.de-en",
    "IWSLT14.TED.tst2010.de-en",
    "IWSLT14.TED.tst2011.de-en",
    "IWSLT14.TED.tst2012.de-en",
)
MEMBERS = (
    *(f"{TRAIN}.{language}" for language in LANGUAGES),
    *(f"{test}.{language}.xml" for test in TESTS for language in LANGUAGES),
)


def read_archive(path: Path, digest: str = "") -> dict[str, bytes]:
    """The members that are needed, by their name without folders.

    Args:
        path: the archive
        digest: SHA-256 that it must have; empty: any

    Raises:
        UserError: there is no such file, it is damaged, is another one, or lacks members
    """
    if not path.is_file():
        raise UserError(f"{path}: no such archive")
    got = _digest_of_whole(path)
    if digest and got != digest.lower():
        raise UserError(f"{path} must have SHA-256 {digest.lower()}, but has {got}")
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                file = tar.extractfile(member) if name in MEMBERS and member.isfile() else None
                if file is not None:
                    members.setdefault(name, file.read())
    except tarfile.TarError as error:
        raise UserError(f"{path} must be a tar archive, but is not: {error}") from None
    if lacking := [name for name in MEMBERS if name not in members]:
        raise UserError(f"{path} must hold {', '.join(MEMBERS)}, but lacks {', '.join(lacking)}")
    return members


def _digest_of_whole(path: Path) -> str:
    """The file's SHA-256; `UserError` unless it is gzip data with the right checksum and length at its end."""
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file, console.progress(2 * size, f"checking {path.name}", "B") as bar:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            bar.update(len(chunk))
        file.seek(0)
        try:
            with gzip.open(file) as text:
                while text.read(1 << 20):
                    bar.update(size + file.tell() - bar.n)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{path} is damaged: {error}") from None
    return digest.hexdigest()
