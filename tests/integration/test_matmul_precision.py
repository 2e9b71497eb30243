"""`--float32-matmul-precision`: of a training's products, and of no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.trainings import binarised_text, fairseq_train

import deepnmt
from deepnmt.fairseq_patches.hooks import trainer
from deepnmt.kernels import products
from deepnmt.translation_task import DeepTranslationTask

OPTIONS = ["--task=deep_translation", "--arch=dlcl_transformer_tiny", "--batch-size=8", "--share-all-embeddings"]
OPTIONS += ["--criterion=label_smoothed_cross_entropy_fused", "--no-progress-bar", "--max-update=3"]


def test_a_training_has_the_precision_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deepnmt.register()
    data = binarised_text(tmp_path)
    rounded: list[bool] = []
    stock = products.mm

    def recorded(*arguments: Any, **options: Any) -> Any:
        rounded.append(products._rounds.factors)
        return stock(*arguments, **options)

    monkeypatch.setattr("deepnmt.kernels.feed_forward.mm", recorded)
    stock_validation = DeepTranslationTask.valid_step

    def valid_step(self: Any, *arguments: Any) -> Any:
        assert not products._rounds.factors
        return stock_validation(self, *arguments)

    monkeypatch.setattr(DeepTranslationTask, "valid_step", valid_step)
    weights = {}
    # The last one comes after what the one before has set.
    for number, precision in enumerate(("highest", "high", "medium", "highest")):
        rounded.clear()
        save = tmp_path / str(number)
        fairseq_train(monkeypatch, [str(data)], save, *OPTIONS, f"--float32-matmul-precision={precision}")
        assert (True in rounded) == (precision == "medium")
        assert False in rounded  # in validation
        model = torch.load(save / "checkpoint_last.pt", weights_only=True)["model"]
        weights[number] = torch.cat([tensor.flatten() for tensor in model.values()])
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[3])
    assert (weights[2] - weights[0]).norm() < 0.1 * weights[0].norm()
    if products.obstacle("bfloat16", torch.device("cpu")) is None:
        assert not torch.equal(weights[0], weights[2])


def test_on_a_gpu_it_is_torchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", made.append)
    for precision in ("highest", "high", "medium"):
        with trainer.matmul_precision(precision, cuda=True):
            assert made.pop() == precision
            assert not products._rounds.factors
        assert made.pop() == torch.get_float32_matmul_precision()
