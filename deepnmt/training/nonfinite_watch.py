"""Finds where the first NaN or Inf of an update arises, with hooks on all modules and parameters.

A module also represents the code of its own forward: a sum that overflows between two layers belongs to the stack.
"""

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Optional

import torch
from torch import Tensor, nn

MODEL, CRITERION = "the model", "the criterion"


@dataclass(eq=False)
class Call:
    """One call of a module, made inside its parent's call; None: a criterion's call."""

    name: str
    parent: Optional["Call"]


@dataclass
class Crossing:
    """The calls with a tensor as output, innermost first, and the call with it as input; up to a change in place."""

    version: int
    outputs: list[Call] = field(default_factory=list)
    input: Optional[Call] = None


class Watch:
    """Looks for the first NaN or Inf in a model, without a wrapper for several workers, and its criterion.

    The loss has a scale in FP16, else None.

    Attributes:
        finding: the first NaN or Inf, in words; empty before one is found
        batch: the present batch among an update's batches, in words, if there are several
    """

    def __init__(self, model: nn.Module, criterion: nn.Module, scale: Optional[float] = None) -> None:
        self.scale = scale
        self.finding = self.batch = ""
        self.names: dict[nn.Module, list[str]] = {}
        self.parameters: dict[str, nn.Parameter] = {}
        for root, itself, prefix in ((model, MODEL, ""), (criterion, CRITERION, "criterion.")):
            for name, module in root.named_modules(remove_duplicate=False):
                self.names.setdefault(module, []).append(f"{prefix}{name}" if name else itself)
            self.parameters.update((f"{prefix}{name}", parameter) for name, parameter in root.named_parameters())
        self.running: list[Call] = []
        self.latest: dict[str, Call] = {}

    def found(self, what: str, tensor: Tensor) -> None:
        """Keep a finding if it is the first."""
        self.finding = self.finding or f"{self.batch}{what}: {contents(tensor)}"

    def gradients(self, gradient: Tensor) -> str:
        """Describe the fault of the gradients."""
        if self.scale is None:
            return "gradients are not finite"
        return f"gradients {'overflow' if gradient.isinf().any() else 'are NaN'} in FP16 at loss scale {self.scale:g}"

    def check_parameters(self) -> None:
        """Before the run, find a parameter that is not finite."""
        for name, parameter in self.parameters.items():
            if not parameter.isfinite().all():
                way_out = "go back to an earlier checkpoint with --restore-file"
                self.found(f"parameter {name} is not finite before the update ({way_out})", parameter)

    def check_gradients(self) -> None:
        """After the run, find gradients that are finite in each batch, but not in their sum or norm."""
        self.batch = ""
        gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None}
        for name, gradient in gradients.items():
            if not gradient.isfinite().all():
                what = f"{self.gradients(gradient)} when summed over the batches of the update"
                self.found(f"{what}, first in {name}", gradient)
        norms = {name: torch.norm(gradient, dtype=torch.float32) for name, gradient in gradients.items()}
        if norms and not torch.stack(list(norms.values())).norm().isfinite():
            largest = max(gradients, key=lambda name: float(gradients[name].abs().max()))
            what = "gradients are finite, but their norm overflows; the largest belongs to"
            self.found(f"{what} {largest}", gradients[largest])

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Hooks on modules and parameters for the time of a run."""
        handles = [module.register_forward_pre_hook(self.enter, with_kwargs=True) for module in self.names]
        handles += [module.register_forward_hook(self.leave) for module in self.names]
        for name, parameter in self.parameters.items():
            if parameter.requires_grad:
                hook = functools.partial(self.parameter_gradient, name)
                handles.append(parameter.register_hook(hook))  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Before a module runs: look at its inputs, and give it views of them, whose gradients are its own part."""
        parent = self.running[-1] if self.running else None
        inside = [name for name in self.names[module] if parent is not None and name.startswith(f"{parent.name}.")]
        name = (inside or self.names[module])[0]
        call = Call(name, parent or self.enclosing(name))
        self.running.append(call)
        self.latest[name] = call
        bad = first_not_finite((args, kwargs))
        if bad is not None:
            above = call.parent.name if call.parent is not None else "the batch"
            self.found(f"activations are not finite, first in {above}, on the way to {name}", bad)

        views: dict[Tensor, Tensor] = {}
        for tensor in chain(args, kwargs.values()):
            if isinstance(tensor, Tensor) and tensor.requires_grad and torch.is_grad_enabled():
                views[tensor] = tensor.view_as(tensor)
                self.crossing(views[tensor]).input = call

        def view(value: Any) -> Any:
            return views.get(value, value) if isinstance(value, Tensor) else value

        return tuple(map(view, args)), {key: view(value) for key, value in kwargs.items()}

    def leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """After a module has run: look at its output; its gradient is the gradient of its first tensor."""
        call = self.running.pop()
        if call.name == CRITERION and isinstance(output, tuple):
            output = output[0]  # the others are for the log
        bad = first_not_finite(output)
        if bad is not None:
            loss = "the loss is not finite, though all outputs of the model are"
            self.found(loss if call.name == CRITERION else f"activations are not finite, first in {call.name}", bad)
        main = next((tensor for tensor in tensors(output) if tensor.grad_fn is not None), None)
        if main is not None:
            self.crossing(main).outputs.append(call)

    def enclosing(self, name: str) -> Optional[Call]:
        """The latest call of the module around one that runs in the backward pass: activation checkpointing."""
        while "." in name:
            name = name.rpartition(".")[0]
            if name in self.latest:
                return self.latest[name]
        return self.latest.get(MODEL) if name != CRITERION else None

    def crossing(self, tensor: Tensor) -> Crossing:
        """The record of a tensor that is not a leaf, with one hook on its gradient."""
        record: Optional[Crossing] = getattr(tensor, "nonfinite_crossing", None)
        if record is None or record.version != tensor._version:
            record = Crossing(tensor._version)
            tensor.nonfinite_crossing = record  # type: ignore[attr-defined]
            tensor.register_hook(functools.partial(self.activation_gradient, record))  # type: ignore[no-untyped-call]
        return record

    def activation_gradient(self, crossing: Crossing, gradient: Tensor) -> None:
        """Check the gradient of a tensor that enters or leaves modules."""
        if self.finding or gradient.isfinite().all():
            return
        if crossing.input is not None and crossing.input not in crossing.outputs:
            where = f"{crossing.input.name} (of its input)"
        else:
            call: Optional[Call] = crossing.outputs[0]
            below = ""
            while call is not None and call in crossing.outputs:
                below, call = call.name, call.parent
            where = f"{call.name if call is not None else 'the loss'}, on the way back to {below}"
        self.found(f"{self.gradients(gradient)}, first in {where}", gradient)

    def parameter_gradient(self, name: str, gradient: Tensor) -> None:
        """Check the gradient of a parameter, summed over its uses in a batch."""
        if not self.finding and not gradient.isfinite().all():
            module, _, own = name.rpartition(".")
            self.found(f"{self.gradients(gradient)}, first in {module or MODEL} (of its {own})", gradient)


