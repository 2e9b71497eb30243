"""`deepnmt ngram`: from text to scores."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import warm
from support.flow import SCRIPTS

from deepnmt.corpus.ngram import work as ngram
from deepnmt.errors import UserError

LINES = [
    f"the dog {'sees' if n % 3 else 'hears'} the {'cat' if n % 2 else 'bird'} number {n % 7} ." for n in range(130)
]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.en"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def test_a_link_to_itself_gives_way_to_the_model(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.arpa"
    out.symlink_to(out)
    ngram.train(text, out, 2, 1000, False)
    assert not out.is_symlink()
    assert "\\2-grams:" in out.read_text("utf-8")


def test_what_it_refuses(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.arpa"
    for order in (0, 7):
        with pytest.raises(UserError, match=f"^--order must be from 1 to 6, but is {order}$"):
            ngram.train(text, out, order, 1000, False)
    with pytest.raises(UserError, match=r"^--learn-from must be at least 100, but is 99$"):
        ngram.train(text, out, 3, 99, False)
    (tmp_path / "short").write_text("a\n" * 99)
    with pytest.raises(UserError, match=r"short: must have at least 100 lines to learn from, but has 99$"):
        ngram.train(tmp_path / "short", out, 3, 1000, False)
    with pytest.raises(UserError, match=r"^OUT must be another file than TEXT, but is .*text\.en$"):
        ngram.train(text, text, 3, 1000, False)
    assert len(text.read_text().splitlines()) == len(LINES)
    with pytest.raises(UserError, match=r"none: text not found$"):
        ngram.train(tmp_path / "none", out, 3, 1000, False)
    with pytest.raises(UserError, match=r"out.arpa: ARPA file not found$"):
        ngram.score("ngram", out, text, tmp_path / "out.tsv", False, "score", 1)
    with pytest.raises(UserError, match=r"^--column must be a word, but is 'a b'$"):
        ngram.score("ngram", text, text, tmp_path / "out.tsv", False, "a b", 1)
    with pytest.raises(UserError, match=r"short exists; remove it or choose another OUT$"):
        ngram.score("ngram", text, text, tmp_path / "short", False, "score", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["short"]
    # A place that nobody can write to, before anything is counted; a folder that is missing is made.
    with pytest.raises(FileExistsError, match="short"):
        ngram.train(text, tmp_path / "short" / "out.arpa", 3, 1000, False)
    ngram.train(text, tmp_path / "new" / "out.arpa", 2, 1000, False)
    assert (tmp_path / "new" / "out.arpa").is_file()


def test_scores_of_several_processes_and_starts_are_those_of_one(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.arpa"
    ngram.train(text, model, 3, 1000, False)
    one, other, parts = tmp_path / "one.tsv", tmp_path / "other.tsv", tmp_path / "other.tsv.parts"
    ngram.score("ngram", model, text, one, False, "fluency", 1)
    assert one.read_text().splitlines()[0] == "fluency"
    assert len(one.read_text().splitlines()) == 131

    monkeypatch.setattr(ngram, "BLOCK", 20)
    scored: list[int] = []

    def stopped(folder: Path, *rest: Any) -> Any:
        """Scores the blocks that start at 20 and 120, and is then killed."""
        score = ngram_scorer(folder, *rest)
        blocks = list(ngram.missing(text, folder))
        scored.extend(start for start, _ in blocks)
        for number in () if scored != [0, 20, 40, 60, 80, 100, 120] else (1, 6):
            score(blocks[number])
        raise KeyboardInterrupt

    ngram_scorer = ngram.scorer
    with monkeypatch.context() as patch:
        patch.setattr(ngram, "scorer", stopped)
        with pytest.raises(KeyboardInterrupt, match=r"^resume from the work done in .*other\.tsv\.parts$"):
            ngram.score("ngram", model, text, other, False, "fluency", 1)
    assert not other.exists()
    assert [start for start, _ in ngram.missing(text, parts)] == [0, 40, 60, 80, 100]
    record = (parts / "ngram.json").read_bytes()
    ngram.score("ngram", model, text, other, False, "fluency", 2)
    assert other.read_bytes() == one.read_bytes()
    assert not parts.exists()
    # Killed when all was written, but for the removal of its work; without that, nothing says what OUT was made with.
    parts.mkdir()
    (parts / "ngram.json").write_bytes(record)
    ngram.score("ngram", model, text, other, False, "fluency", 1)
    assert other.read_bytes() == one.read_bytes()
    assert not parts.exists()
    with pytest.raises(UserError, match=r"other\.tsv exists; remove it or choose another OUT$"):
        ngram.score("ngram", model, text, other, False, "fluency", 1)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / "ngram.sh"), *map(str, words)]
    environment = {**os.environ, **warm.environment()}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


def test_the_command_finds_lines_that_are_not_like_the_others(text: Path, tmp_path: Path) -> None:
    model, scores = tmp_path / "model.arpa", tmp_path / "scores.tsv"
    assert run("train", text, model, "--order", 2, "--raw").returncode == 0
    odd = tmp_path / "odd"
    odd.write_text("The DOG sees the bird number 3.\nder Hund sieht die Katze .\nthe the the the the the\n\n")
    assert run("score", model, odd, scores, "--raw", "--column", "odd").returncode == 0
    header, good, german, repeated, empty = scores.read_text().splitlines()
    assert header == "odd"
    assert float(good) < 1 < min(map(float, (german, repeated, empty)))
    assert not Path(f"{scores}.parts").exists()
    refused = run("guess")
    assert refused.returncode == 2
    assert refused.stderr.startswith("ngram.sh: error: argument train|score: invalid choice: 'guess' (choose from ")
