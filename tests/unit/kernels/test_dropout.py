"""Fast dropout: its rate, its expectation, its gradients, and what stays fairseq's."""

from __future__ import annotations

import pytest
import torch
from fairseq.modules import FairseqDropout
from support.models import EXAMPLE, build, logits

from deepnmt.kernels.dropout import dropout_noise
from deepnmt.model.fast_dropout import FastDropout, use_fast_dropout

COUNT = 2**20


@pytest.mark.parametrize("p", [1e-4, 0.1, 0.3, 0.5, 0.9])
def test_rate_and_expectation(p: float) -> None:
    torch.manual_seed(1)
    noise = dropout_noise(torch.empty(COUNT, dtype=torch.float64), p)
    dropped = noise.eq(0).double().mean().item()
    assert abs(dropped - p) < 4 * (p * (1 - p) / COUNT) ** 0.5 + 2**-17
    kept = noise[noise != 0].unique()
    assert len(kept) == 1
    # Exact for the rate as it is: a multiple of 1/65536.
    assert (1 - round(65536 * p) / 65536) * kept.item() == pytest.approx(1, rel=1e-15)


@pytest.mark.parametrize("p", [0.1, 0.3, 1 / 3])
def test_every_number_counts_once(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_numbers(words: torch.Tensor, *ends: int | None) -> torch.Tensor:
        assert ends == (-(2**63), None)
        return words.copy_(torch.arange(2**16).to(torch.int16).view(torch.int64))

    monkeypatch.setattr(torch.Tensor, "random_", all_numbers)
    assert dropout_noise(torch.empty(2**16), p).eq(0).sum() == round(p * 2**16)


def test_every_word_of_bits_is_used_and_neighbours_are_independent() -> None:
    torch.manual_seed(2)
    kept = dropout_noise(torch.empty(COUNT), 0.3).ne(0).double()
    for quarter in range(4):
        assert kept[quarter::4].mean().item() == pytest.approx(0.7, abs=0.004)
    for distance in (1, 2, 3, 4, 8, 64):
        both = (kept[distance:] * kept[:-distance]).mean().item()
        assert both == pytest.approx(0.49, abs=0.003)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 7)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_shape_and_type(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.ones(shape, dtype=dtype)
    y = FastDropout(0.5)(x)
    assert (y.shape, y.dtype) == (x.shape, dtype)
    assert set(y.flatten().tolist()) <= {0.0, 2.0}


@pytest.mark.parametrize(("p", "expected"), [(0.0, 1.0), (1e-6, 1.0), (1.0, 0.0)])
def test_extreme_probabilities(p: float, expected: float) -> None:
    assert FastDropout(p)(torch.ones(1000)).eq(expected).all()


@pytest.mark.parametrize("inplace", [False, True])
def test_gradient(inplace: bool) -> None:
    x = torch.randn(50, 40, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    y = FastDropout(0.3)(x * 1, inplace=inplace)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())
    assert 0.6 < y.ne(0).double().mean() < 0.8


def test_what_is_transposed() -> None:
    x = torch.randn(6, 5, 4).transpose(0, 1)
    torch.manual_seed(4)
    y = FastDropout(0.4)(x)
    torch.manual_seed(4)
    torch.testing.assert_close(y, FastDropout(0.4)(x.contiguous()))


def test_seeds() -> None:
    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return FastDropout(0.3)(torch.ones(1000))

    assert draw(1).equal(draw(1))
    assert not draw(1).equal(draw(2))
    first, state = draw(1), torch.get_rng_state()
    following = FastDropout(0.3)(torch.ones(1000))
    torch.set_rng_state(state)
    assert FastDropout(0.3)(torch.ones(1000)).equal(following)
    assert not following.equal(first)


def test_evaluation() -> None:
    module, x = FastDropout(0.5).eval(), torch.ones(100)
    assert module(x) is x
    module.make_generation_fast_("", retain_dropout=True)
    assert module(x).eq(0).any()


def test_other_devices_get_fairseqs() -> None:
    x = torch.ones(8, device="meta")
    y = FastDropout(0.5)(x)
    assert y.device.type == "meta"


@pytest.mark.parametrize("option", [True, False])
def test_option_of_the_model(option: bool) -> None:
    model = build(fast_dropout=option, dropout=0.3, attention_dropout=0.1, activation_dropout=0.2)
    modules = [(name, m) for name, m in model.named_modules() if isinstance(m, FairseqDropout)]
    assert {type(module) for _, module in modules} == {FastDropout if option else FairseqDropout}
    stock = build(dropout=0.3, attention_dropout=0.1, activation_dropout=0.2)
    assert [(name, m.p, m.module_name) for name, m in modules] == [
        (name, m.p, m.module_name) for name, m in stock.named_modules() if isinstance(m, FairseqDropout)
    ]
    assert len(modules) > 20
    torch.testing.assert_close(logits(model, EXAMPLE), logits(stock, EXAMPLE), rtol=0, atol=0)


def test_a_recomputed_layer_drops_the_same() -> None:
    gradients = []
    for more in ({}, {"checkpoint_activations": True}):
        model = build(fast_dropout=True, dropout=0.2, **more).train()
        torch.manual_seed(7)
        model(**EXAMPLE)[0].pow(2).sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_only_fairseqs_own_modules_are_replaced() -> None:
    class Own(FairseqDropout):  # type: ignore[misc]
        pass

    model = torch.nn.Sequential(Own(0.5), FairseqDropout(0.25, "name"), torch.nn.Dropout(0.5))
    use_fast_dropout(model)
    assert [type(module) for module in model] == [Own, FastDropout, torch.nn.Dropout]
    assert (model[1].p, model[1].module_name) == (0.25, "name")
