"""Shrinking a checkpoint: its tensors against tables written out here, its outputs against a slow forward pass."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from support.checkpoints import STACKS, checkpoint, config_of, model_of
from support.models import EXAMPLE, incremental_logits, logits
from support.slow import slow_but
from torch import Tensor

from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.checkpoints.shrink import Shrinking, shrink
from deepnmt.errors import UserError

SIX = {"encoder_layers": 6, "decoder_layers": 6}
# Of six layers, by the groups and what is kept: the new groups, the old output of each new one, the rows of W, where
# 31+32 is the sum of what stood in row 3 for outputs 1 and 2, and the old row of each.
HISTORY: dict[tuple[str, tuple[int, ...]], tuple[str, list[int], list[str]]] = {
    ("1", (1, 3, 5)): ("1", [0, 1, 3, 5], ["10", "30 31+32", "50 51+52 53+54", "70 71+72 73+74 75+76"]),
    ("1", (1, 2, 3)): ("1", [0, 1, 2, 3], ["10", "20 21", "30 31 32", "70 71 72 73+74+75+76"]),
    ("1", (2, 5, 6)): ("1", [0, 2, 5, 6], ["10", "50+51 52+53+54", "60+61 62+63+64 65", "70+71 72+73+74 75 76"]),
    ("1", (4,)): ("1", [0, 4], ["10", "70+71+72+73 74+75+76"]),
    ("2", (1, 3, 4, 6)): ("0,1,3,4", [0, 1, 2, 3], ["10", "20 21", "30 31 32", "40 41 42 43"]),
    ("2", (1, 2, 5, 6)): ("2", [0, 1, 3], ["10", "30 31+32", "40 41+42 43"]),
    ("3", (4, 5, 6)): ("3", [0, 2], ["10", "30+31 32"]),
    ("6", (1, 3, 5)): ("0,3", [0, 1], ["10", "20 21"]),
    ("0,1,4,6", (1, 5)): ("0,1,2", [0, 1, 3], ["10", "30 31+32", "40 41+42 43"]),
    ("none", (1, 4)): ("none", [], []),
}
EXTRAS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre-vector-relative": {
        "encoder_norm": "pre", "decoder_norm": "pre", "dlcl_granularity": "vector", "dlcl_embedding_norm": True,
        "encoder_max_relative_length": 2, "decoder_max_relative_length": 2,
    },
    "admin-merged": {"residual_scale": "admin", "merged_attention": True, "dlcl_granularity": "4"},
    "deepnorm-ssru": {"residual_scale": "deepnorm", "decoder_self_attention": "ssru"},
    "b2t-keys": {
        "encoder_norm": "b2t", "decoder_norm": "b2t", "encoder_max_relative_length": 2, "relative_positions": "keys",
        "dlcl_embedding_norm": True,
    },
    "deepnorm": {"residual_scale": "deepnorm", "share_all_embeddings": True},
    "no-norms": {"encoder_norm": "none", "decoder_norm": "none", "initializer": "t-fixup", "dlcl_freeze": True},
    "pre-softmax-window": {"encoder_norm": "pre", "decoder_norm": "pre", "dlcl_softmax": True, "dlcl_window": 2},
    "post-window": {"dlcl_window": 1},
    "pre-skip": {
        "encoder_norm": "pre", "decoder_norm": "pre", "encoder_skip": 0.4, "decoder_skip": 0.2,
        "skip_scale": "inference",
    },
    "post-softmax": {"dlcl_softmax": True, "dlcl_granularity": "vector"},
}  # fmt: skip


def remaining(extra: dict[str, Any], groups: str) -> dict[str, Any]:
    """Without the options that make no sense in a plain stack."""
    return {key: value for key, value in extra.items() if groups != "none" or not key.startswith("dlcl_")}


def deep(groups: str, extra: str, **more: Any) -> dict[str, Any]:
    """A checkpoint with six layers a stack, in double precision."""
    options = {**SIX, "encoder_groups": groups, "decoder_groups": groups, **remaining(EXTRAS[extra], groups), **more}
    state = checkpoint(**options)
    return {**state, "model": {name: tensor.double() for name, tensor in state["model"].items()}}


def expected_weight(old: Tensor, rows: list[str]) -> Tensor:
    new = old.new_zeros(len(rows), len(rows), old.size(2))
    for row, text in enumerate(rows):
        for column, numbers in enumerate(text.split()):
            new[row, column] = sum(old[int(number[0]) - 1, int(number[1])] for number in numbers.split("+"))
    return new


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("stacks", [STACKS, STACKS[:1], STACKS[1:]], ids="+".join)
@pytest.mark.parametrize(("groups", "kept"), HISTORY, ids=str)
def test_which_tensor_becomes_which(groups: str, kept: tuple[int, ...], stacks: tuple[str, ...], norm: str) -> None:
    state = deep(groups, "post", encoder_norm=norm, decoder_norm=norm)
    before = {name: tensor.clone() for name, tensor in state["model"].items()}
    shrunk, _ = shrink(state, Shrinking(keep=dict.fromkeys(stacks, kept)))
    now, outputs, rows = HISTORY[groups, kept]
    # Pre-norm, an LN belongs to an output; post-norm to a row, LN 1 to the second.
    norms = outputs[1:] if norm == "pre" else [int(row[0]) - 1 for row in rows[1:]]
    expected = {}
    for name, tensor in before.items():
        found = re.fullmatch(r"(encoder|decoder)\.(layers|history\.layer_norms)\.(\d+)\.(.+)", name)
        if name in [f"{stack}.history.weight" for stack in stacks]:
            expected[name] = expected_weight(tensor, rows)
        elif found is None or found[1] not in stacks:
            expected[name] = tensor
        else:
            for new, old in enumerate(kept if found[2] == "layers" else norms):
                if old - 1 == int(found[3]):
                    expected[f"{found[1]}.{found[2]}.{new}.{found[4]}"] = tensor
    assert shrunk["model"].keys() == expected.keys()
    for name, tensor in shrunk["model"].items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-14, msg=name)
    for stack in STACKS:
        options = shrunk["cfg"]["model"]
        depth = (len(kept), now) if stack in stacks else (6, groups)
        assert (options[f"{stack}_layers"], options[f"{stack}_groups"]) == depth
    # The old one is as it was, and nothing else of it has changed.
    assert all(torch.equal(tensor, before[name]) for name, tensor in state["model"].items())
    changed = {name for name in options if options[name] != state["cfg"]["model"][name]}
    assert changed <= {f"{stack}_{name}" for stack in stacks for name in ("layers", "groups")}


def slow_stack(model: Any, config: Any, stack: str, kept: tuple[int, ...], encoded: Any = None) -> Tensor:
    """The output, T x B x C, of one stack of a deep model, where only some layers are run.

    Rows read the nearest output below in the place of one that is not there.
    """
    own, padding = getattr(model, stack), EXAMPLE["src_tokens"].eq(1)
    if stack == "encoder":
        x = (own.forward_embedding(EXAMPLE["src_tokens"])[0] * ~padding.unsqueeze(-1)).transpose(0, 1)
    else:
        x = own._embed(EXAMPLE["prev_output_tokens"], None)[0]
    factors = own.skipping.draw() if own.skipping is not None else None

    def run(layer: int, x: Tensor) -> Tensor:
        chosen = {} if factors is None else {"factors": factors[layer - 1]}
        if stack == "encoder":
            return own.layers[layer - 1](x, padding, **chosen)
        chosen |= {"self_attn_mask": own.buffered_future_mask(x)}
        chosen |= {"self_attn_padding_mask": EXAMPLE["prev_output_tokens"].eq(1)}
        return own.layers[layer - 1](x, encoded, padding, **chosen)[0]

    boundaries, history = config.stack(stack).boundaries, own.history
    pre = config.norm(stack).name in ("pre", "none")
    if boundaries is None:
        for layer in kept:
            x = run(layer, x)
    else:

        def norm(number: int, x: Tensor) -> Tensor:
            module = history.embedding_norm if number == 0 else history.layer_norms[number - 1]
            return x if module is None else module(x)

        outputs = [norm(0, x) if pre else x]
        width, slices = outputs[0].size(-1), history.weight.size(-1)

        def read(row: int, last: int) -> Tensor:
            """The input of group `row`, where `last` is the number of outputs that the row has."""
            first = max(0, row - config.dlcl_window) if config.dlcl_window else 0
            weight = history.weight[row - 1, first:row]
            weight = weight.softmax(dim=0) if config.dlcl_softmax else weight
            weight = weight.repeat_interleave(width // slices, dim=1)
            total = sum(w * outputs[k] for k, w in enumerate(weight, start=first))
            assert isinstance(total, Tensor)
            return total if pre else norm(last, total)

        begun = False
        for group, (low, high) in enumerate(zip(boundaries, boundaries[1:]), start=1):
            layers = [layer for layer in kept if low < layer <= high]
            if not layers:
                outputs.append(outputs[-1])
                continue
            # The first row reads the embedding alone, whichever group comes first.
            x, begun = read(group, group - 1) if begun else read(1, 0), True
            for layer in layers:
                x = run(layer, x)
            outputs.append(norm(group, x) if pre else x)
        x = read(len(boundaries), len(boundaries) - 1)
    return x if own.layer_norm is None else own.layer_norm(x)


@pytest.mark.parametrize("extra", slow_but([*EXTRAS][::2], EXTRAS))
@pytest.mark.parametrize(
    ("groups", "kept"),
    [
        ("1", (1, 3, 5)),
        ("1", (2, 5, 6)),
        ("1", (1, 2, 3, 6)),
        ("2", (1, 3, 4, 6)),
        ("0,1,4,6", (1, 5)),
        ("none", (1, 4)),
    ],
    ids=str,
)
@torch.no_grad()
def test_what_the_shallower_model_computes(groups: str, kept: tuple[int, ...], extra: str) -> None:
    state = deep(groups, extra)
    deeper, config = model_of(state, torch.float64), config_of(state)
    shrunk, _ = shrink(state, Shrinking(keep=dict.fromkeys(STACKS, kept)))
    shallower = model_of(shrunk, torch.float64)
    assert list(shallower.state_dict()) == list(shrunk["model"])

    encoded = slow_stack(deeper, config, "encoder", kept)
    expected = slow_stack(deeper, config, "decoder", kept, encoded)
    expected = deeper.decoder.output_layer(expected.transpose(0, 1))
    real = EXAMPLE["prev_output_tokens"].ne(1)
    full = logits(shallower, EXAMPLE)
    # Up to the epsilon of the norms, where DeepNorm has another scale.
    torch.testing.assert_close(full[real], expected[real], rtol=0, atol=1e-5)
    stepwise = incremental_logits(shallower, EXAMPLE)
    torch.testing.assert_close(stepwise[real], full[real], rtol=1e-5, atol=2e-5)


UNDONE = [
    *(
        ("interleave", groups, norm, softmax)
        for groups in ("1", "0,1,3")
        for norm in ("pre", "post")
        for softmax in (0, 1)
    ),
    *(("interleave", "none", norm, 0) for norm in ("pre", "post")),
    *((strategy, "1", norm, 0) for strategy in ("stack", "top", "repeat-top") for norm in ("pre", "post")),
    ("stack", "none", "pre", 0),
]


@pytest.mark.parametrize(("strategy", "groups", "norm", "softmax"), UNDONE)
def test_shrinking_undoes_growing(strategy: str, groups: str, norm: str, softmax: int) -> None:
    given = {"encoder_groups": groups, "encoder_norm": norm, "dlcl_softmax": bool(softmax)}
    state = checkpoint(encoder_layers=3, decoder_layers=1, **given)
    if groups != "none":
        # Growth drops what no row reads.
        lower = state["model"]["encoder.history.weight"].squeeze(-1).tril().unsqueeze(-1)
        state["model"] = {**state["model"], "encoder.history.weight": lower}
    between = strategy == "interleave"
    # On top of the old layers, growth leaves the old output row the output row if nothing is to read the new ones.
    grown, _ = grow(state, Growth({"encoder": 6}, strategy=strategy, function_preserving=not between))
    shrunk, _ = shrink(grown, Shrinking(every={"encoder": 2}) if between else Shrinking(keep={"encoder": (1, 2, 3)}))
    assert shrunk["model"].keys() == state["model"].keys()
    for name, tensor in shrunk["model"].items():
        torch.testing.assert_close(tensor, state["model"][name], rtol=1e-6, atol=1e-6, msg=name)
    values = shrunk["cfg"]["model"]
    assert (values["encoder_layers"], values["encoder_groups"]) == (3, groups)


def test_every_keeps_the_first_of_each_so_many() -> None:
    for n, kept in ((2, "1 3 5"), (3, "1 4"), (4, "1 5"), (5, "1 6"), (6, "1")):
        _, lines = shrink(deep("1", "post"), Shrinking(every={"encoder": n}))
        found = [re.fullmatch(r"encoder layer \d <- layer (\d)", line) for line in lines]
        assert " ".join(match[1] for match in found if match) == kept


def test_rows_keep_their_sums() -> None:
    state = deep("1", "pre-vector-relative")
    shrunk, _ = shrink(state, Shrinking(every={"encoder": 3}))
    old, new = (s["model"]["encoder.history.weight"] for s in (state, shrunk))
    for row, source in ((0, 0), (1, 3), (2, 6)):
        torch.testing.assert_close(new[row].sum(0), old[source, : source + 1].sum(0), rtol=0, atol=1e-14)
        assert new[row, row + 1 :].eq(0).all()


def test_half_precision_stays_and_is_added_up_in_single() -> None:
    state = deep("1", "post-softmax")
    half = {name: tensor.half() for name, tensor in state["model"].items()}
    shrunk, _ = shrink({**state, "model": half}, Shrinking(keep={"encoder": (6,), "decoder": (4,)}))
    assert {tensor.dtype for tensor in shrunk["model"].values()} == {torch.float16}
    for stack, below in (("encoder", 6), ("decoder", 4)):
        row = half[f"{stack}.history.weight"][6].double()
        expected = torch.stack([row[:below].logsumexp(dim=0), row[below:].logsumexp(dim=0)])
        assert torch.equal(shrunk["model"][f"{stack}.history.weight"][1], expected.half())


def test_moving_averages_shrink_too_and_the_best_score_is_forgotten() -> None:
    state = deep("1", "post")
    other = {name: tensor + 1 for name, tensor in state["model"].items()}
    state["extra_state"] |= {"ema": state["model"], "ema_fp32_params": other, "best": 31.5}
    shrunk, lines = shrink(state, Shrinking(every={"decoder": 2}))
    expected, _ = shrink({**state, "model": other}, Shrinking(every={"decoder": 2}))
    extra = shrunk["extra_state"]
    for average, model in ((extra["ema"], shrunk["model"]), (extra["ema_fp32_params"], expected["model"])):
        assert average.keys() == model.keys()
        assert all(torch.equal(average[name], model[name]) for name in model)
    assert extra["train_iterator"] == {"epoch": 3, "iterations_in_epoch": 5}
    assert "best" not in extra
    assert state["extra_state"]["best"] == 31.5
    assert lines[-3:] == [
        "moving average of the model: as the model",
        "best validation score: forgotten, since it belongs to the deeper model",
        "optimizer: none in the checkpoint; a training from it counts its updates from 0",
    ]


def test_says_what_it_did() -> None:
    state = deep("1", "deepnorm", encoder_layers=4, decoder_layers=2, dlcl_window=2, decoder_groups="none")
    _, lines = shrink(state, Shrinking(keep={"encoder": [1, 2, 4]}))
    # 0.81 (4^4 2)^(1/16) = 1.196 and 0.81 (3^4 2)^(1/16) = 1.113
    assert lines[:-1] == [
        "encoder layers: 4 -> 3",
        "encoder groups: 1 -> 1",
        "encoder layer 1 <- layer 1",
        "encoder layer 2 <- layer 2",
        "encoder layer 3 <- layer 4",
        "encoder DeepNorm scale: 1.196 -> 1.113, made up for in the last projection of each sublayer",
        "encoder history row 1 <- row 1, weights of 0",
        "encoder history row 2 <- row 2, weights of 0, 1",
        "encoder history row 3 <- row 4, weights of none, 2+3",
        "encoder history row 4 <- row 5, weights of 3, 4",
        "encoder history norm 1 <- norm 1",
        "encoder history norm 2 <- norm 3",
        "encoder history norm 3 <- norm 4",
    ]
    b2t = deep("none", "b2t-keys", residual_scale="deepnorm", encoder_layers=4, decoder_layers=2)
    shrunk, lines = shrink(b2t, Shrinking(every={"decoder": 2}))
    # 0.81 (4^4 1)^(1/16) = 1.146; (3 2)^(1/4) and (3 1)^(1/4)
    assert lines[0] == "encoder DeepNorm scale: 1.196 -> 1.146"
    assert lines[4] == "decoder DeepNorm scale: 1.565 -> 1.316"
    assert torch.equal(shrunk["model"]["encoder.layers.0.fc2.weight"], b2t["model"]["encoder.layers.0.fc2.weight"])


def test_that_cannot_be_kept() -> None:
    for shrinking, message in (
        (
            Shrinking(keep={"encoder": (1,)}, every={"encoder": 2}),
            "--encoder-keep and --encoder-every exclude each other",
        ),
        (Shrinking(keep={"encoder": ()}), "--encoder-keep must name layers in their order, each once, but is ''"),
        (Shrinking(every={"encoder": 0}), "--encoder-every must be from 2 to the present depth, 6, but is 0"),
    ):
        with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
            shrink(deep("1", "post"), shrinking)
