"""`deepnmt plan`: the batches of its updates, the line through depths, and its table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.data_folders import data_folder

from deepnmt import cli
from deepnmt.errors import UserError
from deepnmt.runs import cost_by_depth as plan
from deepnmt.runs import update_probe as probe

GIB = 2**30
COST = {
    "encoder layers": 4, "parameters": 2e6, "optimizer": 0.25 * GIB, "rest": 1.0 * GIB, "memory": 2.0 * GIB,
    "available": 4.0 * GIB, "max tokens": 4096, "seconds": 0.5, "processor seconds": 0.4, "updates": 7200,
    "validation": 36.0, "validations": 100,
}  # fmt: skip


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


@pytest.mark.parametrize(("intervals", "number"), [((1, 0), 4), ((2, 0), 2), ((1, 5), 6), ((1000, 3), 5)])
def test_validations_by_epochs_and_by_updates(intervals: tuple[int, int], number: int) -> None:
    config: Any = SimpleNamespace(
        disable_validation=False, validate_interval=intervals[0], validate_interval_updates=intervals[1]
    )
    # Twelve updates, four an epoch, and one validation at the end.
    assert probe.validations(config, 12, 4) == number
    config.disable_validation = True
    assert probe.validations(config, 12, 4) == 0


@pytest.mark.parametrize(
    ("depths", "run"),
    [([12], [12]), ([4, 12], [4, 12]), ([4, 12, 24, 48], [4, 24]), ([6, 12, 24], [6, 12]), ([2, 3, 48], [2, 3])],
)
def test_two_depths_are_run(depths: list[int], run: list[int]) -> None:
    assert plan.depths_to_run(depths) == run


def test_other_depths_lie_on_a_line() -> None:
    deep = {**COST, "parameters": 4e6, "memory": 6.0 * GIB, "rest": 1.4 * GIB, "seconds": 2.5, "updates": 7200}
    found = plan.costs({4: COST, 24: deep}, [4, 12, 24, 48])
    assert found[4] == COST
    assert plan.costs({4: COST, 24: deep}, [48], 5.0)[48]["memory"] == found[48]["memory"] + 5
    assert plan.costs({4: COST}, [4], 5.0)[4]["rest"] == COST["rest"] + 5
    assert found[24] == deep
    assert found[12]["memory"] == pytest.approx((2 + 8 * 0.2) * GIB)
    assert found[48]["memory"] == pytest.approx((2 + 44 * 0.2) * GIB)
    assert found[48]["seconds"] == pytest.approx(0.5 + 44 * 0.1)
    assert found[48]["parameters"] == pytest.approx(2e6 + 44e5)
    assert found[12]["updates"] == 7200
    lines = plan.table(found, [4, 24])
    assert lines[1].split() == [
        "4", "2.00M", "2.00", "GiB", "0.250", "GiB", "0.500", "0.400", "2.00", "12288", "10", "updates",
    ]  # fmt: skip
    assert lines[4].split()[-1] == "line"
    assert plan.formula(found, [4, 24]) == ["memory: 1.2 + 0.2 L GiB", "seconds: 0.1 + 0.1 L s/update"]


def test_hours_have_validations_and_an_end() -> None:
    # 7,200 updates of half a second, and 100 validations of 36 seconds.
    assert plan.hours(COST) == pytest.approx(2.0)
    assert plan.hours({**COST, "updates": 0}) == math.inf
    assert "-" in plan.table({4: {**COST, "updates": 0, "max tokens": 0}}, [4])[1].split()


def test_the_largest_batch_fills_the_free_memory() -> None:
    # 1 GiB for 4,096 tokens, and 3 GiB are free.
    assert plan.largest_batch(COST) == 12288
    assert plan.largest_batch({**COST, "available": 0.5 * GIB}) == 0


@pytest.mark.parametrize("text", ["", "0", "4,x", "4,,6", "-1", "4,1001", "4.5"])
def test_faulty_depths_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"--encoder-layers"):
        cli.call("plan", ["tiny", "data", f"--encoder-layers={text}"])


def test_a_picture_needs_a_known_ending() -> None:
    with pytest.raises(UserError, match=r"^--picture must end in \.png, \.svg, \.pdf, but is 'x\.txt'$"):
        cli.call("plan", ["tiny", "data", "--picture", "x.txt"])


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
    assert (found["updates"], found["validations"], found["encoder layers"], found["max tokens"]) == (3, 4, 3, 100)
    # Adam has two numbers for each parameter, of four bytes.
    assert found["optimizer"] == 8 * found["parameters"]
    assert 2**27 < found["rest"] < found["available"]
    assert 2**27 < found["memory"] < found["available"]
    assert found["seconds"] > 0
    assert found["processor seconds"] > 0
    assert found["validation"] > 0


@pytest.mark.slow
def test_a_plan_of_two_depths_and_one_between(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    picture = tmp_path / "plan.png"
    cli.call("plan", [str(tmp_path / "r.yaml"), str(data), "--encoder-layers", "1,2,3", "--picture", str(picture)])
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["layers", "parameters"]
    assert [line.split()[0] for line in lines[:3]] == ["1", "2", "3"]
    assert picture.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_a_fault_of_the_recipe_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE.replace("optimizer: adam\n", ""), encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    with pytest.raises(UserError, match=r"a recipe must name an optimizer"):
        cli.call("plan", [str(tmp_path / "r.yaml"), str(data)])


def test_a_process_without_a_result_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(stderr="", returncode=-9)

    monkeypatch.setattr(plan.subprocess, "run", run)
    with pytest.raises(UserError, match=r"^an update at 12 layers failed: status -9, perhaps for lack of memory$"):
        plan.probe(tmp_path, "data", 12, [])
    assert math.isnan(plan.growth(tmp_path, "data", []))


def test_a_probe_reads_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []

    def run(command: list[str], **_: Any) -> Any:
        words.extend(command)
        Path(command[command.index("data") + 1]).write_text(json.dumps(COST), encoding="utf-8")

    monkeypatch.setattr(plan.subprocess, "run", run)
    assert plan.probe(tmp_path / "r.yaml", "data", 12, ["--lr", "1"]) == COST
    assert words[-3:] == ["--lr", "1", "--encoder-layers=12"]
    assert words[words.index("data") - 2] == "costs"
