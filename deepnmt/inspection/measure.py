"""Gradients, activations, residual branches and weights of every sublayer of a model, on real batches.

Shapes: T x B x C is time, batch, channel; G groups of layers.

For a sublayer `x' = N(w x + F(x))`, `N` its layer norm or nothing, and a loss that is divided by the sample size:

    gradient norm         |dLoss/dW|, L2, over all parameters W of F; the gradient is the mean over the batches
    error norm            root mean square of dLoss/dx'
    activation variance   Var(x')
    branch share          Var(F) / (Var(w x) + Var(F))
    weights               standard deviation, largest magnitude and L2 norm over the matrices of F

Error norm, variance and share are computed over unpadded positions and all channels, and then over the forward passes
in training mode. The error norm takes the mean of squares, the others take the mean. A criterion may also search, in
evaluation mode.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import Any, Optional

import torch
from torch import Tensor, nn

from deepnmt.errors import UserError
from deepnmt.inspection.table import Report, Sublayer
from deepnmt.model.dlcl import LayerHistory
from deepnmt.model.layers import DeepLayer
from deepnmt.model.stack import STACKS
from deepnmt.model.sublayers import branch_modules, sublayers_of


def inspect_model(
    model: Any, criterion: Any, batches: Sequence[dict[str, Any]], label: str = "model", seed: int = 1
) -> Report:
    """Measure a model by one forward and backward pass per batch, in training mode.

    Modes, gradients and random state are restored afterwards.

    Args:
        model: this package's or fairseq's Transformer, without activation checkpointing
        criterion: fairseq's; its loss is divided by the sample size
        batches: from fairseq's iterators, on the model's device
        label: name of the report
        seed: of dropout; batch i draws from seed + i, as update i of a training would

    Raises:
        UserError: batches are missing, or the model lacks the layers of a Transformer or uses activation checkpointing
    """
    if not batches:
        raise UserError("inspection needs at least 1 batch, but has 0")
    loss = 0.0
    with ExitStack() as hooks, _training(model, criterion):
        probes = [_Probe(name, getattr(model, name), hooks) for name in STACKS if hasattr(model, name)]
        if not probes:
            raise UserError(f"inspection needs an encoder or a decoder, but this is a {type(model).__name__}")
        for index, batch in enumerate(batches):
            torch.manual_seed(seed + index)
            model.set_num_updates(index)
            batch_loss, sample_size, _ = criterion(model, batch)
            (batch_loss / sample_size).backward()
            loss += float(batch_loss.detach()) / float(sample_size) / len(batches)
        return Report(
            label=label,
            batches=len(batches),
            loss=loss,
            sublayers=[sublayer for probe in probes for sublayer in probe.sublayers(len(batches))],
            dlcl={probe.name: probe.dlcl() for probe in probes if isinstance(probe.history, LayerHistory)},
        )


def layers_of(reader: str, name: str, stack: Any) -> list[nn.Module]:
    """Return the layers of a stack.

    Args:
        reader: the measurement, for messages
        name: of the stack
        stack: of fairseq, or derived from it

    Raises:
        UserError: the stack lacks layers, or has one in several places
    """
    layers = getattr(stack, "layers", nn.ModuleList())
    found = list(layers.children())
    if len(found) < len(layers):
        raise UserError(f"{reader} needs different layers, but the {name} has one layer in several places")
    if not found:
        raise UserError(f"{reader} needs layers of a Transformer, but the {name} lacks them")
    return found


@contextmanager
def _training(model: nn.Module, criterion: nn.Module) -> Iterator[None]:
    """Training mode, no gradients yet and a random state of its own; everything is restored at the end."""
    modes = [(module, module.training) for part in (model, criterion) for module in part.modules()]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    with torch.random.fork_rng():
        try:
            model.train()
            criterion.train()
            for parameter, _ in gradients:
                parameter.grad = None
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            for parameter, gradient in gradients:
                parameter.grad = gradient


class _Probe:
    """The hooks on fairseq's encoder or decoder, or one derived from it, and their records; `hooks` removes them."""

    def __init__(self, name: str, stack: Any, hooks: ExitStack) -> None:
        self.name = name
        self.stack = stack
        self.history = getattr(stack, "history", None)
        self.layers = layers_of("inspection", name, stack)
        self.hooks = hooks
        self.real: Optional[Tensor] = None
        self.seen: dict[tuple[int, str, str], list[float]] = {}
        hooks.callback(stack.register_forward_pre_hook(self.find_padding).remove)
        for number, layer in enumerate(self.layers, start=1):
            self.attach(number, layer)

    def find_padding(self, stack: Any, arguments: tuple[Any, ...]) -> None:
        """Before the stack runs, record where its tokens, B x T, are not padding."""
        real = arguments[0].ne(stack.padding_idx).t()
        self.real = None if bool(real.all()) else real

    def attach(self, number: int, layer: Any) -> None:
        """Put the hooks on one layer."""
        if hasattr(layer, "precheckpoint_forward"):
            raise UserError("inspection needs --checkpoint-activations to be off, but it is on")
        names = _sublayer_names(layer)
        if not names:
            kind = type(layer).__name__
            raise UserError(f"inspection needs layers of a Transformer, but {self.name} layer {number} is a {kind}")
        norm_ends = _norm_ends(layer)
        if isinstance(layer, DeepLayer):
            for name in names:
                self.watch(getattr(layer, f"{name}_residual"), self.ours(number, name, not norm_ends))
        else:
            self.wrap_stock(number, layer, names)
        if norm_ends:
            for name in names:
                self.watch(getattr(layer, f"{name}_layer_norm"), self.output(number, name))

    def watch(self, module: nn.Module, hook: Callable[..., None]) -> None:
        """Add a forward hook."""
        self.hooks.callback(module.register_forward_hook(hook).remove)

    def ours(self, number: int, name: str, ends: bool) -> Callable[..., None]:
        """A hook on a `Residual`; `ends`: its output is the sublayer's."""

        def hook(residual: Any, arguments: tuple[Tensor, Optional[Tensor]], output: Tensor) -> None:
            x, branch = arguments
            if branch is not None:
                self.see_share(number, name, residual.forward(x.detach(), None), branch)
            if ends:
                self.see_output(number, name, output)

        return hook

    def wrap_stock(self, number: int, layer: Any, names: list[str]) -> None:
        """The same for one of fairseq's own layers, which calls one method for all of its sublayers in turn."""
        turn, stock = cycle(names), layer.residual_connection

        def residual_connection(branch: Tensor, x: Tensor) -> Tensor:
            name, output = next(turn), stock(branch, x)
            self.see_share(number, name, x.detach(), branch)
            if not _norm_ends(layer):
                self.see_output(number, name, output)
            return output  # type: ignore[no-any-return]

        layer.residual_connection = residual_connection
        self.hooks.callback(delattr, layer, "residual_connection")

    def output(self, number: int, name: str) -> Callable[..., None]:
        """A hook on a module that returns the sublayer's output."""
        return lambda module, arguments, output: self.see_output(number, name, output)

    def see_share(self, number: int, name: str, x: Tensor, branch: Tensor) -> None:
        """Record the share of a branch F(x) beside `w x`, T x B x C both."""
        if not self.stack.training:
            return
        variance = self.variance(branch)
        total = self.variance(x) + variance
        # If neither varies, the branch adds nothing.
        self.record(number, name, "branch_share", total if total == 0 else variance / total)

    def see_output(self, number: int, name: str, output: Tensor) -> None:
        """Record the variance of a sublayer's output, T x B x C, and, in the backward pass, its error."""
        if not self.stack.training:
            return
        self.record(number, name, "activation_variance", self.variance(output))
        real = self.real

        def see_error(gradient: Tensor) -> None:
            self.record(number, name, "error", _entries(gradient, real).square().mean())

        if output.requires_grad:
            output.register_hook(see_error)  # type: ignore[no-untyped-call]

    def variance(self, x: Tensor) -> Tensor:
        """Return the variance over the entries of T x B x C outside padding."""
        return _entries(x, self.real).var(correction=0)

    def record(self, number: int, name: str, quantity: str, value: Tensor) -> None:
        """Record a number of one forward pass."""
        self.seen.setdefault((number, name, quantity), []).append(float(value))

    def sublayers(self, batches: int) -> Iterator[Sublayer]:
        """Yield the records, with gradients divided by the number of batches."""
        for number, layer in enumerate(self.layers, start=1):
            for name in _sublayer_names(layer):
                error = self.mean(number, name, "error")
                yield Sublayer(
                    stack=self.name,
                    layer=number,
                    name=name,
                    gradient_norm=_gradient_norm(_parameters(layer, name), batches),
                    error_norm=None if error is None else math.sqrt(error),
                    activation_variance=self.mean(number, name, "activation_variance"),
                    branch_share=self.mean(number, name, "branch_share"),
                    **_weight_statistics(_parameters(layer, name)),
                )

    def mean(self, number: int, name: str, quantity: str) -> Optional[float]:
        """Return the mean over the forward passes; None if the sublayer never ran."""
        values = self.seen.get((number, name, quantity))
        return sum(values) / len(values) if values else None

    def dlcl(self) -> list[list[float]]:
        """Return the rows of the history as applied."""
        assert isinstance(self.history, LayerHistory)
        size = self.history.weight.size(0)
        matrix = torch.zeros(size, size)
        for row in range(1, size + 1):
            matrix[row - 1, self.history.oldest(row) : row] = self.history.row(row).detach().float().mean(dim=1)
        return [[float(weight) for weight in row] for row in matrix]


