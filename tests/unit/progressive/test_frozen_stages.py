"""`freeze: old`: the layers of the stage before are bit for bit the same at the end of a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.restarts import train_until
from support.trainings import binarised_text

from deepnmt import recipe
from deepnmt.checkpoints.contents import is_buffer
from deepnmt.checkpoints.file import read
from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.errors import UserError
from deepnmt.progressive import Stage, plan_stages
from deepnmt.progressive.stage_runs import LAST, grow_stage

TOP = {
    "arch": "dlcl_transformer", "optimizer": "adam", "lr-scheduler": "inverse_sqrt_reset", "lr": "0.01",
    "warmup-updates": "2", "max-tokens": "80", "disable-validation": "true", "save-interval-updates": "2",
}  # fmt: skip
TOP |= {f"{stack}-{name}": "16" for stack in ("encoder", "decoder") for name in ("embed-dim", "ffn-embed-dim")}
FIRST = {"encoder-layers": "1", "decoder-layers": "1", "max-update": "4"}
SECOND = {"encoder-layers": "2", "decoder-layers": "1", "max-update": "8", "freeze": "old"}
THIRD = {"encoder-layers": "4", "decoder-layers": "2", "max-update": "12", "freeze": "old", "strategy": "interleave"}


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's parser reads it, and the check of recipes writes it."""
    monkeypatch.setattr("sys.argv", ["pytest"])


def plan(folder: Path, *stages: dict[str, str], **top: str) -> list[Stage]:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump({**TOP, **top, "stages": list(stages)}), encoding="utf-8")
    return plan_stages(path)


def layers(state: dict[str, Any], stack: str, numbers: list[int]) -> dict[str, torch.Tensor]:
    begins = tuple(f"{stack}.layers.{number}." for number in numbers)
    return {name: tensor for name, tensor in state["model"].items() if name.startswith(begins)}


def test_frozen_tensors_are_bit_equal_after_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = plan(tmp_path, FIRST, SECOND, THIRD)
    save, data = tmp_path / "save", [str(binarised_text(tmp_path))]
    # The old layers of the stacks that grow; the decoder of the second stage does not.
    frozen = {2: {"encoder": [0]}, 3: {"encoder": [0, 2], "decoder": [0]}}
    for before, stage in zip([None, *stages], stages):
        folder = save / stage.name
        folder.mkdir(parents=True)
        if before is not None:
            grow_stage(before, stage, save)
            begun = read(folder / LAST)
        train_until(monkeypatch, data, folder, *recipe.to_arguments(stage.options))
        if before is None:
            continue
        ended, kept = read(folder / LAST), frozen[stage.number]
        for stack, numbers in kept.items():
            for name, tensor in layers(begun, stack, numbers).items():
                assert torch.equal(tensor, ended["model"][name]), name
        same = {name for name, tensor in begun["model"].items() if torch.equal(tensor, ended["model"][name])}
        still = {name for stack, numbers in kept.items() for name in layers(begun, stack, numbers)}
        # Biases of keys have no gradient but rounding; all other tensors are trained.
        assert {name for name in same - still if "k_proj.bias" not in name and not is_buffer(name)} == set()
        assert ended["optimizer_history"][-1]["num_updates"] == 4 * stage.number
    # A stage that is resumed is the same as one that is not.
    again, name = tmp_path / "again", stages[1].name
    for stage in stages[:2]:
        (again / stage.name).mkdir(parents=True)
    (again / stages[0].name / LAST).symlink_to(save / stages[0].name / LAST)
    grow_stage(stages[0], stages[1], again)
    arguments = recipe.to_arguments(stages[1].options)
    train_until(monkeypatch, data, again / name, *arguments, killed_at=7)
    train_until(monkeypatch, data, again / name, *arguments)
    one, other = read(save / name / LAST)["model"], read(again / name / LAST)["model"]
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_options_of_the_stages(tmp_path: Path) -> None:
    first, second, third = plan(tmp_path, FIRST, SECOND, {**THIRD, "strategy": "stack"})
    assert "encoder-freeze" not in first.options
    assert second.options["encoder-freeze"].value == second.config.encoder_freeze == "1"
    assert (second.config.decoder_freeze, "decoder-freeze" in second.options) == ("none", False)
    assert (third.config.encoder_freeze, third.config.decoder_freeze) == ("1,2", "1")
    # Beside the stages, it holds for all that have old layers.
    free = [{key: value for key, value in stage.items() if key != "freeze"} for stage in (FIRST, SECOND)]
    assert [stage.config.encoder_freeze for stage in plan(tmp_path, *free, freeze="old")] == ["none", "1"]
    assert [stage.config.encoder_freeze for stage in plan(tmp_path, *free)] == ["none", "none"]


@pytest.mark.parametrize(
    ("stages", "top", "message"),
    [
        ([{**FIRST, "freeze": "old"}, SECOND], {}, r"stage 1: 'freeze' must stand in a later stage, since the fi"),
        ([FIRST, {**SECOND, "freeze": "all"}], {}, r"stage 2: freeze must be 'old', for the layers of the stage bef"),
        (
            [FIRST, SECOND, {**THIRD, "carry-moments": "true"}], {},
            r"stage 3: carry-moments cannot follow a stage with 'freeze: old', which has no moments of its frozen",
        ),
        ([FIRST, SECOND], {"encoder-freeze": "1"}, r"'encoder-freeze' must not be set in progressive training"),
        ([FIRST, {**SECOND, "strategy": "best"}], {}, r"stage 2: strategy must be one of stack, top, repeat-top, "),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, stages: list[dict[str, str]], top: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(tmp_path, *stages, **top)


def test_grown_checkpoints_train_all_layers_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = plan(tmp_path, FIRST, SECOND)[0]
    data, folder = [str(binarised_text(tmp_path))], tmp_path / first.name
    train_until(monkeypatch, data, folder, *recipe.to_arguments(first.options))
    frozen, _ = grow(read(folder / LAST), Growth({"encoder": 2}, freeze_old=True))
    assert frozen["cfg"]["model"]["encoder_freeze"] == "1"
    free, _ = grow(frozen, Growth({"encoder": 4}))
    assert free["cfg"]["model"]["encoder_freeze"] == "none"
    counts = [len(state["last_optimizer_state"]["param_groups"][0]["params"]) for state in (frozen, free)]
    tensors = len(layers(frozen, "encoder", [0]))
    history = [name for name in free["model"] if name.startswith("encoder.history.layer_norms.")]
    added = len(history) - len([name for name in frozen["model"] if name.startswith("encoder.history.layer_norms.")])
    assert counts[1] - counts[0] == 3 * tensors + added
    with pytest.raises(UserError, match=r"^--carry-moments: .* has no moments of its frozen layers$"):
        grow(frozen, Growth({"encoder": 4}), carry_moments=True)
    # In the stage that freezes them, the old layers' moments are left out, and the others are carried.
    carried, _ = grow(read(folder / LAST), Growth({"encoder": 2}, freeze_old=True), carry_moments=True)
    group, known = (carried["last_optimizer_state"][key] for key in ("param_groups", "state"))
    assert len(known) == len(group[0]["params"]) == counts[0]
