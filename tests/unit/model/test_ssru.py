"""SSRU against equation (45), written out here as a loop over the positions in float64."""

from __future__ import annotations

import pytest
import torch
from support.models import EXAMPLE, build, incremental_logits, logits
from torch import Tensor, nn

from deepnmt.model.ssru import SSRU

WIDTH, LENGTH, BATCH = 6, 5, 3
PADDING = {
    "none": None,
    "right": torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]).bool(),
    "left": torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0]]).byte(),
}
SSRU_OPTIONS = {"decoder_self_attention": "ssru"}


def unit(dtype: torch.dtype = torch.float64) -> SSRU:
    torch.manual_seed(3)
    module = SSRU(WIDTH, nn.Linear)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.to(dtype)


def inputs(length: int = LENGTH) -> Tensor:
    torch.manual_seed(5)
    return torch.randn(length, BATCH, WIDTH, dtype=torch.float64)


def reference(module: SSRU, x: Tensor, padding: Tensor | None = None) -> Tensor:
    weight, gate, bias = (each.double() for each in (module.v_proj.weight, *module.forget_proj.parameters()))
    found = torch.zeros_like(x)
    for sentence in range(x.size(1)):
        c = x.new_zeros(WIDTH)
        for t in range(len(x)):
            if padding is None or not padding[sentence, t]:
                f = 1 / (1 + (-(gate @ x[t, sentence] + bias)).exp())
                c = f * c + (1 - f) * (weight @ x[t, sentence])
            found[t, sentence] = c.clamp(min=0)
    return found


@pytest.mark.parametrize("padding", PADDING)
def test_equals_the_formula(padding: str) -> None:
    module, x = unit(), inputs()
    found, weights = module(x, x, x, PADDING[padding])
    torch.testing.assert_close(found, reference(module, x, PADDING[padding]), rtol=0, atol=1e-14)
    assert weights is None


def test_one_bias_in_the_gate_alone() -> None:
    assert {name: tuple(each.shape) for name, each in unit().named_parameters()} == {
        "v_proj.weight": (WIDTH, WIDTH),
        "forget_proj.weight": (WIDTH, WIDTH),
        "forget_proj.bias": (WIDTH,),
    }


def test_no_output_sees_a_later_input() -> None:
    module, x = unit(), inputs().requires_grad_()
    for t in range(LENGTH):
        (gradient,) = torch.autograd.grad(module(x)[0][t].sum(), x)
        assert not gradient[t + 1 :].any()
        assert gradient[: t + 1].abs().amax(dim=(1, 2)).gt(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_half_precision_stays_near_at_a_thousand_positions(dtype: torch.dtype) -> None:
    module, x = unit(dtype), inputs(1000)
    with torch.no_grad():
        # Gates near 1, as sums of many small terms.
        module.forget_proj.bias.fill_(4)
        module.forget_proj.weight.mul_(0.1)
        found, expected = module(x.to(dtype))[0], reference(module, x.to(dtype).double())
    assert found.dtype == dtype
    allowed = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}[dtype]
    assert (found.double() - expected).abs().max() < allowed * expected.abs().max()


@pytest.mark.parametrize("chunks", [[1] * LENGTH, [3, 1, 1], [LENGTH]], ids=str)
@pytest.mark.parametrize("padding", PADDING)
def test_incremental_equals_full(padding: str, chunks: list[int]) -> None:
    module, x, mask = unit(), inputs(), PADDING[padding]
    state: dict[str, dict[str, Tensor | None]] = {}
    expected, end = reference(module, x, mask), 0
    for chunk in chunks:
        start, end = end, end + chunk
        part = None if mask is None else mask[:, start:end]
        found = module(x[start:end], key_padding_mask=part, incremental_state=state)[0]
        torch.testing.assert_close(found, expected[start:end], rtol=0, atol=1e-14)
    assert [tuple(each.shape) for kept in state.values() for each in kept.values()] == [(BATCH, WIDTH)]


@pytest.mark.parametrize("order", [[2, 0, 1], [1], [2, 2, 0, 1, 0]], ids=str)
def test_reordering_equals_decoding_the_reordered_prefix(order: list[int]) -> None:
    module, x = unit(), inputs()
    state: dict[str, dict[str, Tensor | None]] = {}
    module.reorder_incremental_state(state, torch.tensor([0, 0]))  # before the first step, nothing is kept
    module(x[:3], incremental_state=state)
    module.reorder_incremental_state(state, torch.tensor(order))
    found = module(x[3:, order], incremental_state=state)[0]
    torch.testing.assert_close(found, reference(module, x[:, order])[3:], rtol=0, atol=1e-14)


def test_a_model_decodes_as_it_trains_and_keeps_no_keys() -> None:
    model = build(SSRU_OPTIONS)
    real = EXAMPLE["prev_output_tokens"].ne(1)
    stepwise, full = incremental_logits(model, EXAMPLE), logits(model, EXAMPLE)
    # fairseq's cross-attention has a softmax in float32.
    torch.testing.assert_close(stepwise[real], full[real], rtol=0, atol=1e-6)
    names = [name for name in model.state_dict() if name.startswith("decoder.layers.0.self_attn.")]
    assert sorted(name.removeprefix("decoder.layers.0.self_attn.") for name in names) == [
        *("forget_proj.bias", "forget_proj.weight", "v_proj.weight")
    ]


def test_initial_values() -> None:
    torch.manual_seed(1)
    from support.models import SIZE, task

    from deepnmt.model.config import DLCLTransformerConfig
    from deepnmt.model.transformer import DLCLTransformerModel

    config = DLCLTransformerConfig(**{**SIZE, **SSRU_OPTIONS, "decoder_embed_dim": 64})
    attention = DLCLTransformerModel.build_model(config, task()).decoder.layers[0].self_attn
    bound = (6 / 128) ** 0.5
    for matrix in (attention.v_proj.weight, attention.forget_proj.weight):
        assert 0.95 * bound < matrix.abs().max() <= bound
    assert not attention.forget_proj.bias.any()
