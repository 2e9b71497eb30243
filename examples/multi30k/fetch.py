"""Multi30k task 1, English and German, from a folder or from its public repository, with checksums verified."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import read_text
from examples.download import download

COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
REPOSITORY = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1"
CHECKSUMS = Path(__file__).with_name("SHA256SUMS")


def checksums() -> dict[str, str]:
    """SHA-256 of each file's text, uncompressed, by name."""
    pairs = (line.split() for line in read_text(CHECKSUMS))
    return {name: digest for digest, name in pairs}


def from_folder(folder: Path, name: str) -> bytes:
    """The text of a file that lies in a folder, compressed or not."""
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            data = path.read_bytes()
            return unpack(data, str(path)) if path.suffix == ".gz" else data
    raise UserError(f"{folder} must hold {name}.gz or {name}, but holds neither")


def from_repository(address: str, name: str) -> bytes:
    """The text of a file in the public repository, which keeps raw text compressed, and tokenised text not."""
    path = f"tok/{name}" if ".tok." in name else f"raw/{name}.gz"
    url = f"{address}/{path}"
    try:
        data = download(url)
    except UserError as error:
        raise UserError(f"{error}; try again, or let MULTI30K_DIR name a folder that has the data") from None
    return unpack(data, url) if path.endswith(".gz") else data


def unpack(data: bytes, name: str) -> bytes:
    """Uncompress gzip data."""
    try:
        return gzip.decompress(data)
    except (EOFError, OSError) as error:
        raise UserError(f"{name} is damaged: {error}; get it again") from None


def main() -> None:
    """Write every file, uncompressed, to a folder; files that are there already and right are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dest", type=Path, help="folder to write to")
    parser.add_argument(
        "--folder",
        type=Path,
        default=os.environ.get("MULTI30K_DIR") or None,
        help="where the files are (default: the environment's MULTI30K_DIR; without it they are downloaded)",
    )
    parser.add_argument("--url", default=REPOSITORY, help="the public repository's folder (default: %(default)s)")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        raise UserError(f"MULTI30K_DIR must be a folder, but there is no '{options.folder}'")
    options.dest.mkdir(parents=True, exist_ok=True)
    expected = checksums()
    source = options.folder or options.url
    for name, digest in expected.items():
        target = options.dest / name
        if target.is_file() and sha256(target.read_bytes()) == digest:
            continue
        data = from_folder(options.folder, name) if options.folder else from_repository(options.url, name)
        if sha256(data) != digest:
            raise UserError(f"{source}: {name} must have SHA-256 {digest}, but has {sha256(data)}; get it again")
        with console.whole_file(target) as temporary:
            temporary.write_bytes(data)


def sha256(data: bytes) -> str:
    """The checksum, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    console.run(main)
