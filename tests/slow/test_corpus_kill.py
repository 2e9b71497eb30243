"""Corpus tools, killed at random moments: the same command then goes on, and leaves the bytes of an undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from grammar.generate import sample_pairs
from support.flow import contents
from support.substitution import SOURCE, substitution_data

from deepnmt.corpus.ngram import work

pytestmark = pytest.mark.slow
TIMES = 10
LANGUAGES = ["--source-lang", "de", "--target-lang", "en"]
CLEAN = ["--input", "../text", "--output", "out", *LANGUAGES, "--rejected", "bad", "--score", "all.tsv"]
CLEAN += ["--chunk", "300", "--numbers", "--dedup", "source", "--train-classifier", "--keep-best", "0.8"]
CLEAN += ["--keep-unseen", "2"]
COMMANDS = {
    "clean": ["clean", *CLEAN],
    "select": ["select", "../data", "out", "--like", f"../data/text/test.tok.{SOURCE}", "--number", "20"],
    "align": ["align", "../text", "out", *LANGUAGES, "--raw", "--lexicon", "--rounds", "3"],
    "ngram train": ["ngram", "train", "../text.de", "out.arpa", "--raw"],
    "ngram score": ["ngram", "score", "../model.arpa", "../long.en", "out.tsv", "--raw"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pairs = sample_pairs(3000, seed=1)
    for side, language in enumerate(("de", "en")):
        (folder / f"text.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    (folder / "long.en").write_text((folder / "text.en").read_text("utf-8") * 20, "utf-8")
    work.train(folder / "text.en", folder / "model.arpa", 2, 3000, raw=True)
    substitution_data(folder / "data")
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_was_killed_makes_the_same_again(name: str, folder: Path) -> None:
    here = folder / name
    here.mkdir()
    command = [sys.executable, "-m", "deepnmt", *COMMANDS[name]]
    start = time.monotonic()
    subprocess.run(command, cwd=here, check=True, capture_output=True, timeout=300)
    seconds, whole = time.monotonic() - start, contents(here)
    assert whole
    for seed in range(TIMES):
        moment = random.Random(seed).uniform(0, seconds)
        print(f"{name}, seed {seed}: killed after {moment:.2f} s")
        shutil.rmtree(here)
        here.mkdir()
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=here, start_new_session=True, **silent) as process:
            time.sleep(moment)
            # It may have ended by itself.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        # It refuses a result that is there, since nothing says what that was made with.
        if name == "ngram score" and (here / "out.tsv").exists() and not (here / "out.tsv.parts").exists():
            assert contents(here) == whole
            continue
        done = subprocess.run(command, cwd=here, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert contents(here) == whole
