"""The updates of `deepnmt plan`: their batches, what is measured in them, and the end of their training."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.data_folders import data_folder

from deepnmt.runs import update_probe as probe

RECIPE = """arch: dlcl_transformer_tiny
optimizer: adam
max-tokens: 100
lr: 0.001
encoder-layers: 2
decoder-layers: 1
encoder-ffn-embed-dim: 8
decoder-ffn-embed-dim: 8
max-epoch: 3
"""


def test_sizes_are_of_padded_tokens() -> None:
    # Sides of 2 and 3 words, 5 and 1; and 4 and 4.
    areas, squares = probe.sizes_of([[0, 1], [2]], np.array([[2, 3], [5, 1], [4, 4]]))
    assert areas.tolist() == [2 * (5 + 3), 8]
    assert squares.tolist() == [2 * (25 + 15 + 9), 48]


@pytest.mark.parametrize("each", [1, 2])
def test_two_updates_have_the_largest_batches_and_seven_represent_all(each: int) -> None:
    areas = np.arange(1, 161) * 10
    squares = areas.copy()
    squares[3] = 10**6
    chosen = probe.chosen_batches(areas, squares, each)
    assert len(chosen) == 10 * each
    assert chosen[: 2 * each] == [3] * each + [159] * each
    # A middle one warms up.
    assert chosen[2 * each : 3 * each] == chosen[6 * each : 7 * each]
    rest = areas[chosen[3 * each :]]
    # The middles of equal parts have the mean of the whole, but for a half of a step.
    assert abs(rest.mean() - areas.mean()) <= 5
    assert len(set(rest.tolist())) == 7 * each
    # Each update has about the same.
    assert np.ptp(rest.reshape(7, each).sum(axis=1)) <= areas.max() - areas.min()


@pytest.mark.parametrize(
    ("limits", "updates"), [((0, 0), 0), ((50, 0), 50), ((0, 3), 12), ((50, 3), 12), ((5, 3), 5), ((None, None), 0)]
)
def test_a_training_ends_by_updates_or_epochs(limits: tuple[int | None, int | None], updates: int) -> None:
    # Seven batches, two an update: four updates an epoch.
    assert probe.ends_of(SimpleNamespace(max_update=limits[0], max_epoch=limits[1]), 7, 2) == updates


@pytest.mark.parametrize(
    ("options", "updates"),
    [
        ({}, [4, 8, 12]),
        ({"validate_interval": 2}, [8]),
        # The last of all, if updates end the training.
        ({"validate_interval": 2, "max_update": 12}, [8, 12]),
        ({"max_update": 12}, [4, 8, 12]),
        ({"validate_interval_updates": 5}, [4, 5, 8, 10, 12]),
        ({"validate_interval": 1000, "validate_interval_updates": 3, "max_update": 12}, [3, 6, 9, 12]),
        # Checkpoints within an epoch are validated too.
        ({"validate_interval": 1000, "save_interval_updates": 2}, [2, 6, 10]),
        ({"validate_interval_updates": 5, "validate_after_updates": 8}, [8, 10, 12]),
        ({"disable_validation": True}, []),
    ],
)
def test_validations_are_those_of_fairseq(options: dict[str, Any], updates: list[int]) -> None:
    """Twelve updates, four an epoch."""
    values = {
        "disable_validation": False, "validate_interval": 1, "validate_interval_updates": 0,
        "validate_after_updates": 0, "save_interval_updates": 0, "max_update": 0, **options,
    }  # fmt: skip
    config: Any = SimpleNamespace(
        **{name: SimpleNamespace(**values) for name in ("dataset", "checkpoint", "optimization")}
    )
    assert probe.validations(config, 12, 4) == len(updates)


def test_ten_updates_of_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    steps: list[int] = []
    stock = probe.train.Trainer.train_step

    def train_step(self: Any, samples: Any, *rest: Any, **more: Any) -> Any:
        steps.append(sum(sample["nsentences"] for sample in samples))
        return stock(self, samples, *rest, **more)

    monkeypatch.setattr(probe.train.Trainer, "train_step", train_step)
    monkeypatch.setattr(probe.train, "train", probe.train.train)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    words = [str(tmp_path / "r.yaml"), str(data), str(tmp_path / "result.json"), "--encoder-layers=3"]

    def measure(what: str) -> dict[str, float]:
        monkeypatch.setattr("sys.argv", ["update_probe.py", what, *words])
        monkeypatch.setattr(probe.training_checks, "accepted", None)
        with pytest.raises(SystemExit, match=r"^$"):
            probe.main()
        result: dict[str, float] = json.loads((tmp_path / "result.json").read_text("utf-8"))
        return result

    # The three pairs of the text are one batch, and an epoch: it comes once after the largest ones.
    assert measure("growth")["growth"] >= 0
    assert steps == [3] * 3
    del steps[:]
    found = measure("costs")
    assert steps == [3] * 10
    assert (found["updates"], found["validations"], found["encoder layers"], found["max tokens"]) == (3, 3, 3, 100)
    assert (found["updates an epoch"], found["pairs"]) == (1, 3)
    # Adam has two numbers for each parameter, of four bytes.
    assert found["optimizer"] == 8 * found["parameters"]
    assert 2**27 < found["rest"] < found["available"]
    assert 2**27 < found["memory"] < found["available"]
    assert found["seconds"] > 0
    assert found["processor seconds"] > 0
    assert found["validation"] > 0
