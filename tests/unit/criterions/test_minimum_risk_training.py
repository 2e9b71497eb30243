"""Minimum-risk training by fairseq's trainer: from a checkpoint, killed and resumed, in half precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.restarts import train_until
from support.trainings import LAYOUTS, binarised_text, fairseq_train

import deepnmt
from deepnmt.recipe.combinations import rule_faults

PLAIN = ["--task=deep_translation", "--batch-size=8", "--share-all-embeddings", "--dropout=0.2", "--no-progress-bar"]
RISK = ["--criterion=label_smoothed_cross_entropy_mrt", "--label-smoothing=0.1", "--mrt-beam=3", "--update-freq=2"]
RISK += ["--max-update=6", "--save-interval-updates=2", "--lr-scheduler=fixed"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data folder, and the checkpoint of a plain training."""
    deepnmt.register()
    folder = tmp_path_factory.mktemp("corpus")
    data = binarised_text(folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        plain = [*PLAIN, "--criterion=label_smoothed_cross_entropy_fused", "--max-update=30"]
        fairseq_train(monkeypatch, [str(data)], folder / "plain", *plain)
    return data, folder / "plain" / "checkpoint_last.pt"


def weights(save: Path) -> dict[str, torch.Tensor]:
    state: dict[str, Any] = torch.load(save / "checkpoint_last.pt", weights_only=True)
    return dict(state["model"])


@pytest.mark.slow
def test_killed_and_resumed_it_is_the_same_training(
    corpus: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, start = corpus
    options = [*PLAIN, *RISK, f"--finetune-from-model={start}"]
    assert train_until(monkeypatch, [str(data)], tmp_path / "whole", *options) == [0, 1, 2, 3, 4, 5]
    assert train_until(monkeypatch, [str(data)], tmp_path / "parts", *options, killed_at=5) == [0, 1, 2, 3, 4]
    # The same command: it resumes, and does not begin anew from the other training.
    assert train_until(monkeypatch, [str(data)], tmp_path / "parts", *options) == [4, 5]
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    before = weights(start.parent)
    assert any(not torch.equal(whole[name], before[name]) for name in whole)


@pytest.mark.parametrize("layout", ["half", "half-memory-efficient"])
def test_half_precision_trains(
    layout: str, corpus: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, start = corpus
    options = [*PLAIN, *RISK, f"--finetune-from-model={start}", "--max-update=2", *LAYOUTS[layout]]
    assert list(fairseq_train(monkeypatch, [str(data)], tmp_path, *options)) == [0, 1]
    found = weights(tmp_path)
    assert all(weight.isfinite().all() for weight in found.values() if weight.is_floating_point())
    assert not torch.equal(
        found["encoder.embed_tokens.weight"].float(), weights(start.parent)["encoder.embed_tokens.weight"]
    )


def test_sharded_weights_are_refused() -> None:
    """The search reads them whole."""
    values = {"criterion": "label_smoothed_cross_entropy_mrt", "ddp_backend": "fully_sharded"}
    assert list(rule_faults(values, {})) == [
        ("ddp-backend", "must not be fully_sharded with criterion label_smoothed_cross_entropy_mrt, but is"),
    ]
    assert not list(rule_faults({**values, "ddp_backend": "legacy_ddp"}, {}))
