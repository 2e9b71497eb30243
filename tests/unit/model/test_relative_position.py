"""Relative positions against equation (7), written out here for each pair of positions and each head."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.models import EXAMPLE, batch, build, dictionary, logits
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from deepnmt.model.relative_position import RelativeSelfAttention
from deepnmt.model.relative_scores import RelativePositionOptions, relative_index
from deepnmt.search.generator import BeamGenerator

HEADS, WIDTH = 2, 6


def attention(max_length: int, values: bool, dropout: float = 0.0) -> RelativeSelfAttention:
    torch.manual_seed(3)
    module = RelativeSelfAttention(WIDTH, HEADS, RelativePositionOptions(max_length, values), dropout=dropout)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.double()


def reference(module: RelativeSelfAttention, x: Tensor, padding: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Output T x B x C and probabilities H x B x T x S of (7)."""
    length, batch, _ = x.shape
    size, r = WIDTH // HEADS, module.max_length
    q, k, v = (p(x).view(length, batch, HEADS, size) for p in (module.q_proj, module.k_proj, module.v_proj))
    out = torch.zeros(length, batch, HEADS, size, dtype=x.dtype)
    weights = torch.zeros(HEADS, batch, length, length, dtype=x.dtype)
    for b in range(batch):
        for h in range(HEADS):
            for i in range(length):
                keys = [j for j in range(length) if not padding[b, j] and not (causal and j > i)]
                row = {j: max(-r, min(r, j - i)) + r for j in keys}
                scores = [q[i, b, h] @ (k[j, b, h] + module.relative_keys[row[j]]) / math.sqrt(size) for j in keys]
                for j, weight in zip(keys, torch.stack(scores).exp() / torch.stack(scores).exp().sum()):
                    value = v[j, b, h]
                    if module.relative_values is not None:
                        value = value + module.relative_values[row[j]]
                    out[i, b, h] += weight * value
                    weights[h, b, i, j] = weight
    return module.out_proj(out.view(length, batch, WIDTH)), weights


@pytest.mark.parametrize("values", [False, True], ids=["keys", "keys-values"])
@pytest.mark.parametrize("max_length", [1, 2, 8])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_equals_formula(max_length: int, values: bool, causal: bool) -> None:
    module = attention(max_length, values)
    x = torch.randn(5, 3, WIDTH, dtype=torch.float64)
    padding = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]).bool()
    mask = torch.full((5, 5), float("-inf"), dtype=torch.float64).triu(1) if causal else None
    with torch.no_grad():
        expected, weights = reference(module, x, padding, causal)
        for head_weights in (False, True):
            out, got = module(x, x, x, padding, attn_mask=mask, need_head_weights=head_weights)
            torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(got, weights if head_weights else weights.mean(0), rtol=0, atol=1e-12)
        assert module(x, x, x, padding, attn_mask=mask, need_weights=False)[1] is None


def test_index_is_clipped_distance_of_the_last_queries() -> None:
    index = relative_index(queries=2, keys=4, max_length=2, device=torch.device("cpu"))
    assert index.tolist() == [[0, 1, 2, 3], [0, 0, 1, 2]]


@pytest.mark.parametrize("values", [False, True])
def test_gradients(values: bool) -> None:
    module = attention(2, values)
    x = torch.randn(4, 2, WIDTH, dtype=torch.float64, requires_grad=True)
    padding = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1]]).bool()
    parameters = list(module.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: module(x, x, x, padding, need_weights=False)[0], (x, *parameters))


def test_attention_dropout_reaches_both_terms() -> None:
    module = attention(2, True, dropout=0.5).train()
    x = torch.randn(4, 1, WIDTH, dtype=torch.float64)
    copies = 4000
    with torch.no_grad():
        many = x.expand(-1, copies, -1)
        out = module(many, many, many, need_weights=False)[0]
        expected, _ = reference(module, x, torch.zeros(1, 4).bool(), causal=False)
    deviation = out.std(1)
    assert deviation.min() > 0.1
    error = (out.mean(1) - expected[:, 0]).abs()
    assert (error < 5 * deviation / math.sqrt(copies)).all()


