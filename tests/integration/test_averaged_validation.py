"""`--validate-average`: what is validated is the mean of checkpoints, also after a restart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from support.trainings import binarised_text, fairseq_train

import deepnmt
from deepnmt.translation_task import DeepTranslationTask

EPOCHS, NUMBER = 5, 3
OPTIONS = ["--task=deep_translation", f"--validate-average={NUMBER}", "--batch-size=8", "--share-all-embeddings"]
OPTIONS += ["--criterion=cross_entropy", "--no-progress-bar"]


def train(monkeypatch: pytest.MonkeyPatch, data: Path, save: Path, epochs: int, *more: str) -> dict[int, float]:
    """Train, and return the loss of each epoch's validation, in bits a token."""
    fairseq_train(monkeypatch, [str(data)], save, *OPTIONS, f"--max-epoch={epochs}", *more)
    return {epoch: load(save, epoch)["extra_state"]["val_loss"] for epoch in range(1, epochs + 1)}


def load(save: Path, epoch: int) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(save / f"checkpoint{epoch}.pt", weights_only=True)
    return state


def loss_of_mean(data: Path, save: Path, epochs: range) -> float:
    """The loss of the mean of some epochs' weights on the validation set, in float64, sentence by sentence."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(save / "checkpoint1.pt")])
    weights = [load(save, epoch)["model"] for epoch in epochs]
    mean = {
        name: sum(w[name].double() for w in weights) / len(weights) if first.is_floating_point() else first
        for name, first in weights[0].items()
    }
    model = models[0].double().eval()
    model.load_state_dict(mean)
    task.load_dataset("valid")
    total, count = 0.0, 0
    for pair in task.dataset("valid"):
        source, target = pair["source"][None], pair["target"]
        before = torch.cat([target[-1:], target[:-1]])[None]
        logits, _ = model(source, torch.tensor([source.numel()]), before)
        total -= torch.log_softmax(logits[0], -1)[range(len(target)), target].sum().item()
        count += len(target)
    return total / count / math.log(2)


@pytest.mark.slow
def test_the_mean_of_the_last_checkpoints_is_validated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deepnmt.register()
    data = binarised_text(tmp_path)
    losses = train(monkeypatch, data, tmp_path / "whole", EPOCHS)
    for epoch in range(1, EPOCHS + 1):
        expected = loss_of_mean(data, tmp_path / "whole", range(max(1, epoch - NUMBER + 1), epoch + 1))
        assert losses[epoch] == pytest.approx(expected, abs=6e-4)  # fairseq rounds to three digits
    single = loss_of_mean(data, tmp_path / "whole", range(EPOCHS, EPOCHS + 1))
    assert abs(losses[EPOCHS] - single) > 0.01
    # The training itself takes no notice of it.
    fairseq_train(
        monkeypatch, [str(data)], tmp_path / "plain", *OPTIONS, "--validate-average=1", f"--max-epoch={EPOCHS}"
    )
    plain, averaged = load(tmp_path / "plain", EPOCHS)["model"], load(tmp_path / "whole", EPOCHS)["model"]
    assert all(torch.equal(plain[name], averaged[name]) for name in plain)
    # Resumed, the earlier weights are those of the checkpoints.
    train(monkeypatch, data, tmp_path / "parts", 3)
    assert train(monkeypatch, data, tmp_path / "parts", EPOCHS) == losses


def test_bleu_is_that_of_the_mean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of translations that are found with the options of the search."""
    deepnmt.register()
    data = binarised_text(tmp_path)
    stock = DeepTranslationTask._inference_with_bleu
    seen = []

    def inference(self: Any, generator: Any, sample: Any, model: Any) -> Any:
        (translating,) = generator.model.models
        seen.append({name: weight.clone() for name, weight in translating.state_dict().items()})
        return stock(self, generator, sample, model)

    step = DeepTranslationTask.inference_step
    lengths = []

    def search(self: Any, generator: Any, models: Any, sample: Any, *rest: Any, **more: Any) -> Any:
        found = step(self, generator, models, sample, *rest, **more)
        sources = sample["net_input"]["src_lengths"].tolist()
        lengths.extend((source, len(each[0]["tokens"])) for source, each in zip(sources, found))
        return found

    monkeypatch.setattr(DeepTranslationTask, "_inference_with_bleu", inference)
    monkeypatch.setattr(DeepTranslationTask, "inference_step", search)
    same_length = ["--min-len-ratio=1", "--max-len-ratio=1"]
    train(monkeypatch, data, tmp_path / "save", 2, "--eval-bleu", '--eval-bleu-args={"beam": 1}', *same_length)
    assert lengths
    assert all(source == target for source, target in lengths), lengths
    first, second = (load(tmp_path / "save", epoch)["model"] for epoch in (1, 2))
    assert torch.equal(seen[0]["encoder.embed_tokens.weight"], first["encoder.embed_tokens.weight"])
    for name, weight in second.items():
        if weight.is_floating_point():
            mean = (first[name].double() + weight.double()) / 2
            torch.testing.assert_close(seen[-1][name].double(), mean, rtol=1e-6, atol=1e-8)
