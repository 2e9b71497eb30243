"""Growing a checkpoint: its tensors against tables written out here, its optimizer, training from it, and faults."""

from __future__ import annotations

import dataclasses
import errno
import functools
import random
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import average
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from fairseq_cli import generate, preprocess, train
from models import EXAMPLE, SIZE, build, incremental_logits, logits, task
from torch import Tensor

from deepnmt.config import DLCLTransformerConfig
from deepnmt.errors import UserError
from deepnmt.growth import Growth, grow, grow_checkpoint
from deepnmt.growth.cli import grow_main
from deepnmt.model import DLCLTransformerModel

DEPTH = {"encoder_layers": 4, "decoder_layers": 4}
STACKS = ("encoder", "decoder")


@functools.cache
def parameters(seed: int = 1, **given: Any) -> dict[str, Tensor]:
    return build({**DEPTH, **given}, seed=seed).float().state_dict()


def checkpoint(seed: int = 1, **given: Any) -> dict[str, Any]:
    """What fairseq saves of a model, whose parameters are all different."""
    config = DLCLTransformerConfig(**{**SIZE, **DEPTH, "dropout": 0.0, **given})
    return {
        "args": None,
        "cfg": {"model": {**dataclasses.asdict(config), "_name": "dlcl_transformer"}, "task": {"_name": "translation"}},
        "model": parameters(seed, **given),
        "criterion": None,
        "optimizer_history": [{"num_updates": 7, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 5}, "val_loss": 2.5},
    }


def model_of(state: dict[str, Any]) -> DLCLTransformerModel:
    """The model that fairseq builds from a checkpoint's own options, with all its tensors and no other."""
    values = {key: value for key, value in state["cfg"]["model"].items() if key != "_name"}
    model = DLCLTransformerModel.build_model(DLCLTransformerConfig(**values), task())
    model.load_state_dict(state["model"], strict=True)
    return model.eval()


# Of four layers: the old number of each new layer, from 0.
LAYERS = {
    "stack": [0, 1, 2, 3, 0, 1, 2, 3],
    "top": [0, 1, 2, 3, 2, 3],
    "repeat-top": [0, 1, 2, 3, 3, 3, 3],
    "interleave": [0, 0, 1, 1, 2, 2, 3, 3],
}
# The new groups; the old norm of each new group, from 1; and the rows of W: 32 is what stood in row 3 for output 2, m
# the mean.
HISTORY: dict[tuple[str, str], tuple[str, list[int], list[str]]] = {
    ("1", "stack"): (
        "1", [1, 2, 3, 4, 4, 4, 4, 4],
        ["10", "20 21", "30 31 32", "40 41 42 43", "50 51 52 53 54", "m", "m", "m", "m"],
    ),
    ("1", "top"): (
        "1", [1, 2, 3, 4, 4, 4],
        ["10", "20 21", "30 31 32", "40 41 42 43", "50 51 52 53 54", "m", "m"],
    ),
    ("1", "repeat-top"): (
        "1", [1, 2, 3, 4, 4, 4, 4],
        ["10", "20 21", "30 31 32", "40 41 42 43", "50 51 52 53 54", "m", "m", "m"],
    ),
    ("1", "interleave"): (
        "1", [1, 1, 2, 2, 3, 3, 4, 4],
        ["10", "m", "20 0 21", "m", "30 0 31 0 32", "m", "40 0 41 0 42 0 43", "m", "50 0 51 0 52 0 53 0 54"],
    ),
    ("4", "stack"): ("4", [1, 1], ["10", "20 21", "m"]),
    ("4", "top"): ("4", [1, 1], ["10", "20 21", "m"]),
    ("4", "repeat-top"): ("4", [1, 1], ["10", "20 21", "m"]),
    ("4", "interleave"): ("4", [1, 1], ["10", "m", "20 0 21"]),
    ("2", "stack"): ("2", [1, 2, 2, 2], ["10", "20 21", "30 31 32", "m", "m"]),
    ("2", "top"): ("2", [1, 2, 2], ["10", "20 21", "30 31 32", "m"]),
    ("2", "repeat-top"): ("2", [1, 2, 2, 2], ["10", "20 21", "30 31 32", "m", "m"]),
    ("2", "interleave"): ("2", [1, 1, 2, 2], ["10", "m", "20 0 21", "m", "30 0 31 0 32"]),
    ("0,1,4", "stack"): ("0,1,4,8", [1, 2, 2], ["10", "20 21", "30 31 32", "m"]),
    ("0,1,4", "top"): ("0,1,4,6", [1, 2, 2], ["10", "20 21", "30 31 32", "m"]),
    ("0,1,4", "repeat-top"): ("0,1,4,7", [1, 2, 2], ["10", "20 21", "30 31 32", "m"]),
    ("0,1,4", "interleave"): ("0,2,8", [1, 2], ["10", "20 21", "30 31 32"]),
    **{("none", strategy): ("none", [], []) for strategy in LAYERS},
}  # fmt: skip
# Connections for both stacks, and what else the model has.
EXTRAS: dict[str, dict[str, Any]] = {
    "none": {},
    "pre-vector-relative": {
        "encoder_norm": "pre", "decoder_norm": "pre", "dlcl_granularity": "vector", "dlcl_embedding_norm": True,
        "encoder_max_relative_length": 2, "decoder_max_relative_length": 2,
    },
    "admin-merged": {"residual_scale": "admin", "merged_attention": True, "dlcl_granularity": "4"},
    "b2t-deepnorm-keys": {
        "encoder_norm": "b2t", "decoder_norm": "b2t", "residual_scale": "deepnorm", "encoder_max_relative_length": 2,
        "relative_positions": "keys", "share_decoder_input_output_embed": True,
    },
    "no-norms": {"encoder_norm": "none", "decoder_norm": "none", "initializer": "t-fixup"},
}  # fmt: skip
CASES = [
    *((groups, strategy, stacks, "none") for groups, strategy in HISTORY for stacks in [STACKS]),
    *(("1", strategy, stacks, "none") for strategy in LAYERS for stacks in [STACKS[:1], STACKS[1:]]),
    *((groups, "stack", STACKS, extra) for groups in ("1", "2") for extra in EXTRAS),
    *((groups, "interleave", STACKS[1:], extra) for groups in ("1", "2") for extra in EXTRAS),
]


