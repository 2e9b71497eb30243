"""Merged attention against equation (12), written out here with the matrix A and a loop over each head and position."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor

from deepnmt.model.merged_attention import MergedAttention

HEADS, WIDTH, SOURCE, TARGET, BATCH = 2, 6, 4, 5, 3
# True is padding. No position of these is padded in the second sentence.
SOURCE_PADDING = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 1]]).bool()
TARGET_PADDING = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]).bool()
PADDING = {
    "none": (None, None),
    "right": (SOURCE_PADDING, TARGET_PADDING),
    "left": (SOURCE_PADDING.flip(1), TARGET_PADDING.flip(1)),
    "bytes": (SOURCE_PADDING.byte(), TARGET_PADDING.byte()),
}


def attention(dropout: float = 0.0, dtype: torch.dtype = torch.float64) -> MergedAttention:
    """In training mode, with random parameters, biases too."""
    torch.manual_seed(3)
    module = MergedAttention(WIDTH, HEADS, dropout=dropout)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.to(dtype)


def passing(module: MergedAttention) -> MergedAttention:
    """Wv and Wo as identities; the cross-attention is uniform."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        for projection in (module.v_proj, module.out_proj):
            projection.weight.copy_(torch.eye(module.embed_dim))
    return module


def inputs(seed: int = 5) -> tuple[Tensor, Tensor]:
    """Target T x B x C and source S x B x C."""
    torch.manual_seed(seed)
    return torch.randn(TARGET, BATCH, WIDTH).double(), torch.randn(SOURCE, BATCH, WIDTH).double()


def project(linear: Any, x: Tensor) -> Tensor:
    return x @ linear.weight.double().t() + linear.bias.double()


def mean_matrix(padding: list[bool]) -> Tensor:
    """A of (12), T x T, where the padded positions are left out."""
    matrix = torch.zeros(len(padding), len(padding)).double()
    for j in range(len(padding)):
        real = [i for i in range(j + 1) if not padding[i]]
        for i in real:
            matrix[j, i] = 1 / len(real)
    return matrix


