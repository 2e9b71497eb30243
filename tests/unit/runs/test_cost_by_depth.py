"""`deepnmt plan`: the line through depths, and its table."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import warm
from support.data_folders import data_folder

from deepnmt import cli
from deepnmt.errors import UserError
from deepnmt.runs import cost_by_depth as plan
from deepnmt.runs import map_of_depth
from deepnmt.runs import update_probe as probe

GIB = 2**30
COST = {
    "encoder layers": 4, "parameters": 2e6, "optimizer": 0.25 * GIB, "rest": 1.0 * GIB, "memory": 2.0 * GIB,
    "available": 4.0 * GIB, "max tokens": 4096, "seconds": 0.5, "processor seconds": 0.4, "updates": 7200,
    "validation": 36.0, "validations": 100, "updates an epoch": 720, "pairs": 29_000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("depths", "run"),
    [([12], [12]), ([4, 12], [4, 12]), ([4, 12, 24, 48], [4, 24]), ([6, 12, 24], [6, 12]), ([2, 3, 48], [2, 3])],
)
def test_two_depths_are_run(depths: list[int], run: list[int]) -> None:
    assert plan.depths_to_run(depths) == run


def test_other_depths_lie_on_a_line() -> None:
    deep = {
        **COST, "parameters": 4e6, "optimizer": 0.45 * GIB, "rest": 1.4 * GIB, "memory": 6.0 * GIB, "seconds": 2.5,
        "processor seconds": 2.0, "validation": 136.0,
    }  # fmt: skip
    found = plan.costs({4: COST, 24: deep}, [4, 12, 24, 48])
    assert found[4] == COST
    assert plan.costs({4: COST, 24: deep}, [48], 5.0)[48]["memory"] == found[48]["memory"] + 5
    assert plan.costs({4: COST}, [4], 5.0)[4]["rest"] == COST["rest"] + 5
    assert found[24] == deep
    # A layer's share is a twentieth of the difference of 20 layers.
    by_layer = {
        "parameters": 1e5, "optimizer": 0.01 * GIB, "rest": 0.02 * GIB, "memory": 0.2 * GIB, "seconds": 0.1,
        "processor seconds": 0.08, "validation": 5.0,
    }  # fmt: skip
    for depth in (12, 48):
        for name, value in COST.items():
            assert found[depth][name] == pytest.approx(value + (depth - 4) * by_layer.get(name, 0.0)), name
    lines = plan.table(plan.Plan(found, [4, 24]))
    assert lines[1].split() == [
        "4", "2,000,000", "2.00", "GiB", "0.250", "GiB", "0.500", "0.400", "720", "2.00", "12288", "10", "updates",
    ]  # fmt: skip
    # 1 GiB more for each of 88 tenths, of 4 GiB; the deepest needs more than there is.
    assert lines[4].split() == [
        "48", "6,400,000", "10.80", "GiB", "0.690", "GiB", "4.900", "3.920", "720", "16.91", "973", "line",
    ]  # fmt: skip
    assert plan.formula(plan.Plan(found, [4, 24])) == [
        "memory: 1.2 + 0.2 L GiB", "seconds: 0.1 + 0.1 L s/update",
    ]  # fmt: skip
    assert plan.formula(plan.Plan({4: COST}, [4])) == []


def test_noise_gives_no_negative_time(probes: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    slower = {**COST, "seconds": 0.9, "validation": 10.0}
    probes["depths"] = {4: slower, 24: COST}
    cli.call("plan", ["tiny", "data", "--encoder-layers", "4,24,96"])
    said = capsys.readouterr()
    # The line would be at -0.94 seconds; validations have become longer.
    assert said.out.splitlines()[3].split()[6] == "0.500"
    assert plan.costs({4: slower, 24: COST}, [96])[96]["validation"] == pytest.approx(36 + 72 * 1.3)
    assert said.err == (
        "warning: the line of seconds falls with depth: other programs have disturbed the measurement; run it again\n"
    )


def test_hours_have_validations_and_an_end() -> None:
    # 7,200 updates of half a second, and 100 validations of 36 seconds.
    assert plan.hours(COST) == pytest.approx(2.0)
    assert plan.hours({**COST, "updates": 0}) == math.inf
    endless = {**COST, "updates": 0, "max tokens": 0, "processor seconds": 0.0}
    cells = plan.table(plan.Plan({4: endless}, [4]), "estimate")[1].split()
    assert cells[6:] == ["0.500", "-", "720", "-", "-", "estimate"]


def test_the_largest_batch_fills_the_free_memory() -> None:
    # 1 GiB for 4,096 tokens, and 3 GiB are free.
    assert plan.largest_batch(COST) == 12288
    assert plan.largest_batch({**COST, "available": 0.5 * GIB}) == 0


@pytest.mark.parametrize("text", ["", "0", "4,x", "4,,6", "-1", "4,1001", "4.5"])
def test_faulty_depths_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"--encoder-layers"):
        cli.call("plan", ["tiny", "data", f"--encoder-layers={text}"])


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The answers of probes by their kind; an error is raised.

    `asked` lists the kinds and depths; `depths` has other answers for some depths.
    """
    answers: dict[str, Any] = {"costs": COST, "growth": {"growth": GIB}, "asked": [], "depths": {}}

    def answer(recipe: Path, data: str, depth: int | None, options: Any, what: str = "costs") -> Any:
        answers["asked"].append((what, depth))
        if isinstance(answers[what], Exception):
            raise answers[what]
        return answers[what] if what == "growth" else answers["depths"].get(depth, answers[what])

    monkeypatch.setattr(plan, "probe", answer)
    return answers