def expected_weight(old: Tensor, rows: list[str]) -> Tensor:
    new = torch.zeros(len(rows), len(rows), old.size(2))
    for row, text in enumerate(rows):
        if text == "m":
            new[row, : row + 1] = 1 / (row + 1)
            continue
        for column, token in enumerate(text.split()):
            if token != "0":
                new[row, column] = old[int(token[0]) - 1, int(token[1])]
    return new


def expected_tensors(old: dict[str, Tensor], groups: str, strategy: str, stacks: tuple[str, ...]) -> dict[str, Tensor]:
    _, norms, rows = HISTORY[groups, strategy]
    numbers = {"layers": LAYERS[strategy], "history.layer_norms": [norm - 1 for norm in norms]}
    result = {}
    for name, tensor in old.items():
        found = re.fullmatch(r"(encoder|decoder)\.(layers|history\.layer_norms)\.(\d+)\.(.+)", name)
        if name in [f"{stack}.history.weight" for stack in stacks]:
            result[name] = expected_weight(tensor, rows)
        elif found is None or found[1] not in stacks:
            result[name] = tensor
        else:
            for new, source in enumerate(numbers[found[2]]):
                if source == int(found[3]):
                    result[f"{found[1]}.{found[2]}.{new}.{found[4]}"] = tensor
    return result


@pytest.mark.parametrize(("groups", "strategy", "stacks", "extra"), CASES)
def test_which_tensor_becomes_which(groups: str, strategy: str, stacks: tuple[str, ...], extra: str) -> None:
    state = checkpoint(encoder_groups=groups, decoder_groups=groups, **remaining(EXTRAS[extra], groups))
    old = {name: tensor.clone() for name, tensor in state["model"].items()}
    depth = len(LAYERS[strategy])
    grown, _ = grow(state, Growth(dict.fromkeys(stacks, depth), strategy=strategy))
    expected = expected_tensors(old, groups, strategy, stacks)
    assert grown["model"].keys() == expected.keys()
    for name, tensor in grown["model"].items():
        assert torch.equal(tensor, expected[name]), name
    for stack in STACKS:
        options = grown["cfg"]["model"]
        now = (depth, HISTORY[groups, strategy][0]) if stack in stacks else (4, groups)
        assert (options[f"{stack}_layers"], options[f"{stack}_groups"]) == now
    assert grown["extra_state"] == state["extra_state"]
    # The old one is as it was, and nothing else of it has changed.
    assert all(torch.equal(tensor, old[name]) for name, tensor in state["model"].items())
    assert state["cfg"]["model"]["encoder_layers"] == 4
    changed = {name for name in options if options[name] != state["cfg"]["model"][name]}
    assert changed <= {f"{stack}_{name}" for stack in stacks for name in ("layers", "groups")}