def tensors(values: Any) -> Iterator[Tensor]:
    """Yield the tensors of floating-point numbers in nested tuples, lists and mappings."""
    if isinstance(values, Tensor):
        if values.is_floating_point():
            yield values
    elif isinstance(values, (tuple, list, Mapping)):
        for value in values.values() if isinstance(values, Mapping) else values:
            yield from tensors(value)


def first_not_finite(values: Any) -> Optional[Tensor]:
    """Return the first tensor with a NaN or Inf. Masks of 0 and -Inf, which attention adds to its scores, are legal."""
    for tensor in tensors(values):
        if not tensor.isfinite().all():
            zero = tensor == 0
            if not (zero.any() and (zero | tensor.isneginf()).all()):
                return tensor
    return None


def contents(tensor: Tensor) -> str:
    """Describe whether a tensor holds NaN or Inf or both, and its largest finite magnitude."""
    kinds = [kind for kind, bad in (("NaN", tensor.isnan()), ("Inf", tensor.isinf())) if bad.any()]
    magnitudes = tensor.detach().abs()[tensor.isfinite()]
    largest = f"largest finite magnitude {magnitudes.max():.3g}" if magnitudes.numel() else "no finite value"
    return ", ".join([" and ".join(kinds), largest] if kinds else [largest])
