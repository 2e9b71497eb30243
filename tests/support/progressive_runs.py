"""Runs of train_progressive.sh on a small corpus."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from grammar.generate import write_splits

from deepnmt.checkpoints.file import read
from support import warm
from support.processes import finish

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "train_progressive.sh"
TOP = """
task: translation
arch: dlcl_transformer_tiny
encoder-embed-dim: 16
decoder-embed-dim: 16
encoder-ffn-embed-dim: 24
decoder-ffn-embed-dim: 24
decoder-layers: 1
share-all-embeddings: true
optimizer: adam
lr: 0.005
lr-scheduler: inverse_sqrt_reset
warmup-updates: 2
criterion: label_smoothed_cross_entropy
label-smoothing: 0.1
max-tokens: 600
save-interval-updates: 2
keep-interval-updates: 2
no-epoch-checkpoints: true
num-workers: 0
log-format: simple
log-interval: 1
translate: --beam 1 --max-len-b 8
"""


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(*command: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = finish(command, env={**environment(), **warm.environment()})
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def make_data(folder: Path) -> Path:
    """A data folder with three hundred sentence pairs."""
    write_splits(folder / "text", {"train": 300, "valid": 12}, seed=1)
    run(
        ROOT / "scripts" / "preprocess.sh", "--source-lang", "de", "--target-lang", "en", "--dest", folder / "data",
        "--train", folder / "text" / "train", "--valid", folder / "text" / "valid", "--bpe-merges", 100, "--workers", 1,
    )  # fmt: skip
    return folder / "data"


def make_recipe(path: Path, *stages: str, top: str = "") -> Path:
    listed = "".join(f"  - {{{stage}}}\n" for stage in stages)
    path.write_text(f"{TOP}{top}stages:\n{listed}", encoding="utf-8")
    return path


def assert_same_state(one: Path, other: Path) -> None:
    """Parameters and optimizer are equal bit by bit, and the data position is."""
    first, second = read(one), read(other)
    assert first["model"].keys() == second["model"].keys()
    for name, tensor in first["model"].items():
        assert tensor.equal(second["model"][name]), name
    mine, theirs = (state["last_optimizer_state"]["state"] for state in (first, second))
    assert mine.keys() == theirs.keys()
    for number, moments in mine.items():
        assert all(moments[key].equal(theirs[number][key]) for key in ("exp_avg", "exp_avg_sq"))
    assert first["extra_state"]["train_iterator"] == second["extra_state"]["train_iterator"]
    assert first["optimizer_history"][-1]["num_updates"] == second["optimizer_history"][-1]["num_updates"]