@pytest.mark.parametrize(
    ("groups", "strategy", "extra"),
    [*((*case, "none") for case in HISTORY), *(("1", "stack", extra) for extra in EXTRAS)],
)
def test_grown_checkpoint_loads_and_grows_again(groups: str, strategy: str, extra: str) -> None:
    state = checkpoint(encoder_groups=groups, decoder_groups=groups, **remaining(EXTRAS[extra], groups))
    depth = len(LAYERS[strategy])
    grown, _ = grow(state, Growth(dict.fromkeys(STACKS, depth), strategy=strategy))
    model = model_of(grown)
    assert list(model.state_dict()) == list(grown["model"])
    assert logits(model, EXAMPLE).isfinite().all()
    again, _ = grow(grown, Growth({"decoder": 2 * depth}, strategy="interleave"))
    model = model_of(again)
    full, stepwise = logits(model, EXAMPLE), incremental_logits(model, EXAMPLE)
    real = EXAMPLE["prev_output_tokens"].ne(1)
    assert full.isfinite().all()
    torch.testing.assert_close(stepwise[real], full[real], rtol=1e-5, atol=2e-5)


def remaining(extra: dict[str, Any], groups: str) -> dict[str, Any]:
    """Without the options that make no sense in a plain stack."""
    return {key: value for key, value in extra.items() if groups != "none" or not key.startswith("dlcl_")}


def test_groups_of_a_deeper_stack_may_be_given() -> None:
    state = checkpoint(encoder_groups="2")
    grown, lines = grow(state, Growth({"encoder": 8}, {"encoder": "0,1,2,4,7,8"}))
    assert grown["cfg"]["model"]["encoder_groups"] == "0,1,2,4,7,8"
    weight, old = grown["model"]["encoder.history.weight"], state["model"]["encoder.history.weight"]
    # Old outputs 1 and 2 are new outputs 2 and 3; row 2 begins within the first old group.
    assert torch.equal(weight, expected_weight(old, ["10", "m", "20 0 21", "30 0 31 32", "m", "m"]))
    assert "encoder history row 3 <- row 2, 1 new outputs unread" in lines
    assert logits(model_of(grown), EXAMPLE).isfinite().all()


def test_copies_share_no_memory_but_tied_tensors_stay_tied() -> None:
    grown, _ = grow(checkpoint(share_all_embeddings=True), Growth({"encoder": 8}, strategy="repeat-top"))
    tied = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight"]
    assert len({grown["model"][name].data_ptr() for name in tied}) == 1
    others = [tensor.data_ptr() for name, tensor in grown["model"].items() if name not in tied]
    assert len(set(others)) == len(others)


@pytest.mark.parametrize("strategy", LAYERS)
def test_half_precision_stays(strategy: str) -> None:
    state = checkpoint()
    half = {**state, "model": {name: tensor.half() for name, tensor in state["model"].items()}}
    growth = Growth({"encoder": 8}, strategy="stack" if strategy == "top" else strategy, function_preserving=True)
    single, _ = grow({**state, "model": {name: t.float() for name, t in half["model"].items()}}, growth)
    grown, _ = grow(half, growth)
    for name, tensor in grown["model"].items():
        assert tensor.dtype == torch.float16
        assert torch.equal(tensor, single["model"][name].half()), name


def test_moving_averages_grow_too() -> None:
    state, other = checkpoint(), checkpoint(seed=2)["model"]
    state["extra_state"] |= {"ema": other, "ema_fp32_params": {name: tensor + 1 for name, tensor in other.items()}}
    grown, lines = grow(state, Growth({"encoder": 8, "decoder": 8}))
    assert "moving average of the model: as the model" in lines
    for key, old in (("ema", other), ("ema_fp32_params", {name: tensor + 1 for name, tensor in other.items()})):
        expected = expected_tensors(old, "1", "stack", STACKS)
        assert grown["extra_state"][key].keys() == expected.keys()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in grown["extra_state"][key].items())
    assert grown["extra_state"]["val_loss"] == 2.5


