"""Small corpora, and scripts/preprocess.sh run on them."""

from __future__ import annotations

import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

GERMAN = ["Der Hund schläft.", "Die Katze, „Mia“, frißt 3 % mehr.", "Das ist z. B. ein Haus!"]
ENGLISH = ["The dog sleeps.", 'The cat, "Mia", eats 3 % more.', "This is, e.g., a house!"]
Result = subprocess.CompletedProcess[str]


def write(folder: Path, name: str, german: list[str], english: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    for language, lines in (("de", german), ("en", english)):
        (folder / f"{name}.{language}").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return folder / name


def corpus(folder: Path) -> dict[str, Path]:
    return {
        "train": write(folder, "train", GERMAN * 7, ENGLISH * 7),
        "valid": write(folder, "valid", GERMAN, ENGLISH),
        "test": write(folder, "test", GERMAN[:2], ENGLISH[:2]),
    }


def command(corpus: dict[str, Path], dest: Path, *options: str) -> list[str]:
    splits = [argument for split, prefix in corpus.items() for argument in (f"--{split}", str(prefix))]
    languages = ["--source-lang", "de", "--target-lang", "en", "--workers", "2"]
    merges = [] if {"--subwords", "--vocabulary"} & set(options) else ["--bpe-merges", "20"]
    return [str(SCRIPTS / "preprocess.sh"), *languages, *merges, *splits, "--dest", str(dest), *options]


def preprocess(corpus: dict[str, Path], dest: Path, *options: str) -> Result:
    return subprocess.run(command(corpus, dest, *options), capture_output=True, text=True, timeout=300, check=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def errors(result: Result) -> list[str]:
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    return [line for line in result.stderr.splitlines() if ": error: " in line]


def refused(tmp_path: Path, corpus: dict[str, Path], *options: str) -> str:
    """The one line of error that preprocessing ends with, leaving nothing behind."""
    before = set(tmp_path.iterdir())
    lines = errors(preprocess(corpus, tmp_path / "data", *options))
    assert len(lines) == 1
    assert set(tmp_path.iterdir()) == before
    return lines[0]
