"""A training that meets a NaN or Inf stops, and names the first layer that is not finite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.distributed import ModuleProxyWrapper
from support.failing_training import (
    DLCL,
    INF,
    NAN,
    Criterion,
    Make,
    ScaledGradient,
    error_of,
    plant,
    sample,
    scale_gradient,
    trainer_maker,
)
from support.models import EXAMPLE, build
from support.slow import slow_but
from torch import Tensor, nn

from deepnmt.training import nonfinite

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.cuda.amp:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning"),
]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return trainer_maker(tmp_path)


def test_whole_message(make: Make) -> None:
    trainer = make()
    for _ in range(2):
        assert trainer.train_step([sample()])["loss"] > 0
    with torch.no_grad():
        trainer.get_model().encoder.layers[1].fc1.bias[0] = 4e37
        trainer.get_model().encoder.layers[1].fc2.weight[:] = 10.0
    assert re.fullmatch(
        r"training stopped at update 3: activations are not finite, first in encoder\.layers\.1\.fc2: Inf, "
        r"no finite value; lower --lr, lengthen --warmup-updates, or set \(or lower\) --clip-norm",
        error_of(trainer),
    )


LAYERS = [
    "encoder.embed_tokens", "encoder.layers.1.self_attn", "encoder.layers.2.fc1", "encoder.history.layer_norms.1",
    "encoder.layer_norm", "decoder.embed_tokens", "decoder.layers.0.self_attn", "decoder.layers.1.encoder_attn.k_proj",
    "decoder.layers.2.encoder_attn", "decoder.history.layer_norms.0", "decoder.output_projection",
]  # fmt: skip


@pytest.mark.parametrize("value", slow_but([INF], [NAN, INF]), ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_activation(make: Make, name: str, value: float) -> None:
    model = build(DLCL).float()
    largest: list[float] = []

    def remember(module: nn.Module, args: Any, output: Any) -> None:
        tensor = (output[0] if isinstance(output, tuple) else output).detach()
        largest.append(max(abs(number) for index, number in enumerate(tensor.flatten().tolist()) if index != 3))

    model.get_submodule(name).register_forward_hook(remember)
    plant(model, name, value)
    kind = "NaN" if value != value else "Inf"
    text = error_of(make(model))
    assert f"activations are not finite, first in {name}: {kind}, largest finite magnitude {largest[0]:.3g};" in text
    assert largest[0] == pytest.approx(largest[-1], rel=1e-6)  # sums differ in their order
    assert "--bf16" not in text


def test_activation_with_checkpointing_and_in_a_wrapper(make: Make) -> None:
    model = build({**DLCL, "checkpoint_activations": True}).float()
    plant(model, "decoder.layers.1.fc1", NAN)
    trainer = make(model)

    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = model
            self.calls = 0

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return self.module(*args, **kwargs)

    wrapper = Wrapper()
    trainer._wrapped_model = ModuleProxyWrapper(wrapper)
    assert "activations are not finite, first in decoder.layers.1.fc1: NaN" in error_of(trainer)
    assert wrapper.calls == 1  # the second run is each worker's own


def test_activation_between_layers(make: Make) -> None:
    model = build(DLCL).float()
    with torch.no_grad():
        model.encoder.history.weight[1, 0] = 3e38
    assert "first in encoder, on the way to encoder.layers.1: " in error_of(make(model))


def test_shared_module_is_named_where_it_is_called(make: Make) -> None:
    model = build({**DLCL, "share_all_embeddings": True}).float()
    shared = model.decoder.embed_tokens
    assert shared is model.encoder.embed_tokens
    tokens = EXAMPLE["prev_output_tokens"]
    shared.register_forward_hook(lambda module, args, output: output * NAN if args[0].equal(tokens) else output)
    assert "first in decoder.embed_tokens: NaN, no finite value;" in error_of(make(model))


@pytest.mark.parametrize(
    "name",
    [
        "encoder.embed_tokens.weight",
        "encoder.history.weight",
        "encoder.layers.1.fc1.bias",
        "decoder.layers.2.fc2.weight",
    ],
)
def test_parameter_comes_first(make: Make, name: str) -> None:
    model = build(DLCL).float()
    plant(model, "encoder.layers.0.fc1", NAN)
    with torch.no_grad():
        model.get_parameter(name).view(-1)[-1] = NAN
        largest = model.get_parameter(name)[model.get_parameter(name).isfinite()].abs().max()
    text = error_of(make(model))
    assert (
        f"parameter {name} is not finite before the update (go back to an earlier checkpoint with --restore-file): "
        in text
    )
    assert f": NaN, largest finite magnitude {largest:.3g}; lower --lr" in text


def test_loss(make: Make) -> None:
    text = error_of(make(criterion=Criterion(lambda loss: loss * NAN)))
    assert "the loss is not finite, though all outputs of the model are: NaN, no finite value;" in text


def test_batch_with_nan(make: Make) -> None:
    model = build(DLCL).float()
    embedding = torch.full((2, 6, 16), NAN)
    net_input = {**EXAMPLE, "token_embeddings": embedding}
    model.forward = lambda token_embeddings, **kwargs: type(model).forward(model, **kwargs)
    plant(model, "encoder.layers.0.fc1", NAN)
    assert "first in the batch, on the way to the criterion: NaN" in error_of(make(model), [sample(net_input)])


BACKWARD = [
    "encoder.layers.2.fc1", "decoder.layers.0.encoder_attn.k_proj", "decoder.layers.0.encoder_attn.q_proj",
    "decoder.history.layer_norms.0", "decoder.output_projection",
]  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"checkpoint_activations": True}], ids=["plain", "checkpointing"])
@pytest.mark.parametrize("name", BACKWARD)
def test_gradient(make: Make, name: str, options: dict[str, Any]) -> None:
    model = build({**DLCL, **options}).float()
    # Frozen, so that its parameters' gradients do not tell; what it reads is read by other modules too.
    model.get_submodule(name).requires_grad_(False)
    scale_gradient(model, name, INF)
    assert f"gradients are not finite, first in {name} (of its input): " in error_of(make(model))


def test_gradient_of_a_parameter(make: Make) -> None:
    model = build(DLCL).float()
    model.decoder.layers[1].fc1.weight.register_hook(lambda gradient: gradient.fill_(-INF))
    text = error_of(make(model))
    assert "gradients are not finite, first in decoder.layers.1.fc1 (of its weight): Inf, no finite value;" in text


@pytest.mark.parametrize(("row", "frozen"), [(1, True), (2, False)], ids=str)
def test_gradient_between_layers(make: Make, row: int, frozen: bool) -> None:
    model = build({**DLCL, "dlcl_freeze": frozen}).float()
    history = model.encoder.history
    combine = history.combine

    def scaled(number: int, outputs: dict[int, Tensor]) -> Tensor:
        total = combine(number, outputs)
        return ScaledGradient.apply(total, INF) if number == row else total

    history.combine = scaled
    # Dropout of probability 0 hands its input on, and is not to blame for what it gets.
    way_back = "encoder.dropout_module" if row == 1 else "encoder.history.layer_norms.0"
    assert f"gradients are not finite, first in encoder, on the way back to {way_back}: " in error_of(make(model))


@pytest.mark.parametrize("options", [{}, {"checkpoint_activations": True}], ids=["plain", "checkpointing"])
@pytest.mark.parametrize("forward", [True, False], ids=["activation", "gradient"])
def test_between_the_modules_of_a_layer(make: Make, forward: bool, options: dict[str, Any]) -> None:
    model = build({**DLCL, **options}).float()
    layer = model.encoder.layers[1]
    layer.activation_fn = lambda x: x * INF if forward else ScaledGradient.apply(x.relu(), INF)
    text = error_of(make(model))
    where = "to encoder.layers.1.activation_dropout_module" if forward else "back to encoder.layers.1.fc1"
    assert f"not finite, first in encoder.layers.1, on the way {where}: " in text


class Inner(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2.0


class Outer(nn.Module):
    """Changes the output of a module in place, by so much that the gradient overflows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))
        self.inner = Inner()

    def forward(self) -> Tensor:
        y: Tensor = self.inner(self.weight)
        return y.mul_(3e38)


class Sum(nn.Module):
    def forward(self, model: nn.Module) -> Tensor:
        return 10.0 * model().sum()


def test_gradient_through_a_change_in_place() -> None:
    model, criterion = Outer(), Sum()
    watch = nonfinite.Watch(model, criterion)
    with watch.hooks():
        criterion(model).backward()
    assert watch.finding.startswith("gradients are not finite, first in the model, on the way back to inner: Inf")


def test_gradient_of_the_loss(make: Make) -> None:
    text = error_of(make(criterion=Criterion(lambda loss: ScaledGradient.apply(loss, NAN))))
    assert "gradients are not finite, first in the criterion, on the way back to the model: " in text