def test_says_what_it_did() -> None:
    state = checkpoint(encoder_layers=2, decoder_layers=1, decoder_groups="none", residual_scale="deepnorm")
    _, lines = grow(state, Growth({"encoder": 4}, strategy="repeat-top"))
    # 0.81 (2^4 1)^(1/16) = 0.9633 and 0.81 (4^4 1)^(1/16) = 1.146
    assert lines == [
        "encoder layers: 2 -> 4",
        "encoder groups: 1 -> 1",
        "encoder layer 1 <- layer 1",
        "encoder layer 2 <- layer 2",
        "encoder layer 3 <- layer 2",
        "encoder layer 4 <- layer 2",
        "encoder DeepNorm scale: 0.9633 -> 1.146",
        "encoder history row 1 <- row 1",
        "encoder history row 2 <- row 2",
        "encoder history row 3 <- row 3",
        "encoder history row 4: mean of 4",
        "encoder history row 5: mean of 5",
        "encoder history norm 1 <- norm 1",
        "encoder history norm 2 <- norm 2",
        "encoder history norm 3 <- norm 2",
        "encoder history norm 4 <- norm 2",
        "optimizer: none in the checkpoint; a training from it counts its updates from 0",
    ]
    _, lines = grow(state, Growth({"decoder": 2}, function_preserving=True))
    # (2^4 1)^(1/16) and (2^4 2)^(1/16) times 0.81; (3 1)^(1/4) and (3 2)^(1/4)
    assert lines[:-1] == [
        "encoder DeepNorm scale: 0.9633 -> 1.006, made up for in the last projection of each sublayer",
        "decoder layers: 1 -> 2",
        "decoder groups: none -> none",
        "decoder layer 1 <- layer 1",
        "decoder layer 2 <- layer 1, as the identity",
        "decoder DeepNorm scale: 1.316 -> 1.565, made up for in the last projection of each sublayer",
    ]
    _, lines = grow(checkpoint(encoder_layers=2, dlcl_window=1), Growth({"encoder": 4}, function_preserving=True))
    assert "encoder history row 4: newest output alone" in lines


# Training, by fairseq's own trainer


def fairseq_train(monkeypatch: pytest.MonkeyPatch, data: list[str], save: Path, *more: str) -> dict[int, float]:
    """Train in this process; the learning rate of each update, by the number of updates before it."""
    rates: dict[int, float] = {}
    stock = Trainer.train_step

    def train_step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        rates[self.get_num_updates()] = self.get_lr()
        return stock(self, *args, **kwargs)

    fixed = ["--arch=dlcl_transformer", "--optimizer=adam", "--lr=0.01", "--lr-scheduler=inverse_sqrt_reset"]
    fixed += ["--warmup-updates=2", "--cpu", "--num-workers=0", f"--save-dir={save}", "--fp16-init-scale=4"]
    size = [f"--{name.replace('_', '-')}={value}" for name, value in SIZE.items()]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", train_step)
        patch.setattr(sys, "argv", ["fairseq-train"])
        args = options.parse_args_and_arch(options.get_training_parser(), [*data, *fixed, *size, *more])
        train.main(convert_namespace_to_omegaconf(args))
    return rates


