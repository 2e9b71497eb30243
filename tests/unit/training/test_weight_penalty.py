"""`--l1` and `--l2`: equation (56), by differences, and in whole trainings on one and on two processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.distributed_runs import run, write_corpus
from support.models import EXAMPLE, build
from support.restarts import train_until
from support.trainings import binarised_text
from torch import Tensor

from deepnmt.checkpoints.file import read
from deepnmt.training.weight_penalty import penalised, penalty

L1, L2 = 0.03, 0.007


def criterion(model: Any, sample: Any) -> tuple[Tensor, int, dict[str, float]]:
    """The sum of a loss over the tokens of a batch, and their number."""
    loss = (model(**sample)[0] ** 2).mean(-1).sum()
    return loss, sample["prev_output_tokens"].numel(), {"loss": float(loss)}


def expected(model: Any) -> Tensor:
    """The penalty, number by number."""
    weights = [value for weight in model.parameters() if weight.dim() >= 2 for value in weight.detach().flatten()]
    return L1 * sum(abs(value) for value in weights) + L2 * sum(value * value for value in weights)


def test_equation_56_over_several_batches_of_an_update() -> None:
    model = build({"encoder_layers": 1, "decoder_layers": 1})
    halves = [{name: value[part] for name, value in EXAMPLE.items()} for part in (slice(0, 1), slice(1, None))]
    sums, sizes, plain = torch.zeros(()), 0, torch.zeros(())
    for half in halves:
        loss, size, log = penalised(criterion, L1, L2)(model, half)
        alone = criterion(model, half)
        assert log == alone[2]
        sums, sizes, plain = sums + loss, sizes + size, plain + alone[0]
    # Divided by the size of the update, as fairseq does: once, however the batches are divided.
    torch.testing.assert_close(sums / sizes, plain / sizes + expected(model))


def test_gradients_are_differences() -> None:
    model = build({"encoder_layers": 1, "decoder_layers": 1})
    penalty(model, L1, L2).backward()
    matrix, bias = model.encoder.layers[0].fc1.weight, model.encoder.layers[0].fc1.bias
    assert bias.grad is None
    for row, column in ((0, 0), (3, 5), (7, 2)):
        found = float(matrix.grad[row, column])
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                matrix[row, column] += step
                values.append(float(penalty(model, L1, L2)))
                matrix[row, column] -= step
        assert found == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4)


def test_half_precision_and_frozen_matrices() -> None:
    model = torch.nn.Linear(300, 300).half()
    with torch.no_grad():
        model.weight.fill_(2.0)
    # 360,000, which half precision does not hold.
    assert float(penalty(model, 0.0, 1.0)) == pytest.approx(360_000)
    model.weight.requires_grad_(False)
    assert float(penalty(model, 1.0, 1.0)) == 0


def test_norms_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(binarised_text(tmp_path))
    options = ["--task=deep_translation", "--max-tokens=60", "--max-update=8", "--disable-validation"]
    norms = {}
    for name, more in (("plain", []), ("l1", ["--l1=0.01"]), ("l2", ["--l2=0.01"])):
        train_until(monkeypatch, [data], tmp_path / name, *options, *more, "--no-epoch-checkpoints")
        model = read(tmp_path / name / "checkpoint_last.pt")["model"]
        norms[name] = sum(float(value.abs().sum()) for value in model.values() if value.dim() >= 2)
    assert norms["l1"] < 0.95 * norms["plain"]
    assert norms["l2"] < 0.95 * norms["plain"]


@pytest.mark.slow
def test_one_and_two_processes_agree(tmp_path: Path) -> None:
    data = write_corpus(tmp_path / "data")
    options = ["--task", "deep_translation", "--l1", "1e-4", "--l2", "1e-3"]
    one, two = (run(options, processes, data, tmp_path / str(processes)) for processes in (1, 2))
    for name, value in one.items():
        torch.testing.assert_close(value, two[name], rtol=1e-3, atol=1e-4)
