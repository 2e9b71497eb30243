"""From one stage to the next: what a grown checkpoint keeps, drops and refuses, and whose recipe a folder has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.data_folders import data_folder
from support.restarts import train_until
from support.trainings import binarised_text

from deepnmt import recipe
from deepnmt.checkpoints.file import read
from deepnmt.errors import UserError
from deepnmt.progressive import Stage, plan_stages
from deepnmt.progressive.stage_runs import LAST, grow_stage, note, prepare

TOP = {
    "arch": "dlcl_transformer", "optimizer": "adam", "lr-scheduler": "inverse_sqrt_reset", "lr": "0.01",
    "warmup-updates": "2", "max-tokens": "80", "patience": "9", "validate-interval-updates": "2",
}  # fmt: skip
TOP |= {f"{stack}-{name}": "16" for stack in ("encoder", "decoder") for name in ("embed-dim", "ffn-embed-dim")}
FIRST = {"encoder-layers": "2", "decoder-layers": "1", "max-update": "8"}


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's parser reads it, and the check of recipes writes it."""
    monkeypatch.setattr("sys.argv", ["pytest"])


def plan(folder: Path, **second: str) -> list[Stage]:
    stage = {"encoder-layers": "4", "decoder-layers": "1", **{key.replace("_", "-"): v for key, v in second.items()}}
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump({**TOP, "stages": [FIRST, stage]}), encoding="utf-8")
    return plan_stages(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a first stage that ended within an epoch, and its last checkpoint."""
    folder = tmp_path_factory.mktemp("steps")
    data = [str(binarised_text(folder))]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("sys.argv", ["pytest"])
        first, _ = plan(folder, max_update="12")
        arguments = recipe.to_arguments(first.options)
        train_until(monkeypatch, data, folder / first.name, *arguments)
    state = read(folder / first.name / LAST)
    assert state["extra_state"]["train_iterator"]["iterations_in_epoch"] > 0
    assert "best" in state["extra_state"]
    return folder, state


def grow(trained: tuple[Path, dict[str, Any]], save: Path, **second: str) -> tuple[dict[str, Any], list[str]]:
    first, stage = plan(save, **second)
    lines = grow_stage(first, stage, folders(trained, save))
    return read(save / stage.name / LAST), lines


def folders(trained: tuple[Path, dict[str, Any]], save: Path) -> Path:
    """Those of both stages, with the last checkpoint of the first."""
    for name in ("stage-1-2", "stage-2-4"):
        (save / name).mkdir()
    (save / "stage-1-2" / LAST).symlink_to(trained[0] / "stage-1-2" / LAST)
    return save


def test_scores_start_anew_and_the_rest_goes_on(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    state, lines = grow(trained, tmp_path, max_update="12")
    old = trained[1]["extra_state"]
    new = state["extra_state"]
    assert "best" not in new
    assert new["train_iterator"] == old["train_iterator"]
    assert new["previous_training_time"] == old["previous_training_time"]
    assert state["optimizer_history"][-1]["lr_scheduler_state"]["resets"] == [8]
    assert state["last_optimizer_state"]["state"] == {}
    # p = h: two layers a group.
    assert (state["cfg"]["model"]["encoder_layers"], state["cfg"]["model"]["encoder_groups"]) == (4, "2")
    assert lines[-1] == "learning rate: back to its peak at update 8"


def test_rate_and_moments_may_go_on(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    second = {"max_update": "12", "keep_schedule": "true", "carry_moments": "true", "strategy": "interleave"}
    state, lines = grow(trained, tmp_path, **second)
    assert state["optimizer_history"][-1]["lr_scheduler_state"]["resets"] == []
    assert len(state["last_optimizer_state"]["state"]) > 0
    assert "encoder layer 2 <- layer 1" in lines
    assert "learning rate: continues as before" in lines


def test_function_preserving(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    _, lines = grow(trained, tmp_path, max_update="12", function_preserving="true")
    assert "encoder history row 3 <- row 2, 1 new outputs unread" in lines


def test_batches_of_another_size_start_with_an_epoch(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    state, lines = grow(trained, tmp_path, max_update="12", max_tokens="40")
    epoch = trained[1]["extra_state"]["train_iterator"]["epoch"]
    position = state["extra_state"]["train_iterator"]
    assert (position["epoch"], position["iterations_in_epoch"]) == (epoch + 1, 0)
    assert lines[-1] == f"data: from the start of epoch {epoch + 1}, since batches get another size"


def test_a_stage_whose_end_has_come(trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    first, stage = plan(tmp_path, max_update="12")
    save, epoch = folders(trained, tmp_path), trained[1]["extra_state"]["train_iterator"]["epoch"]
    for key, value, message in (
        ("max-update", 8, "stage 2: max-update must be above the 8 updates of stage 1, but is 8"),
        (
            "max-epoch",
            epoch - 1,
            f"stage 2: max-epoch must be at least {epoch}, the epoch that comes after stage 1, but",
        ),
    ):
        option = stage.options["max-update"]._replace(value=str(value))
        with pytest.raises(UserError, match=message):
            grow_stage(first, replace(stage, options={**stage.options, key: option}), save)
        assert not (save / stage.name / LAST).exists()


def test_folders_are_those_of_one_recipe(tmp_path: Path) -> None:
    save, data = tmp_path / "save", str(tmp_path / "data")
    stages = plan(tmp_path, max_update="12")
    prepare(stages, save, ["--seed", "3"], data)
    text = (save / "stage-1-2" / "recipe.yaml").read_text("utf-8")
    assert text.splitlines()[:2] == [
        "# Stage 1 of 2; made by train_progressive.sh, which runs it", "# options: --seed 3",
    ]  # fmt: skip
    written = recipe.read_recipe(save / "stage-2-4" / "recipe.yaml")
    assert recipe.to_arguments(written) == recipe.to_arguments(stages[1].options)
    assert "encoder-groups" in written
    # Nothing has begun.
    prepare(plan(tmp_path, max_update="13", keep_schedule="true"), save, [], data)
    text = (save / "stage-2-4" / "recipe.yaml").read_text("utf-8")
    assert "# strategy: stack\n# keep-schedule: true\n" in text
    (save / "stage-1-2" / LAST).touch()
    prepare(plan(tmp_path, max_update="14"), save, [], data)
    (save / "stage-2-4" / LAST).touch()
    prepare(plan(tmp_path, max_update="14"), save, [], data)
    with pytest.raises(UserError, match=r"stage-2-4 was begun without keep-schedule true; remove it or choose another"):
        prepare(plan(tmp_path, max_update="14", keep_schedule="true"), save, [], data)
    with pytest.raises(
        UserError, match=r"stage-2-4 exists, and is no stage of this recipe; remove it or choose another SAVE"
    ):
        prepare(plan(tmp_path, max_update="14", encoder_layers="3"), save, [], data)


def test_stages_are_of_one_data(tmp_path: Path) -> None:
    save, stages = tmp_path / "save", plan(tmp_path, max_update="12")
    first, second = (data_folder(tmp_path / name, ["train"]) for name in "ab")
    both = f"{first}:{second}"
    prepare(stages, save, [], both)
    (save / "stage-1-2" / LAST).touch()
    recipe_file, record = save / "stage-1-2" / "recipe.yaml", second / "preprocess.json"
    noted, before = recipe_file.read_text("utf-8"), json.loads(record.read_text("utf-8"))
    # The sizes of files are those of logs, too; and a folder may stand elsewhere.
    record.write_text(json.dumps({**before, "files": {"preprocess.log": 3}}), encoding="utf-8")
    moved = tmp_path / "moved"
    first.rename(moved)
    both = f"{moved}:{second}"
    prepare(stages, save, [], both)
    assert recipe_file.read_text("utf-8") == noted

    record.write_text(json.dumps({**before, "lowercase": not before["lowercase"]}), encoding="utf-8")
    message = r"stage-1-2 was begun with other contents of data; remove it or choose another SAVE$"
    with pytest.raises(UserError, match=message):
        prepare(stages, save, [], both)
    assert recipe_file.read_text("utf-8") == noted
    # As an earlier version has noted it.
    (line,) = [line for line in noted.splitlines() if line.startswith("# data: ")]
    recipe_file.write_text(noted.replace(f"{line}\n", ""), encoding="utf-8")
    prepare(stages, save, [], both)
    with pytest.raises(UserError, match="was begun with other contents of data;"):
        prepare(stages, save, [], str(second))


def test_what_a_stage_reached(tmp_path: Path) -> None:
    def stage(number: int, depth: int, updates: int, metric: str = "loss", **extra: Any) -> Path:
        folder = tmp_path / f"stage-{number}-{depth}"
        (folder / "valid").mkdir(parents=True)
        model = {"encoder_layers": depth, "decoder_layers": 2, "encoder_groups": "6", "decoder_groups": "none"}
        state = {
            "model": {"encoder.version": torch.ones(1)},
            "cfg": {
                "model": model,
                "task": {"_name": "translation"},
                "checkpoint": {"best_checkpoint_metric": metric},
            },
            "optimizer_history": [{"num_updates": 1}, {"num_updates": updates}],
            "extra_state": {"previous_training_time": 61.7, **extra},
        }
        torch.save(state, folder / LAST)
        scores = {"BLEU": {"score": 20.5 + number, "signature": "x"}}
        (folder / "valid" / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
        return folder

    one = stage(1, 6, 7, best=3.25, train_iterator={"epoch": 3, "iterations_in_epoch": 0})
    # A later stage of an earlier start, which is not to stand above the line that is written last.
    (stage(3, 24, 90, train_iterator={"epoch": 9, "iterations_in_epoch": 0}) / "stage.json").write_text('{"stage": 3}')
    two = stage(2, 12, 11, train_iterator={"epoch": 4, "iterations_in_epoch": 5})
    for folder, name in ((one, "checkpoint_best.pt"), (two, "average.pt")):
        note(folder, name)
    assert json.loads((one / "stage.json").read_text("utf-8"))["checkpoint"] == "checkpoint_best.pt"
    assert (tmp_path / "stages.tsv").read_text("utf-8").splitlines() == [
        "stage\tencoder_layers\tdecoder_layers\tencoder_groups\tdecoder_groups\tupdates\tepochs\tseconds\tvalid_loss\t"
        "BLEU\tcheckpoint",
        "1\t6\t2\t6\tnone\t7\t2\t62\t3.25\t21.5\tcheckpoint_best.pt",
        "2\t12\t2\t6\tnone\t11\t3+\t62\t\t22.5\taverage.pt",
    ]
    # A figure that is no loss does not pass for one.
    four = stage(4, 24, 20, metric="bleu", best=31.5, train_iterator={"epoch": 4, "iterations_in_epoch": 0})
    note(four, "average.pt")
    noted = json.loads((four / "stage.json").read_text("utf-8"))
    assert "valid_loss" not in noted
    assert (noted["valid_bleu"], noted["BLEU"]) == (31.5, 24.5)
    (two / "valid" / "scores.json").unlink()
    with pytest.raises(UserError, match=r"scores.json: no scores; run deepnmt score"):
        note(two, "average.pt")
