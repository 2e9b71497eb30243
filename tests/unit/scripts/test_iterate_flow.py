"""scripts/iterate.sh from its first command to its last, with stand-ins for what it runs, and killed in between."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.models import ROOT
from support.processes import finish
from support.substitution import SOURCE, TARGET, monolingual, sentences, substituted, substitution_data

LINES = sentences(6, seed=4)
# Each notes its command line; the one that is as many calls as LAST says kills the script first, and does nothing.
NOTE = """#!/usr/bin/env bash
set -euo pipefail
echo "$(basename "$0") $*" >>"$CALLS"
if [[ $(wc -l <"$CALLS") -eq $LAST ]]; then
    kill -KILL "$PPID"
    exit 1
fi
"""
STANDS_IN = {
    "train.sh": 'mkdir -p "$3"; touch "$3"/{checkpoint1,checkpoint_best,checkpoint_last}.pt',
    "average.sh": 'touch "$2"',
    "generate.sh": 'mkdir -p "$3"; touch "$3/generate.json"',
    "score.sh": """number=${1##*/round-} scores=(10 12 15)
echo "{\\"tokenised BLEU\\": {\\"score\\": ${scores[${number%%/*}]}}}" >"$1/scores.json\"""",
    "synthesise.sh": 'mkdir -p "$5"; touch "$5/preprocess.json"',
    "mix.sh": 'mkdir -p "$1"; touch "$1/preprocess.json"',
}
OF_ZERO, OF_A_ROUND = 2 * 4, 2 * 6  # commands: both directions train, average, translate, score, or make and mix before


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "scripts").mkdir(parents=True)
    (root / "deepnmt").symlink_to(ROOT / "deepnmt")
    for path in (ROOT / "scripts").glob("*"):
        if path.name in ("common.sh", "iterate.sh") or path.suffix == ".py":
            shutil.copy(path, root / "scripts" / path.name)
    for name, work in STANDS_IN.items():
        path = root / "scripts" / name
        path.write_text(f"{NOTE}{work}\n", encoding="utf-8")
        path.chmod(0o755)
    data = substitution_data(root / "data")
    monolingual(root, data, TARGET, LINES, [])
    monolingual(root, data, SOURCE, [substituted(line) for line in LINES], [])
    (root / "tiny.yaml").write_text("arch: transformer\n", encoding="utf-8")
    keys = {"kind": "back", "train": "tiny.yaml", "data": "data", "mono-source": "mono-de", "mono-target": "mono-en"}
    keys |= {"rounds": "3", "min-gain": "2.5"}
    (root / "rounds.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()), encoding="utf-8")
    return root


def iterate(root: Path, save: str, last: int = 0) -> tuple[int, list[str], str]:
    """The exit status, the calls of the stand-ins, and what is printed; the script is killed in the last call."""
    calls = root / "calls"
    calls.write_text("")
    environment = {**os.environ, "CALLS": str(calls), "LAST": str(last), "DEEPNMT_PYTHON_BIN": str(ROOT / ".venv/bin")}
    done = finish([root / "scripts" / "iterate.sh", "rounds.yaml", "--save", save], env=environment, cwd=root)
    return done.returncode, calls.read_text("utf-8").replace(f"{save}/", "S/").splitlines(), done.stdout


def test_killed_in_any_kind_of_command_it_goes_on_with_that_command(root: Path) -> None:
    status, undisturbed, printed = iterate(root, "whole")
    assert status == 0
    # The first round gains 2, less than 2.5, and is the last.
    assert len(undisturbed) == OF_ZERO + OF_A_ROUND
    assert (root / "whole" / "rounds.tsv").read_text().splitlines() == [
        "round\tforward\treverse\tgain",
        "0\t10.00\t10.00\t",
        "1\t12.00\t12.00\t2.00",
    ]
    assert printed.splitlines()[0].split() == ["round", "forward", "reverse", "gain"]
    assert printed.splitlines()[-1] == "whole is ready"

    done = 0
    # In averaging, in making pairs, in mixing.
    for last in (2, OF_ZERO, 2):
        status, calls, _ = iterate(root, "killed", last)
        assert status == -9
        assert calls == undisturbed[done : done + last]
        done += last - 1
    status, calls, _ = iterate(root, "killed")
    assert status == 0
    assert calls == undisturbed[done:]
    assert (root / "killed" / "rounds.tsv").read_bytes() == (root / "whole" / "rounds.tsv").read_bytes()
    # All is done.
    assert iterate(root, "killed")[:2] == (0, [])
