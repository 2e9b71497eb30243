"""A grown checkpoint in training: the states of its optimizer, the learning rate, moving averages, translations."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_cli import generate
from support.checkpoints import load, run_command
from support.models import EXAMPLE, logits
from support.slow import slow_but
from support.trainings import DUMMY, LAYOUTS, binarised_text, fairseq_train, moments

from deepnmt.checkpoints.averaging import average_checkpoints
from deepnmt.checkpoints.grow import Growth, grow, grow_checkpoint

command = functools.partial(run_command, "grow")


@pytest.fixture(scope="module", params=slow_but(["half"], LAYOUTS))
def layout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Options of an optimizer's layout, and a checkpoint of it: three layers, eleven updates, in the second epoch."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as monkeypatch:
        # Flat gradients ask for the GPU; the CPU has no number.
        monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
        fairseq_train(monkeypatch, DUMMY, folder, *LAYOUTS[request.param], "--max-update=11")
        yield request.param, folder / "checkpoint_last.pt"


@pytest.mark.parametrize("carry", [False, True], ids=["dropped", "carried"])
def test_training_goes_on(
    layout: tuple[str, Path], carry: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, source = layout
    old, target = load(source), tmp_path / "checkpoint_last.pt"
    growth = Growth({"encoder": 6, "decoder": 5}, strategy="top")
    lines = grow_checkpoint(source, target, growth, carry_moments=carry)
    state = load(target)
    assert lines[-2:] == [
        "optimizer: moments " + ("carried, zero for new history weights" if carry else "dropped"),
        "learning rate: back to its peak at update 11",
    ]
    before, after = moments(old), moments(state)
    if not carry:
        assert after == {}
    for parameter, values in after.items():
        layer = re.fullmatch(r"((?:en|de)coder)\.(layers|history\.layer_norms)\.(\d+)(\..+)", parameter)
        number = layer and int(layer[3])
        if layer and layer[2] == "layers":
            number = ([0, 1, 2, 0, 1, 2] if layer[1] == "encoder" else [0, 1, 2, 1, 2])[number]
        elif layer:
            number = min(number, 2)
        expected = before[f"{layer[1]}.{layer[2]}.{number}{layer[4]}" if layer else parameter]
        assert values["step"] == expected["step"] == 11
        for key in ("exp_avg", "exp_avg_sq"):
            assert values[key].dtype == expected[key].dtype
            if parameter.endswith("history.weight"):
                assert torch.equal(values[key][:4, :4], expected[key].tril())
                assert values[key][:4, 4:].eq(0).all()
                assert values[key][4:].eq(0).all()
            else:
                assert torch.equal(values[key], expected[key]), parameter
    assert state["optimizer_history"][-1]["lr_scheduler_state"]["resets"] == [11]
    assert state["extra_state"]["train_iterator"] == old["extra_state"]["train_iterator"]
    assert old["extra_state"]["train_iterator"]["epoch"] == 2
    assert state["last_optimizer_state"].get("loss_scale") == old["last_optimizer_state"].get("loss_scale")

    deeper = ["--encoder-layers=6", "--decoder-layers=5", "--max-update=13", *LAYOUTS[name]]
    rates = fairseq_train(monkeypatch, DUMMY, tmp_path, *deeper)
    # (17) with a warm-up of two: the peak, then sqrt(2 / 3) of it.
    assert rates == pytest.approx({11: 0.01, 12: 0.01 * (2 / 3) ** 0.5}, rel=1e-6)
    final = load(target)
    assert final["optimizer_history"][-1]["num_updates"] == 13
    iterator = final["extra_state"]["train_iterator"]
    assert (iterator["epoch"], iterator["iterations_in_epoch"]) == (2, 5)
    assert {values["step"] for values in moments(final).values()} == {13 if carry else 2}
    assert all(torch.isfinite(tensor).all() for tensor in final["model"].values())


def test_learning_rate_may_go_on(layout: tuple[str, Path]) -> None:
    state = load(layout[1])
    grown, lines = grow(state, Growth({"encoder": 6}), keep_schedule=True)
    assert lines[-1] == "learning rate: continues as before"
    assert grown["optimizer_history"] == state["optimizer_history"]
    state["cfg"]["lr_scheduler"]["_name"] = "inverse_sqrt"
    grown, lines = grow(state, Growth({"encoder": 6}))
    assert lines[-1] == "learning rate: continues as before, since inverse_sqrt has no reset; inverse_sqrt_reset has"
    assert grown["optimizer_history"] == state["optimizer_history"]


@pytest.mark.parametrize(
    "option", slow_but(["--merge-src-tgt-embed"], ["--share-all-embeddings", "--merge-src-tgt-embed"])
)
def test_moments_of_one_table_in_half_precision(option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """fairseq saves tied tensors apart there, of which the optimizer has one."""
    fairseq_train(monkeypatch, DUMMY, tmp_path, "--max-update=1", "--bf16", option)
    state = load(tmp_path / "checkpoint_last.pt")
    grown, _ = grow(state, Growth({"encoder": 6}), carry_moments=True)
    before, after = (each["last_optimizer_state"]["state"] for each in (state, grown))
    # The table comes first.
    assert before[0]["exp_avg"].any()
    assert torch.equal(after[0]["exp_avg"], before[0]["exp_avg"])
    new = grown["model"].keys() - state["model"].keys()
    assert len(after) == len(before) + len(new)


def test_moments_of_frozen_weights_and_of_a_criterion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fairseq_train(monkeypatch, DUMMY, tmp_path, "--max-update=1", "--dlcl-freeze")
    state = load(tmp_path / "checkpoint_last.pt")
    state["criterion"] = {"scale": torch.ones(3)}
    optimizer = state["last_optimizer_state"]
    number = len(optimizer["param_groups"][0]["params"])
    optimizer["param_groups"][0]["params"].append(number)
    optimizer["state"][number] = {"step": 1, "exp_avg": torch.ones(3), "exp_avg_sq": torch.ones(3)}
    grown, _ = grow(state, Growth({"decoder": 6}), carry_moments=True)
    new = grown["last_optimizer_state"]
    assert torch.equal(new["state"].pop(len(new["state"]) - 1)["exp_avg"], torch.ones(3))
    new["param_groups"][0]["params"].pop()
    after = {**grown, "cfg": {"model": {**grown["cfg"]["model"], "dlcl_freeze": True}}}
    assert moments(after)["decoder.layers.5.fc1.weight"]["exp_avg"].abs().sum() > 0


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("text"))


def test_train_grow_train_average_generate(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [str(text), "--batch-size=4", "--share-all-embeddings", "--save-interval-updates=2", "--store-ema"]
    shallow, deep = tmp_path / "shallow", tmp_path / "deep"
    deep.mkdir()
    fairseq_train(monkeypatch, data, shallow, "--encoder-groups=3", "--max-update=4")
    task = load(shallow / "checkpoint_last.pt")["cfg"]["task"]
    assert (task["source_lang"], task["target_lang"]) == ("a", "b")
    command(shallow / "checkpoint_last.pt", deep / "checkpoint_last.pt", "--encoder-layers", "6")
    out = capsys.readouterr().out.splitlines()
    assert "encoder layer 4 <- layer 1" in out
    assert "encoder history row 3: mean of 3" in out
    assert "learning rate: back to its peak at update 4" in out
    assert out[-1] == f"{deep / 'checkpoint_last.pt'} is ready"
    deeper = ["--encoder-groups=3", "--encoder-layers=6"]
    rates = fairseq_train(monkeypatch, data, deep, *deeper, "--max-update=8")
    assert list(rates) == [4, 5, 6, 7]
    assert rates[4] == 0.01

    averaged = average_checkpoints([deep / "checkpoint_1_6.pt", deep / "checkpoint_1_8.pt"])
    for path, state in ((tmp_path / "average.pt", averaged), (deep / "checkpoint_1_8.pt", None)):
        if state is not None:
            torch.save(state, path)
        monkeypatch.setattr(
            sys, "argv", ["generate", str(text), f"--path={path}", "--cpu", "--beam=2", "--num-workers=0"]
        )
        generate.cli_main()
        assert capsys.readouterr().out.count("\nH-") == 6
    # An average can be grown too, and a checkpoint as it is grown translates.
    command(tmp_path / "average.pt", tmp_path / "12.pt", "--encoder-layers", "12", "--function-preserving")
    model, twice = (
        checkpoint_utils.load_model_ensemble([str(tmp_path / name)])[0][0].eval() for name in ("average.pt", "12.pt")
    )
    torch.testing.assert_close(logits(twice, EXAMPLE), logits(model, EXAMPLE), rtol=0, atol=1e-5)
