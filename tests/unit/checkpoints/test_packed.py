"""Weights in fewer bits: which they are, how far they are off, and that reading and writing again changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from support.checkpoints import checkpoint

from deepnmt.checkpoints import packed as module
from deepnmt.checkpoints.averaging import average_checkpoints
from deepnmt.checkpoints.contents import check_contents
from deepnmt.checkpoints.optimizer import fresh_state
from deepnmt.checkpoints.packed import packed, unpacked
from deepnmt.checkpoints.rewrite import rewritten
from deepnmt.checkpoints.state import SCALES, CheckpointState
from deepnmt.errors import UserError


@pytest.mark.parametrize(
    ("kind", "size", "bound"), [("float16", 2, 2**-11), ("bfloat16", 2, 2**-8), ("int8", 1, 0.5 / 127)]
)
def test_large_weights_alone_are_rounded(monkeypatch: pytest.MonkeyPatch, kind: str, size: int, bound: float) -> None:
    monkeypatch.setattr(module, "FEW_WEIGHTS", 300)
    torch.manual_seed(1)
    shared = torch.randn(40, 8)
    tensors = {
        "encoder.embed_tokens.weight": shared,
        "decoder.output_projection.weight": shared,
        "decoder.layers.0.fc1.weight": torch.randn(64, 8) * torch.logspace(-3, 3, 64).unsqueeze(1),
        "decoder.layers.0.fc2.weight": torch.randn(8, 16),
        "decoder.layers.0.fc1.bias": torch.randn(400),
        "decoder.history.weight": torch.randn(30, 30),
        "decoder.version": torch.tensor([3.0]),
    }
    small, scales = packed(tensors, kind)
    read = unpacked(small, scales)
    large = list(tensors)[:3]
    assert list(read) == list(tensors)
    for name, tensor in tensors.items():
        if name not in large:
            assert torch.equal(read[name], tensor)
            continue
        assert small[name].element_size() == size
        largest = tensor.abs().amax(1, keepdim=True) if kind == "int8" else tensor.abs()
        # The smallest distance of two numbers in float16 is 2^-24.
        assert ((read[name] - tensor).abs() <= bound * 1.001 * largest + 2**-25).all()
        assert not torch.equal(read[name], tensor)
    assert small[large[0]].data_ptr() == small[large[1]].data_ptr()
    assert read[large[0]].data_ptr() == read[large[1]].data_ptr()
    assert list(scales) == (large if kind == "int8" else [])
    again, _ = packed(read, kind)
    assert all(torch.equal(again[name], small[name]) for name in tensors)


@pytest.mark.parametrize("kind", ["int8", "float16"])
def test_half_precision_is_read_as_float32(kind: str) -> None:
    tensors = {"decoder.layers.0.fc1.weight": torch.randn(512, 256).half()}
    assert unpacked(*packed(tensors, kind))["decoder.layers.0.fc1.weight"].dtype == torch.float32


def test_numbers_beyond_float16_are_refused() -> None:
    weight = torch.zeros(512, 256)
    weight[3, 4] = -70_000
    message = "^--weights float16: decoder.layers.0.fc1.weight has numbers above 65,504; use bfloat16$"
    with pytest.raises(UserError, match=message):
        packed({"decoder.layers.0.fc1.weight": weight}, "float16")


def load(contents: dict[str, Any], path: Path) -> Any:
    torch.save(contents, path)
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_fairseq_reads_int8_with_its_scales(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "FEW_WEIGHTS", 1)
    contents = checkpoint()
    tensors = contents["model"]
    small, scales = packed(tensors, "int8")
    found = load({**contents, "model": small, SCALES: scales}, tmp_path / "model.pt")["model"]
    assert scales
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        bound = tensor.abs().amax(1, keepdim=True) / 254 * 1.001 if name in scales else 0
        assert found[name].dtype == tensor.dtype
        assert ((found[name] - tensor).abs() <= bound).all()
    # Without its scale, a weight of whole numbers is none.
    name = next(iter(scales))
    with pytest.raises(UserError, match=f"model.{name} must be floating-point numbers, but is torch.int8"):
        load(
            {**contents, "model": small, SCALES: {n: s for n, s in scales.items() if n != name}}, tmp_path / "model.pt"
        )


def test_faulty_scales_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "FEW_WEIGHTS", 1)
    contents = checkpoint()
    small, scales = packed(contents["model"], "int8")
    name, scale = next(iter(scales.items()))
    each = f"{SCALES} must have a number for each row of model.{name}, but has not"
    for faulty, message in (
        (3, f"{SCALES} must be tensors by the names of weights, but is int"),
        ({**scales, "x" * 100: scale}, f"{SCALES} must be of the model's weights alone, but has {'x' * 60}$"),
        ({**scales, name: 3}, each),
        ({**scales, name: scale.flatten()}, each),
        ({**scales, name: scale.int()}, each),
    ):
        with pytest.raises(UserError, match=message):
            load({**contents, "model": small, SCALES: faulty}, tmp_path / "model.pt")


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8"])
def test_what_is_exported_in_fewer_bits_is_not_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    monkeypatch.setattr(module, "FEW_WEIGHTS", 1)
    contents = checkpoint()
    small, scales = packed(contents["model"], kind)
    path = tmp_path / "model.pt"
    torch.save({**contents, "model": small, SCALES: scales}, path)
    refused = r"model\.pt: must be a checkpoint of a training, but is exported in fewer bits$"
    with pytest.raises(UserError, match=refused):
        rewritten(CheckpointState.of(path), lambda state, config: (state, []))
    with pytest.raises(UserError, match=refused):
        average_checkpoints([path])


def test_the_scale_of_half_precision_stands_beside_several_optimizers() -> None:
    own = {"state": {}, "param_groups": [{"params": [0]}]}
    composite = {**checkpoint(), "last_optimizer_state": {"adam": own, "sgd": own}}
    check_contents(composite, "model.pt")
    check_contents({**composite, "last_optimizer_state": {"adam": own, "loss_scale": 128.0}}, "model.pt")
    with pytest.raises(UserError, match=r"last_optimizer_state\.param_groups must be a list of groups"):
        check_contents({**composite, "last_optimizer_state": {"loss_scale": 128.0}}, "model.pt")


def test_dropped_moments_take_the_count_of_their_updates_along() -> None:
    state = {"state": {0: {}}, "param_groups": [{"params": [0, 1], "lr": 0.5, "step": 900}]}
    assert fresh_state(state, 1, "model.pt") == {"state": {}, "param_groups": [{"params": [0, 1, 2], "lr": 0.5}]}