def _sublayer_names(layer: Any) -> list[str]:
    """Return the sublayers in their order; empty for a module that is not a Transformer's layer."""
    if not all(hasattr(layer, name) for name in ("fc1", "fc2", "final_layer_norm", "normalize_before")):
        return []
    return sublayers_of(layer)


def _norm_ends(layer: Any) -> bool:
    """Return whether a layer norm ends each sublayer."""
    return layer.norm_position.after if isinstance(layer, DeepLayer) else not layer.normalize_before


def _parameters(layer: Any, name: str) -> list[nn.Parameter]:
    return [parameter for module in branch_modules(layer, name) for parameter in module.parameters()]


def _entries(x: Tensor, real: Optional[Tensor]) -> Tensor:
    """Return the entries of T x B x C outside padding, in single precision at least."""
    x = x.detach()
    x = x if real is None else x[real]
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _gradient_norm(parameters: Iterable[nn.Parameter], batches: int) -> Optional[float]:
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if not trained:
        return None
    norms = [float(parameter.grad.double().norm()) for parameter in trained if parameter.grad is not None]
    return math.hypot(*norms) / batches


def _weight_statistics(parameters: Iterable[nn.Parameter]) -> dict[str, float]:
    entries = torch.cat([parameter.detach().double().flatten() for parameter in parameters if parameter.dim() > 1])
    spread, largest, norm = entries.std(correction=0), entries.abs().max(), entries.norm()
    return {"weight_std": float(spread), "weight_max": float(largest), "weight_norm": float(norm)}
