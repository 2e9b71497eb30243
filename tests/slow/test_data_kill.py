"""Commands that make data folders, killed at random moments: the same command then makes the same bytes."""

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
from support.flow import contents, corpus, in_process, options_of

pytestmark = pytest.mark.slow
TIMES = 10


def words_of(name: str, folder: Path, out: Path) -> list[str]:
    """The command line of a subcommand on small data in a folder."""
    made = folder / "made"
    if not made.exists():
        assert in_process("preprocess", *options_of(corpus(folder / "raw"), made, "--truecase")).returncode == 0
    words: dict[str, list[object]] = {
        "preprocess": [*options_of(corpus(folder / "raw"), out, "--truecase", "--bpe-dropout", "0.1", "--copies", "3")],
        "binarise": ["--like", made, "--train", folder / "raw" / "test", "--dest", out, "--workers", 2],
        "mix": [out, made, made, "--upsample", 3],
    }
    return list(map(str, words[name]))


@pytest.mark.parametrize("name", ["preprocess", "binarise", "mix"])
def test_a_command_that_was_killed_makes_the_same_again(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "deepnmt", name, *words_of(name, tmp_path, out)]
    start = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    seconds, whole = time.monotonic() - start, contents(out)
    before = {path.name for path in tmp_path.iterdir()}
    for seed in range(TIMES):
        moment = random.Random(seed).uniform(0, seconds)
        print(f"{name}, seed {seed}: killed after {moment:.2f} s")
        shutil.rmtree(out)
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            time.sleep(moment)
            # It may have ended by itself.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        assert contents(out) == whole
        assert {path.name for path in tmp_path.iterdir()} == before
