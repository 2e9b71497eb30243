"""deepnmt import and what it cannot import: a line each, and nothing written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import run_command
from support.published_model import dictionaries, known_state, saved
from torch import Tensor

command = functools.partial(run_command, "import")
LANGUAGES = ["--source-lang=a", "--target-lang=b"]
State = dict[str, Tensor]
SOURCE = "the state dict must hold all parameters of its model, but lacks "


def without(state: State, *parts: str) -> State:
    return {name: tensor for name, tensor in state.items() if not any(part in name for part in parts)}


def numbered_from_one(state: State) -> State:
    """The same with the norms of the histories numbered as in Wang's code."""

    def renamed(name: str) -> str:
        start, part, rest = name.partition("history.layer_norms.")
        return f"{start}{part}{int(rest[0]) + 1}{rest[1:]}" if part else name

    return {renamed(name): tensor for name, tensor in state.items()}


ROW = "encoder.history.weight"
# What is changed, what is given, and the lines.
FAULTS: dict[str, tuple[Callable[[State], Any], list[str], list[str]]] = {
    "unknown-names": (
        lambda s: {**s, "encoder.extra": torch.zeros(1), "decoder.layers.0.bias_k": torch.zeros(1)}, [],
        ["the state dict must hold known names only, but holds encoder.extra, decoder.layers.0.bias_k"],
    ),
    "missing-names": (
        lambda s: without(s, "encoder.layers.2.fc1", "decoder.history.layer_norms.1"), [],
        [SOURCE + "encoder.layers.2.fc1.weight, encoder.layers.2.fc1.bias, decoder.history.layer_norms.1.weight, "
         "decoder.history.layer_norms.1.bias"],
    ),
    "empty": (
        lambda s: {}, [],
        [SOURCE + "encoder.embed_tokens.weight, encoder.layers.0.fc1.weight, decoder.embed_tokens.weight, "
         "decoder.layers.0.fc1.weight"],
    ),
    "not-finite": (
        lambda s: {**s, "encoder.layers.0.fc1.bias": torch.full((8,), float("inf"))}, [],
        ["{path}: model.encoder.layers.0.fc1.bias must be finite numbers, but has NaN or infinity"],
    ),
    "whole-numbers": (
        lambda s: {**s, ROW: s[ROW].long()}, [],
        ["{path}: model." + ROW + " must be floating-point numbers, but is torch.int64"],
    ),
    "history-without-weights": (lambda s: without(s, ROW), [], [SOURCE + ROW]),
    "too-many-norms": (
        lambda s: {**s, "encoder.history.layer_norms.4.weight": torch.ones(8)}, [],
        ["the state dict must hold parameters of its model only, but holds encoder.history.layer_norms.4.weight"],
    ),
    "cross-attention-in-the-encoder": (
        lambda s: {**s, "encoder.layers.0.encoder_attn.in_proj_bias": torch.ones(24)}, [],
        ["the state dict must hold parameters of its model only, but holds encoder.layers.0.encoder_attn.in_proj_bias"],
    ),
    "twice": (
        lambda s: {**s, "encoder.layers.0.self_attn.k_proj.bias": torch.zeros(8)}, [],
        ["encoder.layers.0.self_attn.k_proj.bias and encoder.layers.0.self_attn.in_proj_bias must not both be given: "
         "they are the same parameter"],
    ),
    "shape": (
        lambda s: {**s, "decoder.layers.1.fc2.weight": torch.zeros(8, 11)}, [],
        ["decoder.layers.1.fc2.weight must give decoder.layers.1.fc2.weight as 8 x 12, but gives 8 x 11"],
    ),
    "no-three-projections": (
        lambda s: {**s, "encoder.layers.0.self_attn.in_proj_weight": torch.zeros(25, 8)}, [],
        ["encoder.layers.0.self_attn.in_proj_weight must be 3 projections in one, but is 25 x 8"],
    ),
    "no-square": (
        lambda s: {**s, ROW: torch.zeros(5, 4)}, [],
        [f"{ROW} must have as many columns as rows, and weights for each, but is 5 x 4"],
    ),
    "gap": (
        lambda s: {name.replace("encoder.layers.1.", "encoder.layers.5."): tensor for name, tensor in s.items()}, [],
        ["the encoder's layers must be numbered from 0 without gaps, but are 0, 2, 3, 5"],
    ),
    "even-distances": (
        lambda s: {**s, "decoder.layers.0.self_attn.relative_position_keys": torch.zeros(4, 4)}, [],
        ["decoder.layers.0.self_attn.relative_keys must be an odd number of distances x channels of a head, "
         "but is 4 x 4"],
    ),
    "values-in-one-stack": (
        lambda s: {**s, "decoder.layers.0.self_attn.relative_position_values": torch.zeros(5, 4)}, [],
        ["relative positions must have values in both stacks or in none, but have them in one"],
    ),
    "another-granularity": (
        lambda s: {**s, ROW: torch.zeros(5, 5, 8)}, [],
        ["both histories must have as many weights per output, but are vector and scalar"],
    ),
    "interleaved-in-a-code-that-has-no-such-weights": (
        lambda s: {**s, ROW: torch.zeros(5, 5, 2)}, [],
        [f"{ROW} must have one weight per output or one per channel; in Wang's code, with norms numbered from 1, "
         "a divisor of the 8 channels, but has 2"],
    ),
    "interleaved-by-no-divisor": (
        lambda s: {**numbered_from_one(s), ROW: torch.zeros(5, 5, 3)}, [],
        [f"{ROW} must have one weight per output or one per channel; in Wang's code, with norms numbered from 1, "
         "a divisor of the 8 channels, but has 3"],
    ),
    "a-norm-of-the-embedding": (
        lambda s: {**numbered_from_one(s), "encoder.history.layer_norms.0.weight": torch.ones(8)}, [],
        ["the state dict must hold parameters of its model only, but holds encoder.history.layer_norms.4.weight, "
         "encoder.history.layer_norms.4.bias"],
    ),
    "a-norm-missing-in-wangs-numbering": (
        lambda s: without(numbered_from_one(s), "encoder.history.layer_norms.4"), [],
        [SOURCE + "encoder.history.layer_norms.3.weight, encoder.history.layer_norms.3.bias"],
    ),
    "a-window-without-softmax": (
        lambda s: s, ["--dlcl-window=2"],
        ["--dlcl-window must be left out without --dlcl-softmax: there the published code's window sets initial "
         "weights alone, and the trained model reads all outputs"],
    ),
    "no-matrix": (
        lambda s: {**s, "encoder.embed_tokens.weight": torch.zeros(3)}, [],
        ["encoder.embed_tokens.weight must be a matrix, but is 3"],
    ),
    "ragged-groups": (
        lambda s: {**s, ROW: torch.zeros(4, 4)}, [],
        [f"--encoder-groups must be given: {ROW} is of 3 groups, for 4 layers"],
    ),
    "other-groups": (
        lambda s: s, ["--encoder-groups=2", "--decoder-groups=3"],
        [f"--encoder-groups must be of 4 groups, as {ROW} is, but is 2",
         "--decoder-groups must be from 1 to the depth, 2, but is 3"],
    ),
    "groups-of-a-plain-stack": (
        lambda s: without(s, "encoder.history"), ["--encoder-groups=1"],
        [f"--encoder-groups must be none without {ROW}, but is 1"],
    ),
    "what-is-not-said": (
        lambda s: without(s, "relative", "version", "_float"), [],
        [
            "--encoder-attention-heads must be given: only relative positions would tell it",
            "--encoder-norm must be given: without encoder.layer_norm.weight the encoder is post-norm, or pre-norm of "
            "an early version",
            "--decoder-attention-heads must be given: only relative positions would tell it",
            "--decoder-norm must be given: without decoder.layer_norm.weight the decoder is post-norm, or pre-norm of "
            "an early version",
            "--positions must be given: the state dict says nothing of absolute positions",
        ],
    ),
    "contradictions": (
        lambda s: {**s, "decoder.layer_norm.weight": torch.ones(8)},
        ["--encoder-attention-heads=4", "--encoder-norm=pre", "--decoder-norm=post", "--positions=none"],
        [
            "--encoder-attention-heads must be 2, as the relative positions say, but is 4",
            "--encoder-norm must be post without encoder.layer_norm.weight, but is pre: here its output is normalised",
            "--decoder-norm must be pre, since the state dict holds decoder.layer_norm.weight, but is post",
            "--positions must be left out, since the state dict has sinusoidal ones, but is none",
        ],
    ),
    "no-heads": (
        lambda s: without(s, "relative"), ["--encoder-attention-heads=-1", "--decoder-attention-heads=0"],
        ["--encoder-attention-heads must be at least 1 and at most 2147483647, but is -1",
         "--decoder-attention-heads must be at least 1 and at most 2147483647, but is 0"],
    ),
    "dictionary": (
        lambda s: {**s, "decoder.embed_tokens.weight": torch.zeros(15, 8)}, [],
        ["{data}/dict.b.txt must have the 15 types of decoder.embed_tokens.weight, special ones included, but has 14"],
    ),
    "no-tensor": (lambda s: {**s, "epoch": 3}, [], ["{path}: must be a state dict, but its entry epoch is a int"]),
    "a-list": (lambda s: [1], [], ["{path}: must be a state dict, names with their tensors, but is a list"]),
}  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    with pytest.raises(SystemExit, match=r"^2$"):
        command(*words)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert all(line.startswith("deepnmt import: error: ") for line in printed.err.splitlines())
    return [line[len("deepnmt import: error: ") :] for line in printed.err.splitlines()]


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_state_dicts_that_are_not_as_they_must_be(
    case: tuple[Callable[[State], Any], list[str], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change, words, lines = case
    data, path = dictionaries(tmp_path / "data", (14, 14)), saved(tmp_path / "in.pt", change(known_state()))
    found = refused(capsys, path, tmp_path / "out.pt", f"--data={data}", *LANGUAGES, *words)
    assert found == [line.format(data=data, path=path) for line in lines]
    assert not (tmp_path / "out.pt").exists()


def test_files_that_are_not_as_they_must_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out, data = (
        saved(tmp_path / "in.pt", known_state()),
        tmp_path / "out.pt",
        dictionaries(tmp_path / "data", (14, 14)),
    )
    (tmp_path / "cut.pt").write_bytes(path.read_bytes()[:1000])
    (tmp_path / "empty").mkdir()
    cases: list[tuple[list[object], str]] = [
        ([tmp_path / "no.pt", out, f"--data={data}"], f"{tmp_path / 'no.pt'}: no such state dict"),
        (
            [tmp_path / "cut.pt", out, f"--data={data}"],
            f"{tmp_path / 'cut.pt'}: must be a state dict, as torch.save writes it, but is truncated: ",
        ),
        ([path, path, f"--data={data}"], f"{path}: the new checkpoint must not be the old one"),
        (
            [path, tmp_path / "cut.pt", f"--data={data}"],
            f"{tmp_path / 'cut.pt'}: the new checkpoint exists already",
        ),
        (
            [path, out, f"--data={tmp_path / 'no'}"],
            f"{tmp_path / 'no'}: no folder with the model's dictionar",
        ),
        ([path, out, f"--data={data}"], f"--source-lang must be given, since {data} holds no data such as"),
        ([path, out, f"--data={data}", "--source-lang=a"], f"--target-lang must be given, since {data} holds no data"),
        (
            [path, out, f"--data={tmp_path / 'empty'}", *LANGUAGES],
            f"{tmp_path / 'empty'}: the dictionary dict.a",
        ),
        ([path, out], "the following arguments are required: --data (see --help)"),
    ]
    for words, start in cases:
        (line,) = refused(capsys, *words)
        assert line.startswith(start)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cut.pt", "data", "empty", "in.pt"]
