"""Small corpora, and commands run on them, most in the process of the test."""

from __future__ import annotations

import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from deepnmt.cli import call
from deepnmt.errors import UserError, os_message

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


def in_process(name: str, *words: object) -> Result:
    """What the script of a subcommand does, without starting another process."""
    out, err = StringIO(), StringIO()
    command, status = list(map(str, words)), 0
    with patch.dict(os.environ, DEEPNMT_SCRIPT=f"{name}.sh"), redirect_stdout(out), redirect_stderr(err):
        try:
            call(name, command)
        except (UserError, OSError) as error:
            status = 2
            message = os_message(error) if isinstance(error, OSError) else str(error)
            err.write(f"{name}.sh: error: {message}\n")
    return subprocess.CompletedProcess([name, *command], status, out.getvalue(), err.getvalue())


def options_of(corpus: dict[str, Path], dest: Path, *options: object) -> list[str]:
    splits = [argument for split, prefix in corpus.items() for argument in (f"--{split}", str(prefix))]
    languages = ["--source-lang", "de", "--target-lang", "en", "--workers", "2"]
    merges = [] if {"--subwords", "--vocabulary"} & set(options) else ["--bpe-merges", "20"]
    return [*languages, *merges, *splits, "--dest", str(dest), *map(str, options)]


def preprocess(corpus: dict[str, Path], dest: Path, *options: object) -> Result:
    return in_process("preprocess", *options_of(corpus, dest, *options))


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