@pytest.mark.parametrize("name", ["relative_keys", "relative_values"])
def test_initial_values_are_xaviers(name: str) -> None:
    """Uniform between -b and b, b^2 = 6 / (rows + columns) (Glorot and Bengio 2010, (16))."""
    attention = RelativeSelfAttention(64, 2, RelativePositionOptions(100))
    values = getattr(attention, name).detach().double()
    bound = math.sqrt(6 / (201 + 32))
    assert values.shape == (201, 32)
    assert 0.99 * bound < values.abs().max() <= bound
    assert values.mean().abs() < 4 * bound / math.sqrt(3 * values.numel())
    assert values.pow(2).mean().item() == pytest.approx(bound**2 / 3, rel=0.05)


def test_key_and_value_must_be_the_query() -> None:
    x = torch.randn(4, 1, WIDTH, dtype=torch.float64)
    with pytest.raises(ValueError, match="relative positions are for self-attention"):
        attention(2, True)(x, x.clone(), x)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_each_stack_is_switched_on_its_own(stack: str) -> None:
    model = build({f"{stack}_max_relative_length": 2})
    for name, layers in (("encoder", model.encoder.layers), ("decoder", model.decoder.layers)):
        assert all(isinstance(layer.self_attn, RelativeSelfAttention) == (name == stack) for layer in layers)
    assert not any(isinstance(layer.encoder_attn, RelativeSelfAttention) for layer in model.decoder.layers)


def test_order_is_seen_without_absolute_positions() -> None:
    swapped = {**EXAMPLE, "src_tokens": EXAMPLE["src_tokens"][:, [1, 0, 2, 3, 4, 5]]}
    blind = build(no_token_positional_embeddings=True)
    torch.testing.assert_close(logits(blind, EXAMPLE)[0], logits(blind, swapped)[0])
    seeing = build(no_token_positional_embeddings=True, encoder_max_relative_length=2)
    assert (logits(seeing, EXAMPLE)[0] - logits(seeing, swapped)[0]).abs().max() > 1e-3


def test_incremental_state_is_reordered_for_beam_search() -> None:
    model = build(decoder_max_relative_length=2)
    order = torch.tensor([1, 0])
    # Two hypotheses of one sentence: fairseq takes cross-attention to be the same for both.
    inputs = batch([[5, 6, 7, 8]] * 2, [[6, 7, 8], [13, 14, 5]])
    tokens = inputs["prev_output_tokens"]
    with torch.no_grad():
        out = model.encoder(inputs["src_tokens"], inputs["src_lengths"])
        state: dict[str, dict[str, Tensor | None]] = {}
        for length in (1, 2, 3):
            model.decoder(tokens[:, :length], encoder_out=out, incremental_state=state)
        model.decoder.reorder_incremental_state_scripting(state, order)
        last = model.decoder(tokens[order], encoder_out=out, incremental_state=state)[0]
    torch.testing.assert_close(last, logits(model, inputs)[order, -1:], rtol=0, atol=2e-6)


class LargestTensor(TorchDispatchMode):
    """Remembers the most elements of any tensor that an operation returns."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


def test_no_tensor_of_length_by_length_by_head_size() -> None:
    length, size = 40, 32
    module = RelativeSelfAttention(2 * size, 2, RelativePositionOptions(8, True))
    x = torch.randn(length, 1, 2 * size, requires_grad=True)
    with LargestTensor() as largest:
        module(x, x, x, need_weights=False)[0].sum().backward()
    assert largest.elements < length * length * size
    assert largest.elements >= 2 * length * length  # the scores of both heads: the measure sees what it should


class SummedTypes(TorchDispatchMode):
    """The types in which sums by distance are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in ("aten::scatter_add", "aten::index_add_"):
            self.types.add(args[0].dtype)
        return func(*args, **(kwargs or {}))


def test_probabilities_are_summed_by_distance_in_float32() -> None:
    """A GPU adds them one by one in the type that they are kept in; the CPU does not show it in the values."""
    model = build(decoder_max_relative_length=2).half().eval()
    with torch.no_grad(), SummedTypes() as training:
        model(**EXAMPLE)
    generator = BeamGenerator([model], dictionary(), beam_size=2, max_len_b=3)
    inputs = {name: value for name, value in EXAMPLE.items() if name != "prev_output_tokens"}
    with torch.no_grad(), SummedTypes() as search:
        generator.generate([model], {"net_input": inputs})
    assert training.types == search.types == {torch.float32}
