"""A --best-checkpoint-metric is looked for in a validation before there is an update."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from fairseq_cli import train
from support.trainings import binarised_text, fairseq_train

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks import best_metric

ONCE = ["--max-tokens=100", "--max-update=1", "--no-epoch-checkpoints", "--seed=1"]
SMOOTHED = "--criterion=label_smoothed_cross_entropy"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("text"))


@pytest.mark.parametrize(
    ("options", "metric", "also"),
    [([SMOOTHED], "accuracy", "nll_loss, ppl"), ([], "nll_loss", "ppl"), (["--disable-validation"], "ppl", "")],
)
def test_one_that_no_validation_has(
    options: list[str], metric: str, also: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> dict[int, float]:
        chosen = f"--best-checkpoint-metric={metric}"
        return fairseq_train(monkeypatch, [str(data)], tmp_path / "save", *ONCE, *options, chosen)

    def update(*_: Any, **__: Any) -> None:
        raise AssertionError("an update before the refusal")

    if also:
        monkeypatch.setattr(Trainer, "train_step", update)
        message = f"^--best-checkpoint-metric must be one of bsz, loss, {also}, wpb, wps, but is {metric}$"
        with pytest.raises(UserError, match=message):
            start()
        assert not list(tmp_path.rglob("*.pt"))
    else:
        assert len(start()) == 1


@pytest.mark.parametrize(
    ("options", "metric", "sentences"),
    [
        pytest.param([SMOOTHED, "--report-accuracy"], "accuracy", 1, marks=pytest.mark.slow),
        pytest.param([], "ppl", 1, marks=pytest.mark.slow),
        pytest.param([], "loss", 0, marks=pytest.mark.slow),
        (["--eval-bleu"], "bleu", 0),
    ],
)
def test_one_that_validations_have(
    options: list[str],
    metric: str,
    sentences: int,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def score(save: Path) -> Any:
        chosen = [f"--best-checkpoint-metric={metric}", "--maximize-best-checkpoint-metric", "--validate-interval=9"]
        assert len(fairseq_train(monkeypatch, [str(data)], save, *ONCE, *options, *chosen)) == 1
        return checkpoint_utils.load_checkpoint_to_cpu(str(save / "checkpoint_last.pt"))["extra_state"]["val_loss"]

    asked = []
    stock = best_metric.scores_of_a_sentence

    def scores(trainer: Any, subset: str) -> dict[str, Any]:
        asked.append(subset)
        return stock(trainer, subset)

    monkeypatch.setattr(best_metric, "scores_of_a_sentence", scores)
    looked_at = score(tmp_path / "a")
    assert asked == ["valid"] * sentences
    monkeypatch.setattr(best_metric, "scores_of_a_sentence", lambda trainer, subset: {metric: 0.0})
    assert score(tmp_path / "b") == looked_at


def test_one_that_a_later_validation_has_not() -> None:
    cfg = SimpleNamespace(checkpoint=SimpleNamespace(best_checkpoint_metric="accuracy"))
    trainer = SimpleNamespace(get_num_updates=lambda: 3)
    with pytest.raises(UserError, match=r"^--best-checkpoint-metric must be one of loss, ppl, but is accuracy$"):
        train.get_valid_stats(cfg, trainer, {"ppl": 2.0, "loss": 1.0}, False)
    cfg.checkpoint.best_checkpoint_metric = "ppl"
    assert train.get_valid_stats(cfg, trainer, {"ppl": 2.0}, False) == {"ppl": 2.0, "num_updates": 3}
