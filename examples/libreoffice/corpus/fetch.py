"""Parallel text of LibreOffice's help and interface, any language into English.

    OUT/train.LANG train.en   pairs
    OUT/valid.* test.*        pairs of whole pages that training has nothing of
    OUT/pairs.json            packages with checksums, language, counts

Pages are paired by path, identifier and occurrence of a paragraph, the interface by its keys. Left out are texts that
stand in English in the translation, and in training every pair whose source or target is in a held-out page.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from corpus.help_pages import read_pages
from corpus.message_catalogs import read_catalogs
from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.jobs.job import Job
from deepnmt.text.record import sha256

Pair = tuple[str, str]
ENGLISH = "en-us"
LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)?")
HELP, INTERFACE = "libreoffice-help-", "libreoffice-l10n-"
# Of so many pages one is for the test, and one for validation.
PAGES = 40
LONGEST = 60  # words of a paragraph that stays whole, if it can be split
SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[^\W\d_a-z])|(?<=[。！？])")


def held_out(page: str) -> str:
    """Return the split of a page, by its path, so that it is the same for all languages."""
    number = int.from_bytes(hashlib.sha256(page.encode()).digest()[:4], "big") % PAGES
    return {0: "test", 1: "valid"}.get(number, "train")


def split_paragraph(source: str, target: str) -> list[Pair]:
    """Return a pair, or the pairs of its sentences where it is long and both sides have as many."""
    if max(len(source.split()), len(target.split())) <= LONGEST and len(source) <= 10 * LONGEST:
        return [(source, target)]
    sides = [[part.strip() for part in SENTENCE_END.split(side) if part.strip()] for side in (source, target)]
    return list(zip(*sides)) if len(sides[0]) == len(sides[1]) else [(source, target)]


def pairs_of(folders: dict[str, Path], language: str) -> dict[str, list[Pair]]:
    """Return the pairs of a language in each split, each once.

    Args:
        folders: unpacked packages, by their names
        language: of the source
    """
    english, other = (_pages(folders[f"{HELP}{each}"]) for each in (ENGLISH, language))
    found: dict[str, dict[Pair, None]] = {"train": {}, "valid": {}, "test": {}}
    texts = dict(read_pages(other))
    for place, target in read_pages(english):
        source = texts.get(place)
        if source is not None and source != target:
            found[held_out(place.page)].update(dict.fromkeys(split_paragraph(source, target)))
    if (interface := folders.get(f"{INTERFACE}{language}")) is not None:
        for target, source in read_catalogs(interface):
            if source != target:
                found["train"][source, target] = None
    return without_held_out({split: list(pairs) for split, pairs in found.items()})


def without_held_out(splits: dict[str, list[Pair]]) -> dict[str, list[Pair]]:
    """Return the splits without pairs of training, and of validation, that have a side of a later one."""
    known: set[str] = set()
    result = {}
    for split in ("test", "valid", "train"):
        result[split] = [pair for pair in splits[split] if not known.intersection(pair)]
        known.update(side for pair in splits[split] for side in pair)
    return result


def _pages(package: Path) -> Path:
    folders = list((package / "usr/share/libreoffice/help").glob("*/text"))
    if len(folders) != 1:
        raise UserError(f"{package.name}: must have one folder of pages, usr/share/libreoffice/help/*/text")
    return folders[0]


def packages_of(language: str) -> list[str]:
    """Return the names of the packages of a language, English first."""
    return [f"{HELP}{ENGLISH}", f"{HELP}{language}", f"{INTERFACE}{language}"]


def find_packages(names: Iterable[str], given: Path | None, cache: Path) -> dict[str, Path]:
    """Return the packages' files, from a folder or by apt-get.

    Args:
        names: packages
        given: folder with .deb files; None: they are downloaded
        cache: folder for downloads

    Raises:
        UserError: a file is missing, or apt-get fails
    """
    folder = cache if given is None else given
    found = {}
    for name in names:
        if given is None and not list(folder.glob(f"{name}_*.deb")):
            download(name, folder)
        files = sorted(folder.glob(f"{name}_*.deb"))
        if len(files) != 1:
            raise UserError(f"{folder}: must have one file {name}_*.deb, but has {len(files)}")
        found[name] = files[0]
    return found


def download(name: str, folder: Path) -> None:
    """Download a package. Raises `UserError` if there is no apt-get, or it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.which("apt-get") is None:
        raise UserError(f"apt-get not found; download {name} from a Debian mirror, and name its folder with --debs")
    print(f"+ apt-get download {name}", file=sys.stderr)
    with TemporaryDirectory(dir=folder) as temporary:
        done = subprocess.run(
            ["apt-get", "download", name], cwd=temporary, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UserError(f"apt-get download {name} failed: {reason}; has 'apt-get update' been run?")
        for file in Path(temporary).glob("*.deb"):
            file.rename(folder / file.name)


def unpack(package: Path, folder: Path) -> Path:
    """Unpack a package. Raises `UserError` if dpkg-deb cannot."""
    if shutil.which("dpkg-deb") is None:
        raise UserError("dpkg-deb not found; install the package dpkg")
    done = subprocess.run(
        ["dpkg-deb", "-x", str(package), str(folder)], capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"{package}: cannot be unpacked: {reason}")
    return folder


def write_text(folder: Path, language: str, packages: dict[str, Path]) -> dict[str, int]:
    """Write the splits, and return how many pairs they have."""
    with TemporaryDirectory(dir=folder) as temporary:
        splits = pairs_of({name: unpack(packages[name], Path(temporary) / name) for name in packages}, language)
    for split, pairs in splits.items():
        write_pairs(folder, split, language, pairs)
    return {split: len(pairs) for split, pairs in splits.items()}


def write_pairs(folder: Path, split: str, language: str, pairs: Sequence[Pair]) -> None:
    """Write the pairs of a split, a line each."""
    for side, ending in enumerate((language, "en")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{split}.{ending}").write_text(text, encoding="utf-8", newline="\n")


def parser() -> console.Parser:
    """Return what reads the command line."""
    parser = console.Parser(console.program("fetch"), __doc__)
    add = parser.add_argument
    add("language", metavar="LANGUAGE", help="source language, such as de or pt-br")
    add("out", type=Path, metavar="OUT", help="folder to make")
    add("--debs", type=Path, metavar="FOLDER", help="folder with the .deb files (default: apt-get downloads them)")
    add("--cache", type=Path, metavar="FOLDER", help="folder for downloads (default: beside OUT, debs)")
    return parser


def main() -> None:
    """Make the text that the command line names."""
    given = parser().parse_args()
    language = given.language
    if not LANGUAGE.fullmatch(language) or language.startswith("en"):
        raise UserError(f"LANGUAGE must be another one than English, such as de or pt-br, but is '{language}'")
    packages = find_packages(packages_of(language), given.debs, given.cache or given.out.parent / "debs")
    record = {"language": language, "inputs": {path.name: sha256(path) for path in packages.values()}}
    job = Job(console.program("fetch"), given.out, "pairs.json", record)

    def work(parts: Path) -> None:
        counts: dict[str, int] = {}
        with job.result(counts) as folder:
            counts.update(write_text(folder, language, packages))
        print(f"pairs: {counts['train']} for training, {counts['valid']} for validation, {counts['test']} for the test")

    job.do(work)


if __name__ == "__main__":
    console.run(main)
