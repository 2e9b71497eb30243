"""Growing a checkpoint: its tensors against tables written out here."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from support.checkpoints import STACKS, checkpoint, model_of
from support.models import EXAMPLE, incremental_logits, logits
from support.slow import slow_but
from torch import Tensor

from deepnmt.checkpoints.grow import Growth, grow

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
    "average": {"decoder_self_attention": "average", "average_attention_ffn": True},
    "ssru": {"decoder_self_attention": "ssru"},
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


PLAIN = [(*case, "none") for case in HISTORY]
OTHER = [("1", "stack", extra) for extra in EXTRAS]


# A third of them has each grouping and each strategy.
@pytest.mark.parametrize(("groups", "strategy", "extra"), slow_but([*PLAIN[::3], *OTHER], [*PLAIN, *OTHER[1:]]))
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