def load(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


DUMMY = ["--task=dummy_mt", "--dict-size=20", "--dataset-size=16", "--src-len=4", "--tgt-len=4", "--batch-size=2"]
DUMMY += ["--disable-validation", "--no-epoch-checkpoints", "--share-all-embeddings", "--encoder-max-relative-length=2"]
LAYOUTS = {
    "single": [],
    "half": ["--fp16", "--fp16-no-flatten-grads"],
    "half-memory-efficient": ["--memory-efficient-fp16"],
    "half-flat": ["--fp16"],
}


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Options of an optimizer's layout, and a checkpoint of it: three layers, eleven updates, in the second epoch."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as monkeypatch:
        # Flat gradients ask for the GPU; the CPU has no number.
        monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
        fairseq_train(monkeypatch, DUMMY, folder, *LAYOUTS[request.param], "--max-update=11")
        yield request.param, folder / "checkpoint_last.pt"


def moments(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the optimizer keeps for each parameter, by the names that the model built from the options gives them."""
    own = state["cfg"]["model"]
    config = DLCLTransformerConfig(**{key: value for key, value in own.items() if key != "_name"})
    model = DLCLTransformerModel.build_model(config, task())
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    kept, (group,) = state["last_optimizer_state"]["state"], state["last_optimizer_state"]["param_groups"]
    if len(group["params"]) > 1:
        assert group["params"] == list(range(len(parameters)))
        return {name: kept[number] for number, name in enumerate(parameters) if number in kept}
    if not kept:
        return {}
    result: dict[str, dict[str, Any]] = {name: {"step": kept[0]["step"]} for name in parameters}
    for key in ("exp_avg", "exp_avg_sq"):
        place = 0
        for name, parameter in parameters.items():
            result[name][key] = kept[0][key][place : place + parameter.numel()].view_as(parameter)
            place += parameter.numel()
        assert place == len(kept[0][key])
    return result


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
    assert lines[-1] == "learning rate: goes on as before"
    assert grown["optimizer_history"] == state["optimizer_history"]
    state["cfg"]["lr_scheduler"]["_name"] = "inverse_sqrt"
    grown, lines = grow(state, Growth({"encoder": 6}))
    assert lines[-1] == "learning rate: goes on as before, since inverse_sqrt has no reset; inverse_sqrt_reset has"
    assert grown["optimizer_history"] == state["optimizer_history"]


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
    """A binarised corpus of two small languages, forty sentences."""
    folder, draw = tmp_path_factory.mktemp("text"), random.Random(1)
    for split, sentences in (("train", 40), ("valid", 8), ("test", 6)):
        for language in "ab":
            words = [f"{language}{number}" for number in range(8)]
            lines = [" ".join(draw.choices(words, k=draw.randint(3, 6))) + "\n" for _ in range(sentences)]
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    with pytest.MonkeyPatch.context() as monkeypatch:
        command = ["fairseq-preprocess", "--source-lang=a", "--target-lang=b", "--joined-dictionary"]
        monkeypatch.setattr(sys, "argv", [*command, *prefixes, f"--destdir={folder / 'data'}"])
        preprocess.cli_main()
    return folder / "data"


def test_train_grow_train_average_generate(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [str(text), "--batch-size=4", "--share-all-embeddings", "--save-interval-updates=2", "--store-ema"]
    shallow, deep = tmp_path / "shallow", tmp_path / "deep"
    deep.mkdir()
    fairseq_train(monkeypatch, data, shallow, "--encoder-groups=3", "--max-update=4")
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

    averaged = average.average_checkpoints([deep / "checkpoint_1_6.pt", deep / "checkpoint_1_8.pt"])
    for path, state in ((tmp_path / "average.pt", averaged), (deep / "checkpoint_1_8.pt", None)):
        if state is not None:
            torch.save(state, path)
        monkeypatch.setattr(sys, "argv", ["generate", str(text), f"--path={path}", "--cpu", "--beam=2"])
        generate.cli_main()
        assert capsys.readouterr().out.count("\nH-") == 6
    # An average can be grown too, and a checkpoint as it is grown translates.
    command(tmp_path / "average.pt", tmp_path / "12.pt", "--encoder-layers", "12", "--function-preserving")
    model, twice = (
        checkpoint_utils.load_model_ensemble([str(tmp_path / name)])[0][0].eval() for name in ("average.pt", "12.pt")
    )
    torch.testing.assert_close(logits(twice, EXAMPLE), logits(model, EXAMPLE), rtol=0, atol=1e-5)


# The command and its faults


def command(source: Path, target: Path, *words: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", ["deepnmt-grow", str(source), str(target), *words])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        grow_main()


def refused(source: Path, target: Path, *words: str) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        command(source, target, *words)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "4.pt"
    torch.save(checkpoint(encoder_groups="3", decoder_groups="none"), path)
    return path


FAULTS: list[tuple[list[str], list[str]]] = [
    (["--encoder-layers=3"], ["--encoder-layers must be above the present depth, 4, but is 3"]),
    (["--encoder-layers=4"], ["--encoder-layers must be above the present depth, 4, but is 4"]),
    (
        ["--decoder-layers=6"],
        ["--decoder-layers must be a multiple of the present depth, 4, with --strategy stack, but is 6"],
    ),
    (
        ["--encoder-layers=3", "--decoder-layers=9", "--strategy=top"],
        [
            "--encoder-layers must be above the present depth, 4, but is 3",
            "--decoder-layers must be at most twice the present depth, 4, with --strategy top, but is 9",
        ],
    ),
    (
        ["--encoder-layers=8"],
        ["--encoder-groups must end a group after layer 4, where a present one ends, but is '3'; '0,3,4,8' does"],
    ),
    (
        ["--encoder-layers=8", "--encoder-groups=0,4,8"],
        ["--encoder-groups must end a group after layer 3, where a present one ends, but is '0,4,8'; '0,3,4,8' does"],
    ),
    (["--decoder-layers=8", "--decoder-groups=4"], ["--decoder-groups must be none as before, but is '4'"]),
    (["--decoder-layers=8", "--encoder-groups=4"], ["--encoder-groups needs --encoder-layers"]),
    ([], ["--encoder-layers or --decoder-layers must be given"]),
    (
        ["--decoder-layers=8", "--carry-moments"],
        ["--carry-moments needs an optimizer's state in the checkpoint, but there is none"],
    ),
    (["--decoder-layers=x"], ["argument --decoder-layers: invalid int value: 'x' (see --help)"]),
    (
        ["--decoder-layers=8", "--strategy=shuffle"],
        [
            "argument --strategy: invalid choice: 'shuffle' (choose from 'stack', 'top', 'repeat-top', 'interleave') "
            "(see --help)"
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "lines"), FAULTS)
def test_growth_that_is_not_possible(
    words: list[str], lines: list[str], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(saved, tmp_path / "out.pt", *words)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"deepnmt-grow: error: {line}" for line in lines]
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


def without(state: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in keys}


def with_model_options(state: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**state, "cfg": {**state["cfg"], "model": {**state["cfg"]["model"], **changed}}}


def with_tensors(state: dict[str, Any], keep: Callable[[str], bool]) -> dict[str, Any]:
    return {**state, "model": {name: tensor for name, tensor in state["model"].items() if keep(name)}}


def with_optimizer(state: dict[str, Any], groups: int) -> dict[str, Any]:
    return {**state, "last_optimizer_state": {"state": {}, "param_groups": [{"params": [0, 1]}] * groups}}


BAD_STATES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no-model": (lambda s: without(s, "model"), "{path}: must be a fairseq checkpoint, but holds no model"),
    "a-list": (lambda s: [1, 2], "{path}: must be a fairseq checkpoint, but holds no model"),
    "no-cfg": (
        lambda s: without(s, "cfg"), "the checkpoint must hold the options of its model (cfg.model), but does not",
    ),
    "no-options": (
        lambda s: {**s, "cfg": {}}, "the checkpoint must hold the options of its model (cfg.model), but does not",
    ),
    "stock": (
        lambda s: with_model_options(s, _name="transformer"),
        "the checkpoint must be one of dlcl_transformer, but is one of transformer",
    ),
    "unknown": (
        lambda s: with_model_options(s, _name="no_such_model"),
        "the checkpoint must be one of dlcl_transformer, but is one of no_such_model",
    ),
    "another-depth": (
        lambda s: with_model_options(s, decoder_layers=5),
        "the checkpoint must hold 5 decoder layers as its options say, but holds 4",
    ),
    "missing-history": (
        lambda s: with_tensors(s, lambda name: "history.weight" not in name),
        "the checkpoint must hold a history of --encoder-groups 3 as its options say, but holds none",
    ),
    "another-history": (
        lambda s: with_model_options(s, encoder_groups="4"),
        "the checkpoint must hold a history of --encoder-groups 4 as its options say, but holds one of 2 groups",
    ),
    "pruned": (
        lambda s: with_model_options(s, decoder_layers_to_keep="0,1,2,3"),
        "--decoder-layers-to-keep must not be set in the checkpoint, but is",
    ),
    "base-layers": (
        lambda s: with_model_options(s, base_layers=1), "--base-layers must be 0 in the checkpoint, but is 1",
    ),
    "two-groups-of-parameters": (
        lambda s: with_optimizer(s, 2), "the optimizer must have one group of parameters, but has 2",
    ),
    "no-update": (
        lambda s: {**with_optimizer(s, 1), "optimizer_history": [],
                   "cfg": {**s["cfg"], "lr_scheduler": {"_name": "inverse_sqrt_reset"}}},
        "the checkpoint must say at which update it was saved (optimizer_history), but does not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_STATES.values(), ids=BAD_STATES)
def test_checkpoints_that_are_not_as_they_must_be(
    case: tuple[Callable[[dict[str, Any]], Any], str], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, line = case
    path = tmp_path / "in.pt"
    torch.save(change(load(saved)), path)
    refused(path, tmp_path / "out.pt", "--decoder-layers=8")
    assert capsys.readouterr().err == f"deepnmt-grow: error: {line.format(path=path)}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_optimizer_that_does_not_fit() -> None:
    with pytest.raises(
        UserError, match=r"^--carry-moments needs an optimizer of the model's \d+ parameters, but has 2$"
    ):
        grow(with_optimizer(checkpoint(), 1), Growth({"encoder": 8}), carry_moments=True)
    state = checkpoint()
    count = sum(not name.endswith("version") for name in state["model"])
    flat = {"step": 1, "exp_avg": torch.zeros(5)}
    for params, kept, message in (
        ([0], {0: flat}, r"needs moments of the model's \d+ numbers, but exp_avg has 5$"),
        (
            list(range(count)),
            {0: flat},
            r"needs moments of the parameters' shapes, but exp_avg of encoder.embed_tokens.weight is \(5,\) and not",
        ),
    ):
        optimizer = {"state": kept, "param_groups": [{"params": params}]}
        with pytest.raises(UserError, match=f"^--carry-moments {message}"):
            grow({**state, "last_optimizer_state": optimizer}, Growth({"encoder": 8}), carry_moments=True)


def test_unknown_strategy() -> None:
    with pytest.raises(UserError, match=r"^--strategy must be one of stack, top, repeat-top, interleave, but is dice$"):
        grow(checkpoint(), Growth({"encoder": 8}, strategy="dice"))


def test_files_that_cannot_be_read_or_written(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def error() -> str:
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("deepnmt-grow: error: ")
        return printed.err[len("deepnmt-grow: error: ") :]

    whole, target, depth = saved.read_bytes(), tmp_path / "out.pt", "--decoder-layers=8"
    refused(tmp_path / "no.pt", target, depth)
    assert error() == f"{tmp_path / 'no.pt'}: no such checkpoint\n"
    cut = tmp_path / "cut.pt"
    for size in (len(whole) // 2, 100, 0):
        cut.write_bytes(whole[:size])
        refused(cut, target, depth)
        assert re.fullmatch(f"{cut}: must be a whole fairseq checkpoint, but cannot be read: [^\n]+\n", error())
    torch.save({"model": {}, "code": signal.Signals}, cut)
    refused(cut, target, depth)
    assert error().startswith(f"{cut}: must be a whole fairseq checkpoint, but cannot be read: ")

    refused(saved, saved, depth)
    assert error() == f"{saved}: the new checkpoint must be another file than the old one, but is the same\n"
    (tmp_path / "link.pt").symlink_to(saved)
    refused(saved, tmp_path / "link.pt", depth)
    assert error().startswith(f"{tmp_path / 'link.pt'}: the new checkpoint must be another file")
    refused(saved, cut, depth)
    assert error() == f"{cut}: the new checkpoint must not exist yet, but does\n"
    refused(saved, tmp_path / "no" / "out.pt", depth)
    assert error() == f"{tmp_path / 'no'}: the folder of the new checkpoint must exist, but does not\n"

    def full_disk(state: Any, file: Any) -> None:
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    refused(saved, target, depth)
    assert error() == f"cannot write {target}: No space left on device\n"
    assert {path.name for path in tmp_path.iterdir()} == {"cut.pt", "link.pt"}
    assert saved.read_bytes() == whole


def test_help_names_every_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        command(Path("--help"), Path("--help"))
    printed = capsys.readouterr().out
    assert all(f"\n  {strategy} " in printed for strategy in LAYERS)
