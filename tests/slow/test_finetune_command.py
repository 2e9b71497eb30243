"""select.sh and finetune.sh from a trained model to its translations: resumed, on two validation sets, with weights."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from support.flow import SCRIPTS
from support.processes import finish
from support.substitution import SOURCE, substitution_data, write_lines

from deepnmt.text.lines import read_text

RECIPE = ["arch: dlcl_transformer", "share-all-embeddings: true", "optimizer: adam", "lr: 0.01", "lr-scheduler: fixed"]
RECIPE += ["criterion: label_smoothed_cross_entropy", "label-smoothing: 0.1", "max-tokens: 500", "max-update: 3"]
RECIPE += [
    f"{stack}-{name}: {number}"
    for stack in ("encoder", "decoder")
    for name, number in {"layers": 2, "embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2}.items()
]


def run(*words: object) -> str:
    command = [SCRIPTS / str(words[0]), *words[1:]]
    done = finish(command)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_model_is_trained_further_on_chosen_pairs_and_says_so(tmp_path: Path) -> None:
    data, chosen, tuned = substitution_data(tmp_path / "data"), tmp_path / "chosen", tmp_path / "tuned"
    like = write_lines(tmp_path / "like", read_text(data / "text" / f"test.tok.{SOURCE}"))
    run("train.sh", write_lines(tmp_path / "recipe.yaml", RECIPE), data, tmp_path / "base")
    run("select.sh", data, chosen, "--like", like, "--number", 20)
    weights = write_lines(tmp_path / "weights", [str(number % 3) for number in range(20)])
    command = ["finetune.sh", tmp_path / "base" / "checkpoint_last.pt", chosen, tuned, "--old", data]
    command += ["--pair-weights", weights]
    first = run(*command, "--max-update", 2)
    assert "loading pretrained model from" in first
    losses = re.findall(r"valid on '(valid|old)' subset \| loss ([\d.]+)", first)
    assert {subset for subset, _ in losses} == {"valid", "old"}
    resumed = run(*command, "--max-update", 4)
    assert "loading pretrained model from" not in resumed
    state = torch.load(tuned / "checkpoint_last.pt", weights_only=False)
    assert state["optimizer_history"][-1]["num_updates"] == 4
    base = torch.load(tmp_path / "base" / "checkpoint_last.pt", weights_only=False)["model"]
    largest = max(float((state["model"][name] - tensor).abs().max()) for name, tensor in base.items())
    # Adam's first steps are as long as the rate.
    assert 1e-4 < largest < 4.5e-4
    run("generate.sh", tuned / "checkpoint_last.pt", data, tmp_path / "translated")
    record = json.loads((tmp_path / "translated" / "generate.json").read_text())
    assert [text["file"] for text in record["selected_on"]] == ["like"]
