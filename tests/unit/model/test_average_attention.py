"""Average attention against equation (46), written out here as a loop over the positions in float64."""

from __future__ import annotations

import pytest
import torch
from support.models import EXAMPLE, build, incremental_logits, logits
from torch import Tensor, nn

from deepnmt.model.average_attention import AverageAttention

WIDTH, INNER, LENGTH, BATCH = 6, 10, 5, 3
PADDING = {
    "none": None,
    "right": torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1]]).bool(),
    "left": torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 0, 0]]).byte(),
}


def attention(inner: int = 0) -> AverageAttention:
    torch.manual_seed(3)
    module = AverageAttention(WIDTH, nn.Linear, inner)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.double()


def inputs() -> Tensor:
    torch.manual_seed(5)
    return torch.randn(LENGTH, BATCH, WIDTH, dtype=torch.float64)


def reference(module: AverageAttention, x: Tensor, padding: Tensor | None = None) -> Tensor:
    weight, bias = module.gate_proj.weight, module.gate_proj.bias
    found = torch.zeros_like(x)
    for sentence in range(x.size(1)):
        total, count = x.new_zeros(WIDTH), 0
        for t in range(len(x)):
            if padding is None or not padding[sentence, t]:
                total, count = total + x[t, sentence], count + 1
            mean = total / max(count, 1)
            if module.fc1 is not None and module.fc2 is not None:
                inner = (module.fc1.weight @ mean + module.fc1.bias).clamp(min=0)
                mean = module.fc2.weight @ inner + module.fc2.bias
            gates = 1 / (1 + (-(weight @ torch.cat([x[t, sentence], mean]) + bias)).exp())
            found[t, sentence] = gates[:WIDTH] * x[t, sentence] + gates[WIDTH:] * mean
    return found


@pytest.mark.parametrize("inner", [0, INNER])
@pytest.mark.parametrize("padding", PADDING)
def test_equals_the_formula(padding: str, inner: int) -> None:
    module, x = attention(inner), inputs()
    found, weights = module(x, x, x, PADDING[padding])
    torch.testing.assert_close(found, reference(module, x, PADDING[padding]), rtol=0, atol=1e-13)
    assert weights is None


def test_no_output_sees_a_later_input() -> None:
    module, x = attention(INNER), inputs().requires_grad_()
    for t in range(LENGTH):
        (gradient,) = torch.autograd.grad(module(x)[0][t].sum(), x)
        assert not gradient[t + 1 :].any()
        assert gradient[: t + 1].abs().amax(dim=(1, 2)).gt(0).all()


@pytest.mark.parametrize("chunks", [[1] * LENGTH, [3, 1, 1]], ids=str)
@pytest.mark.parametrize("padding", PADDING)
def test_incremental_equals_full_in_constant_memory(padding: str, chunks: list[int]) -> None:
    module, x, mask = attention(), inputs(), PADDING[padding]
    state: dict[str, dict[str, Tensor | None]] = {}
    expected, end = reference(module, x, mask), 0
    for chunk in chunks:
        start, end = end, end + chunk
        part = None if mask is None else mask[:, start:end]
        found = module(x[start:end], key_padding_mask=part, incremental_state=state)[0]
        torch.testing.assert_close(found, expected[start:end], rtol=0, atol=1e-13)
        kept = [each for saved in state.values() for each in saved.values() if each is not None]
        sizes = [each.untyped_storage().nbytes() for each in kept]
        assert sorted(sizes) == [BATCH * 8, BATCH * WIDTH * 8]


@pytest.mark.parametrize("order", [[2, 0, 1], [2, 2, 0, 1, 0]], ids=str)
def test_reordering_equals_decoding_the_reordered_prefix(order: list[int]) -> None:
    module, x = attention(), inputs()
    state: dict[str, dict[str, Tensor | None]] = {}
    module(x[:3], incremental_state=state)
    module.reorder_incremental_state(state, torch.tensor(order))
    found = module(x[3:, order], incremental_state=state)[0]
    torch.testing.assert_close(found, reference(module, x[:, order])[3:], rtol=0, atol=1e-13)


@pytest.mark.parametrize("inner", [False, True])
def test_a_model_decodes_as_it_trains(inner: bool) -> None:
    model = build({"decoder_self_attention": "average", "average_attention_ffn": inner})
    real = EXAMPLE["prev_output_tokens"].ne(1)
    stepwise, full = incremental_logits(model, EXAMPLE), logits(model, EXAMPLE)
    # fairseq's cross-attention has a softmax in float32.
    torch.testing.assert_close(stepwise[real], full[real], rtol=0, atol=1e-6)
    shapes = {name: tuple(each.shape) for name, each in model.decoder.layers[0].self_attn.named_parameters()}
    ffn = {"fc1.weight": (24, 16), "fc1.bias": (24,), "fc2.weight": (16, 24), "fc2.bias": (16,)}
    assert shapes == {"gate_proj.weight": (32, 32), "gate_proj.bias": (32,), **(ffn if inner else {})}
