"""scripts/clean.sh killed and resumed: the files are those of an undisturbed run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from grammar.generate import sample_pairs
from support.flow import SCRIPTS, contents
from support.processes import finish, started, wait_until

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
OPTIONS = ["--numbers", "--dedup", "source", "--train-classifier", "--keep-best", "0.8", "--keep-unseen", "2"]


def command(workers: int) -> list[str]:
    languages = ["--source-lang", "de", "--target-lang", "en"]
    words = ["--input", "../corpus", "--output", "out", *languages, *OPTIONS]
    return [str(SCRIPTS / "clean.sh"), *words, "--rejected", "rejected", "--chunk", "20", "--workers", str(workers)]


@pytest.mark.slow
def test_killed_and_resumed_it_gives_the_files_of_an_undisturbed_run(tmp_path: Path) -> None:
    pairs = sample_pairs(1200, seed=1)
    for side, language in enumerate(("de", "en")):
        (tmp_path / f"corpus.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    killed.mkdir()
    whole.mkdir()
    parts = killed / "out.parts"
    with started(command(1), ENVIRONMENT, cwd=killed) as process:
        wait_until(lambda: len(list(parts.glob("chunk-*.npz"))) >= 3, process)
    # All its processes are killed here.
    assert 3 <= len(list(parts.glob("chunk-*.npz"))) < 60
    assert not (killed / "out.de").exists()
    with started(command(2), ENVIRONMENT, cwd=killed) as process:
        assert process.wait(timeout=300) == 0
    assert finish(command(2), env=ENVIRONMENT, cwd=whole, timeout=300).returncode == 0
    assert contents(killed) == contents(whole)
    assert {"out.de", "out.report.html", "out.classifier.json", "rejected.reason"} <= contents(whole).keys()
    again = finish(command(1), env=ENVIRONMENT, cwd=whole, timeout=300)
    assert "is up to date" in again.stdout
