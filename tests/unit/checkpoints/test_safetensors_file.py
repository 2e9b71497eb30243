"""Checkpoints in safetensors' format: what is written is read, by this package, by fairseq, and without a pickle."""

from __future__ import annotations

import json
import struct
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from support.checkpoints import checkpoint

from deepnmt.checkpoints.file import read, write
from deepnmt.errors import UserError


def header(path: Path) -> dict[str, Any]:
    """The header by the format's definition: its length in eight bytes, and JSON."""
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    found: dict[str, Any] = json.loads(whole[8 : 8 + length])
    return found


def assert_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert {name: value for name, value in one.items() if name != "model"} == {
        name: value for name, value in other.items() if name != "model"
    }
    assert list(one["model"]) == list(other["model"])
    for name, tensor in one["model"].items():
        assert tensor.dtype == other["model"][name].dtype
        assert torch.equal(tensor, other["model"][name]), name


def test_what_is_written_is_read(tmp_path: Path) -> None:
    state = checkpoint(share_all_embeddings=True)
    state["model"] = {**state["model"], "encoder.version": torch.tensor([3.0])}
    write(state, tmp_path / "model.safetensors")
    found = read(tmp_path / "model.safetensors")
    names = sorted(state["model"])
    assert_equal(
        {**found, "model": {name: found["model"][name] for name in names}},
        {**state, "model": {name: state["model"][name] for name in names}},
    )
    # A table of several names is stored once, and a buffer not as a tensor.
    stored = set(header(tmp_path / "model.safetensors"))
    assert len(stored & {f"{stack}.embed_tokens.weight" for stack in ("encoder", "decoder")}) == 1
    assert not any(name.endswith("version") for name in stored)
    assert b"pickle" not in (tmp_path / "model.safetensors").read_bytes()


def test_other_stored_names_and_shared_memory(tmp_path: Path) -> None:
    state = checkpoint()
    whole = torch.arange(6.0)
    state["model"] = {"a": whole.view(2, 3), "b": whole.view(3, 2).t(), "c": whole[:3], "d": whole.view(2, 3)}
    write(state, tmp_path / "model.safetensors", {"a": "model.a", "d": "model.d"})
    found = read(tmp_path / "model.safetensors")["model"]
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "a": [[0, 1, 2], [3, 4, 5]], "b": [[0, 2, 4], [1, 3, 5]], "c": [0, 1, 2], "d": [[0, 1, 2], [3, 4, 5]]
    }  # fmt: skip
    assert set(header(tmp_path / "model.safetensors")) == {"__metadata__", "model.a", "b", "c", "model.d"}


def test_fairseq_reads_it_with_overrides(tmp_path: Path) -> None:
    state = checkpoint()
    write(state, tmp_path / "model.safetensors")
    found = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.safetensors"), {"source_lang": "xx"})
    torch.save(state, tmp_path / "model.pt")
    expected = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "model.pt"), {"source_lang": "xx"})
    assert found["cfg"] == expected["cfg"]
    assert {name: each for name, each in found.items() if name not in ("model", "cfg")} == {
        name: each for name, each in expected.items() if name not in ("model", "cfg")
    }
    old = {**state, "cfg": None, "args": Namespace(arch="transformer", data="x", task="translation")}
    write(old, tmp_path / "old.safetensors")
    args = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "old.safetensors"), {"data": "y"})["args"]
    assert vars(args) == {"arch": "transformer", "data": "y", "task": "translation"}


def test_faults_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write(checkpoint(), path)
    whole = path.read_bytes()
    damaged = rf"^{path}: must be a whole fairseq checkpoint, but is another file, truncated or damaged$"
    for altered in (
        whole[:-1],
        whole[:40],
        b"",
        b"\xff" * 9 + whole[9:],
        whole.replace(b'\\"model\\"', b'\\"medal\\"'),
    ):
        path.write_bytes(altered)
        with pytest.raises(UserError, match=damaged):
            read(path)
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(
        UserError, match=rf"^{path}: must be a checkpoint written by deepnmt, but another program wrote"
    ):
        read(path)
    with pytest.raises(UserError, match=r"^the options of a model folder must be plain values, but have a set$"):
        write({**checkpoint(), "task_state": {"a": {1}}}, path)
    with pytest.raises(UserError, match=rf"{tmp_path / 'no.safetensors'}: no such checkpoint"):
        read(tmp_path / "no.safetensors")
    # Values are looked at as in the other format.
    state = checkpoint()
    state["cfg"]["model"]["encoder_embed_path"] = "${oc.env:HOME}"
    write(state, path)
    with pytest.raises(
        UserError, match=r"model.encoder_embed_path must be a plain value, but is .* would be expanded$"
    ):
        read(path)
    state = checkpoint()
    name = "encoder.layers.0.fc1.weight"
    state["model"] = {**state["model"], name: torch.full_like(state["model"][name], torch.nan)}
    write(state, path)
    with pytest.raises(UserError, match=r"model\.encoder\.layers\.0\.fc1\.weight must be finite numbers"):
        read(path)