def reference(
    module: MergedAttention, x: Tensor, source: Tensor, source_padding: Tensor | None, target_padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Output T x B x C and probabilities H x B x T x S of (12), in float64."""
    x, source = x.double(), source.double()
    (length, batch, _), size = x.shape, WIDTH // HEADS
    q, target_values = project(module.q_proj, x), project(module.v_proj, x)
    k, v = project(module.k_proj, source), project(module.v_proj, source)
    inner = torch.zeros_like(x)
    weights = torch.zeros(HEADS, batch, length, len(source)).double()
    for b in range(batch):
        padding = [False] * length if target_padding is None else target_padding[b].bool().tolist()
        inner[:, b] = mean_matrix(padding) @ target_values[:, b]
        keys = [s for s in range(len(source)) if source_padding is None or not source_padding[b, s]]
        for h in range(HEADS):
            head = slice(h * size, (h + 1) * size)
            for t in range(length):
                scores = torch.stack([q[t, b, head] @ k[s, b, head] / math.sqrt(size) for s in keys])
                for s, weight in zip(keys, scores.exp() / scores.exp().sum()):
                    weights[h, b, t, s] = weight
                    inner[t, b, head] += weight * v[s, b, head]
    return project(module.out_proj, inner), weights


def test_matrix_is_the_mean_so_far() -> None:
    expected = torch.tensor([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
    torch.testing.assert_close(mean_matrix([False] * 3), expected)
    expected = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 1 / 2, 1 / 2]]).double()
    torch.testing.assert_close(mean_matrix([True, False, False]), expected)


@pytest.mark.parametrize("padding", PADDING)
def test_attention_equals_formula(padding: str) -> None:
    module, (x, source) = attention(), inputs()
    masks = PADDING[padding]
    with torch.no_grad():
        expected, weights = reference(module, x, source, *masks)
        for options, wanted in (
            ({}, weights.mean(0)),
            ({"need_head_weights": True}, weights),
            ({"need_weights": False, "need_head_weights": True}, weights),
            ({"need_weights": False}, None),
        ):
            out, got = module(x, source, *masks, **options)
            torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
            if wanted is None:
                assert got is None
            else:
                torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


def test_later_and_padded_positions_are_not_seen() -> None:
    module, (x, source) = attention(), inputs()
    other = x.clone()
    other[3:, 0] = 50.0  # only position 4 is padding
    other[2:, 2] = float("nan")  # all padding
    out, changed = (module(y, source, SOURCE_PADDING, TARGET_PADDING)[0] for y in (x, other))
    torch.testing.assert_close(changed[:3, 0], out[:3, 0])
    torch.testing.assert_close(changed[:, 1], out[:, 1])
    torch.testing.assert_close(changed[:2, 2], out[:2, 2])
    assert (changed[3, 0] - out[3, 0]).abs().max() > 1.0


def test_empty_source_sentence_leaves_the_others_alone() -> None:
    module, (x, source) = attention(), inputs()
    padding = SOURCE_PADDING.clone()
    padding[0] = True
    out, weights = module(x, source, padding)
    expected = reference(module, x[:, 1:], source[:, 1:], padding[1:], None)[0]
    torch.testing.assert_close(out[:, 1:], expected, rtol=0, atol=1e-12)
    assert weights[1:].isfinite().all()


def test_parameters_and_initial_values_are_those_of_fairseq() -> None:
    torch.manual_seed(1)
    stock = MultiheadAttention(WIDTH, HEADS, kdim=WIDTH, vdim=WIDTH, encoder_decoder_attention=True).state_dict()
    torch.manual_seed(1)
    ours = MergedAttention(WIDTH, HEADS, kdim=WIDTH, vdim=WIDTH).state_dict()
    assert list(ours) == list(stock)
    assert len(ours) == 8
    for name, value in stock.items():
        assert torch.equal(ours[name], value), name


@pytest.mark.parametrize("name", ["kdim", "vdim"])
def test_widths_must_be_equal(name: str) -> None:
    with pytest.raises(ValueError, match="the encoder's width must be the decoder's, 6, but is 8"):
        MergedAttention(WIDTH, HEADS, **{name: 8})


def test_gradients() -> None:
    module, (x, source) = attention(), inputs()
    x, source = x[:3].requires_grad_(), source.requires_grad_()
    parameters = list(module.parameters())
    padding = (SOURCE_PADDING, torch.tensor([[1, 0, 0], [0, 0, 0], [0, 0, 1]]).bool())

    def outputs(x: Tensor, source: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        out, weights = module(x, source, *padding)
        return out, weights

    assert torch.autograd.gradcheck(outputs, (x, source, *parameters))


def test_dropout_is_on_the_probabilities_and_in_training_only() -> None:
    copies, size = 200, WIDTH // HEADS
    module = passing(attention(dropout=0.5))
    x, source = inputs()
    x, source = x[:2, :1].expand(-1, copies, -1), source[:1, :1].expand(-1, copies, -1)
    mean = torch.stack([x[0], (x[0] + x[1]) / 2])
    # Of a single source position, each head takes all or, dropped, nothing.
    out, weights = module(x, source)
    taken = ((out - mean) / source).view(2, copies, HEADS, size)
    torch.testing.assert_close(taken, taken.round(), rtol=0, atol=1e-12)
    assert set(taken.round().flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(taken.round(), taken[..., :1].round().expand_as(taken))
    assert 0.4 < taken.mean() / 2 < 0.6
    assert torch.equal(weights, torch.ones(copies, 2, 1).double())
    torch.testing.assert_close(module.eval()(x, source)[0], mean + source)


@pytest.mark.parametrize("chunks", [[1] * TARGET, [3, 1, 1], [1, 4], [TARGET]], ids=str)
@pytest.mark.parametrize("padding", PADDING)
def test_incremental_equals_full(padding: str, chunks: list[int]) -> None:
    module, (x, source) = attention().eval(), inputs()
    source_padding, target_padding = PADDING[padding]
    state: dict[str, dict[str, Tensor | None]] = {}
    end = 0
    with torch.no_grad():
        expected, weights = reference(module, x, source, source_padding, target_padding)
        for chunk in chunks:
            start, end = end, end + chunk
            part = None if target_padding is None else target_padding[:, start:end]
            out, got = module(x[start:end], source, source_padding, part, state, need_head_weights=True)
            torch.testing.assert_close(out, expected[start:end], rtol=0, atol=1e-12)
            torch.testing.assert_close(got, weights[:, :, start:end], rtol=0, atol=1e-12)


def test_source_is_projected_once() -> None:
    module, (x, source) = attention().eval(), inputs()
    state: dict[str, dict[str, Tensor | None]] = {}
    seen: list[int] = []
    module.k_proj.register_forward_hook(lambda _module, args, _out: seen.append(len(args[0])))
    expected = reference(module, x, source, SOURCE_PADDING, None)[0]
    for step in range(TARGET):
        out, _ = module(x[step : step + 1], source if step == 0 else None, SOURCE_PADDING, incremental_state=state)
        torch.testing.assert_close(out, expected[step : step + 1], rtol=0, atol=1e-12)
    assert seen == [SOURCE]


@pytest.mark.parametrize("shared", [False, True], ids=["own keys", "keys shared by a beam"])
@pytest.mark.parametrize("seed", range(4))
def test_reordering_equals_decoding_the_reordered_prefix(seed: int, shared: bool) -> None:
    """Beam search over 3 sentences: hypotheses change places at each step, and sentences are finished in turn."""
    beam = 2
    module = attention().eval()
    if shared:
        module.set_beam_size(beam)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(TARGET, BATCH * beam, WIDTH, generator=generator).double()
    source = inputs(seed)[1].repeat_interleave(beam, dim=1)
    source_padding = SOURCE_PADDING.repeat_interleave(beam, dim=0)
    # Hypotheses of differing lengths, as with a prefix that was padded on the left.
    target_padding = torch.zeros(BATCH * beam, TARGET).bool()
    target_padding[1, :2] = target_padding[4, :1] = True
    state: dict[str, dict[str, Tensor | None]] = {}
    sentences = [[0, 1, 2], [0, 1, 2], [0, 2], [0, 1], [1]]  # of those before the step, the ones that remain
    sizes = []
    for step, remaining in enumerate(sentences):
        if step:
            chosen = torch.randint(beam, (len(remaining), beam), generator=generator)
            order = (torch.tensor(remaining).unsqueeze(1) * beam + chosen).flatten()
            module.reorder_incremental_state(state, order)
            x, source = x[:, order], source[:, order]
            source_padding, target_padding = source_padding[order], target_padding[order]
        part = target_padding[:, step : step + 1]
        out, weights = module(x[step : step + 1], source, source_padding, part, state)
        expected, expected_weights = reference(
            module, x[: step + 1], source, source_padding, target_padding[:, : step + 1]
        )
        torch.testing.assert_close(out, expected[step:], rtol=0, atol=1e-12)
        torch.testing.assert_close(weights, expected_weights.mean(0)[:, step:], rtol=0, atol=1e-12)
        keys = next(entry["prev_key"] for entry in state.values() if "prev_key" in entry)
        assert keys is not None
        sizes.append(len(keys))
    assert sizes == [len(remaining) * (1 if shared else beam) for remaining in sentences]


def test_any_order_when_the_batch_changes_its_size() -> None:
    module, (x, source) = attention().eval(), inputs()
    for order in (torch.tensor([2, 0]), torch.tensor([1]), torch.tensor([2, 2, 0, 1, 0])):
        state: dict[str, dict[str, Tensor | None]] = {}
        module(x[:3], source, SOURCE_PADDING, TARGET_PADDING[:, :3], state)
        module.reorder_incremental_state(state, order)
        out = module(x[3:, order], None, None, TARGET_PADDING[order, 3:], state)[0]
        expected = reference(module, x[:, order], source[:, order], SOURCE_PADDING[order], TARGET_PADDING[order])[0]
        torch.testing.assert_close(out, expected[3:], rtol=0, atol=1e-12)


def test_reordering_before_the_first_step_is_harmless() -> None:
    module, (x, source) = attention().eval(), inputs()
    state: dict[str, dict[str, Tensor | None]] = {}
    module.reorder_incremental_state(state, torch.tensor([0, 0, 1]))
    out = module(x, source, incremental_state=state)[0]
    torch.testing.assert_close(out, reference(module, x, source, None, None)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("first", [1, 10])
def test_state_does_not_grow(dtype: torch.dtype, first: int) -> None:
    module, (_, source) = attention(dtype=dtype).eval(), inputs()
    state: dict[str, dict[str, Tensor | None]] = {}
    sizes = []
    for steps in [first] + [1] * 20:
        x = torch.randn(steps, BATCH, WIDTH).to(dtype)
        module(x, source.to(dtype), SOURCE_PADDING, incremental_state=state)
        module.reorder_incremental_state(state, torch.arange(BATCH))
        tensors = {name: tensor for entry in state.values() for name, tensor in entry.items() if tensor is not None}
        sizes.append({name: (tuple(t.shape), t.untyped_storage().nbytes()) for name, t in tensors.items()})
    assert all(size == sizes[0] for size in sizes)
    kept = torch.float64 if dtype == torch.float64 else torch.float32
    assert tensors["sum"].dtype == tensors["count"].dtype == kept
    assert sizes[0]["sum"] == ((BATCH, WIDTH), BATCH * WIDTH * kept.itemsize)
    assert sizes[0]["count"] == ((BATCH, 1), BATCH * kept.itemsize)
    for name in ("prev_key", "prev_value"):
        shape = (BATCH, HEADS, SOURCE, WIDTH // HEADS)
        assert sizes[0][name] == (shape, math.prod(shape) * dtype.itemsize)


def test_state_after_a_prefix_holds_no_more_than_after_a_step() -> None:
    module, (_, source) = attention().eval(), inputs()
    state: dict[str, dict[str, Tensor | None]] = {}
    module(torch.randn(50, BATCH, WIDTH).double(), source, incremental_state=state)
    mean = next(entry for entry in state.values() if "sum" in entry)
    assert {name: t.untyped_storage().nbytes() for name, t in mean.items() if t is not None} == {
        "sum": BATCH * WIDTH * 8,
        "count": BATCH * 8,
    }


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("padding", ["none", "left"])
def test_half_precision_agrees(padding: str, dtype: torch.dtype) -> None:
    module, (x, source) = attention(dtype=dtype), inputs()
    x, source = x.to(dtype), source.to(dtype)
    masks = PADDING[padding]
    with torch.no_grad():
        expected, weights = reference(module, x, source, *masks)
        out, got = module(x, source, *masks, need_head_weights=True)
        assert out.dtype == dtype
        assert got.dtype == torch.float32  # as fairseq's attention
        bound = 4 * torch.finfo(dtype).eps  # a handful of roundings of values about 1
        torch.testing.assert_close(out.double(), expected, rtol=bound, atol=bound)
        torch.testing.assert_close(got.double(), weights, rtol=0, atol=bound)


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_mean_of_10000_positions_in_half_precision(dtype: torch.dtype, incremental: bool) -> None:
    length, half = 10_000, 5_000
    module = passing(MergedAttention(WIDTH, HEADS)).to(dtype).eval()
    torch.manual_seed(2)
    x = (30_000 + 1_000 * torch.randn(length, 1, WIDTH)).to(dtype)
    source = torch.zeros(1, 1, WIDTH, dtype=dtype)
    expected = x.double().cumsum(0) / torch.arange(1, length + 1).double().view(-1, 1, 1)
    with torch.no_grad():
        if incremental:
            state: dict[str, dict[str, Tensor | None]] = {}
            parts = [x[:half], *x[half : half + 50].split(1), x[half + 50 :]]
            out = torch.cat([module(part, source, incremental_state=state)[0] for part in parts])
        else:
            out = module(x, source)[0]
    # One rounding at the end, half a unit in the last place, and float32's own error.
    bound = 0.51 * torch.finfo(dtype).eps
    torch.testing.assert_close(out.double(), expected, rtol=bound, atol=0)