def test_a_picture_is_checked_before_anything_is_measured(probes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^--picture must end in \.png, \.svg, \.pdf, but is 'x\.txt'$"):
        cli.call("plan", ["tiny", "data", "--picture", "x.txt"])
    (tmp_path / "a.png").mkdir()
    with pytest.raises(UserError, match=r"a\.png: must be a file, but is a folder$"):
        cli.call("plan", ["tiny", "data", "--picture", str(tmp_path / "a.png")])
    with pytest.raises(UserError, match=r"^cannot write .*/none/a\.svg: No such file or directory$"):
        cli.call("plan", ["tiny", "data", "--picture", str(tmp_path / "none" / "a.svg")])
    assert not probes["asked"]


def test_the_map_is_read_before_anything_is_measured(
    probes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "depth_map").mkdir()
    (tmp_path / "depth_map" / "gains.tsv").write_text("a foreign file\n", encoding="utf-8")
    monkeypatch.setattr(map_of_depth, "folder", lambda: tmp_path)
    with pytest.raises(UserError, match=r"gains\.tsv:1: must be pairs, hours, .*, but is 'a foreign file'$"):
        cli.call("plan", ["tiny", "data"])
    assert not probes["asked"]


def test_the_reason_of_an_unknown_growth_is_said(probes: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    cli.call("plan", ["tiny", "data"])
    assert probes["asked"] == [("costs", None), ("growth", 1)]
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[:4] == ["4", "2,000,000", "3.00", "GiB"]
    assert said.err == ""
    probes["growth"] = UserError("--encoder-groups must be from 1 to the depth, 1, but is 6", "and so on")
    cli.call("plan", ["tiny", "data"])
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[:4] == ["4", "2,000,000", "2.00", "GiB"]
    assert said.err == (
        "warning: memory lacks the growth of the process, which is unknown: --encoder-groups must be from 1 to the "
        "depth, 1, but is 6\n"
    )


def test_an_estimate_for_a_gpu_has_no_growth(probes: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    probes["gpu=a100"] = {**COST, "processor seconds": 0.0}
    cli.call("plan", ["tiny", "data", "--gpu", "a100", "--encoder-layers", "24,4,4"])
    assert probes["asked"] == [("gpu=a100", 4), ("gpu=a100", 24)]
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:3]] == ["estimate", "estimate"]


# Two numbers of layers are given by the command line.
PLAIN = """arch: dlcl_transformer
optimizer: adam
max-tokens: 8
lr: 0.001
encoder-layers: 2
decoder-layers: 1
encoder-embed-dim: 8
decoder-embed-dim: 8
encoder-ffn-embed-dim: 12
decoder-ffn-embed-dim: 12
encoder-attention-heads: 2
decoder-attention-heads: 2
encoder-groups: none
decoder-groups: none
encoder-norm: pre
decoder-norm: pre
max-epoch: 3
"""


def test_an_estimate_counts_the_operations_of_ten_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.yaml").write_text(PLAIN.replace("max-tokens: 8", "max-tokens: 100"), encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    monkeypatch.setattr(probe.train, "train", probe.train.train)
    monkeypatch.setattr(probe.training_checks, "accepted", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    words = ["gpu=a100", str(tmp_path / "r.yaml"), str(data), str(tmp_path / "result.json")]
    monkeypatch.setattr("sys.argv", ["update_probe.py", *words])
    with pytest.raises(SystemExit, match=r"^$"):
        probe.main()
    found: dict[str, float] = json.loads((tmp_path / "result.json").read_text("utf-8"))
    # Adam's two numbers in FP32, weights and gradients in FP16, master weights and their gradients in FP32.
    assert found["optimizer"] == 8 * found["parameters"]
    assert found["rest"] == (8 + 2 + 2 + 4 + 4) * found["parameters"]
    # Gradients are tensors that exist at once, and activations are more.
    assert found["memory"] > found["rest"]
    assert found["available"] == 80 * GIB
    # Such small tensors take the time to start an operation, and all batches are the same.
    operations = found["seconds"] / 1e-5
    assert operations == pytest.approx(round(operations))
    # Forward and backward passes of three layers.
    assert 200 < operations < 2000
    assert 50 < found["validation"] / 1e-5 < operations / 2
    assert (found["updates"], found["pairs"], found["processor seconds"]) == (3, 3, 0.0)


@pytest.mark.parametrize("name", ["costs", "growth", "gpu", "a1000"])
def test_a_gpu_is_no_other_measurement(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["update_probe.py", f"gpu={name}", "r.yaml", "data", "result.json"])
    with pytest.raises(UserError, match=rf"^--gpu must be t4, .*, but is '{name}'$"):
        probe.main()


@pytest.fixture
def warm_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes are processes that have imported fairseq."""
    for name, value in warm.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("sys.executable", str(warm.program("python3")))


def layer(width: int, inner: int) -> int:
    """Parameters of an encoder layer: four maps of attention, two of the feed-forward sublayer, two norms."""
    return 4 * (width * width + width) + (width * inner + inner) + (inner * width + width) + 2 * 2 * width


def test_a_plan_of_two_depths_and_one_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], warm_probes: None
) -> None:
    (tmp_path / "r.yaml").write_text(PLAIN, encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    picture = tmp_path / "plan.png"
    plans: list[plan.Plan] = []
    stock = plan.table

    def table(found: plan.Plan) -> list[str]:
        plans.append(found)
        return stock(found)

    monkeypatch.setattr(plan, "table", table)
    cli.call("plan", [str(tmp_path / "r.yaml"), str(data), "--encoder-layers", "1,2,3", "--picture", str(picture)])
    said = capsys.readouterr()
    # Layers this small take less time than noise.
    assert not said.err or "falls with depth" in said.err
    head, *lines = said.out.splitlines()
    assert head.split()[:2] == ["layers", "parameters"]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    (found,) = plans
    assert found.measured == [1, 3]
    for depth, line in zip((1, 2, 3), lines, strict=False):
        cost = found.costs[depth]
        # Width 8, inner width 12, 12 types: two tables and the projection, an attention and a norm more in the decoder,
        # and the last norm of each stack.
        parameters = 3 * 12 * 8 + depth * layer(8, 12) + layer(8, 12) + 4 * (8 * 8 + 8) + 2 * 8 + 2 * 2 * 8
        assert cost["parameters"] == pytest.approx(parameters)
        # Adam has two numbers of four bytes for each.
        assert cost["optimizer"] == pytest.approx(8 * parameters)
        # Three sentences of 4, 2 and 6 tokens: with at most 8 tokens, two updates an epoch, and three epochs.
        assert (cost["updates an epoch"], cost["updates"], cost["validations"], cost["pairs"]) == (2, 6, 3, 3)
        hours = (6 * cost["seconds"] + 3 * cost["validation"]) / 3600
        assert line.split()[:2] == [str(depth), f"{parameters:,}"]
        assert f" {hours:.2f} " in line
        assert f" {cost['memory'] / GIB:.2f} GiB" in line
    assert [line.split()[-1] for line in lines[:3]] == ["updates", "line", "updates"]
    for name in ("rest", "memory", "seconds", "processor seconds", "validation"):
        first, second, third = (found.costs[depth][name] for depth in (1, 2, 3))
        assert second == pytest.approx((first + third) / 2), name
    # The process has torch, and its peak is above what it had before the first batch.
    assert 2**27 < found.costs[1]["rest"] < found.costs[1]["memory"] + GIB


@pytest.mark.slow
def test_a_depth_of_one_that_a_recipe_cannot_have_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], warm_probes: None
) -> None:
    (tmp_path / "r.yaml").write_text(PLAIN.replace("encoder-groups: none", "encoder-groups: 0,2,3"), encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    cli.call("plan", [str(tmp_path / "r.yaml"), str(data), "--encoder-layers", "3"])
    said = capsys.readouterr()
    assert "encoder-groups" in said.err
    assert said.out.splitlines()[1].split()[0] == "3"


@pytest.mark.slow
def test_a_fault_of_the_recipe_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(PLAIN.replace("optimizer: adam\n", ""), encoding="utf-8")
    data = data_folder(tmp_path / "data", ["train", "valid"])
    with pytest.raises(UserError, match=r"a recipe must name an optimizer"):
        cli.call("plan", [str(tmp_path / "r.yaml"), str(data)])


def test_a_process_without_a_result_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(stderr="a warning\n", returncode=-9)

    monkeypatch.setattr(plan.subprocess, "run", run)
    with pytest.raises(UserError, match=r"^updates at a depth of 12 failed: status -9, perhaps for lack of memory$"):
        plan.probe(tmp_path, "data", 12, [])
    with pytest.raises(
        UserError, match=r"^updates at the recipe's depth failed: status -9, perhaps for lack of memory$"
    ):
        plan.probe(tmp_path, "data", None, [])


def test_a_probe_reads_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []
    environments: list[dict[str, str]] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        words.extend(command)
        environments.append(env)
        Path(command[command.index("data") + 1]).write_text(json.dumps(COST), encoding="utf-8")

    monkeypatch.setattr(plan.subprocess, "run", run)
    assert plan.probe(tmp_path / "r.yaml", "data", 12, ["--lr", "1"]) == COST
    assert words[-3:] == ["--lr", "1", "--encoder-layers=12"]
    assert words[words.index("data") - 2] == "costs"
    # A GPU that is there must not count the operations.
    del words[:]
    assert plan.probe(tmp_path / "r.yaml", "data", 12, [], "gpu=a100") == COST
    assert words[words.index("data") - 2] == "gpu=a100"
    assert environments[0].get("CUDA_VISIBLE_DEVICES") == os.environ.get("CUDA_VISIBLE_DEVICES")
    assert environments[1]["CUDA_VISIBLE_DEVICES"] == ""
