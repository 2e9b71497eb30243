"""The blocked sums of a history against one addition after the other: values, gradients, memory and reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.waits import Waits
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from deepnmt.kernels.output_norm import OutputNorm
from deepnmt.model.dlcl import HistoryOptions, LayerHistory

WIDTH = 8
EXACT = {"rtol": 1e-9, "atol": 1e-11}


class Layer(nn.Module):
    """In place of a Transformer's layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(x)) + x.transpose(0, 1).mean(0, keepdim=True).transpose(0, 1)


def slow(history: LayerHistory, layers: list[nn.Module], kept: list[int], x: Tensor) -> list[Tensor]:
    """The inputs of the layers that are kept and the output, by (5) or (6), every sum from its start, by autograd."""
    options, norms = history.options, [history.embedding_norm, *history.layer_norms]
    rows, pre_norm = len(norms), history.normalize_before
    past: dict[int, Tensor] = {}

    def normed(value: Tensor, group: int) -> Tensor:
        norm: Any = norms[group]
        return value if norm is None else F.layer_norm(value, (WIDTH,), norm.weight, norm.bias, norm.eps)

    def combination(row: int) -> Tensor:
        first = max(0, row - options.window) if options.window else 0
        weight = history.weight[row - 1, first:row]
        weight = weight.softmax(0) if options.softmax else weight
        weight = weight.repeat_interleave(WIDTH // options.slices, 1) if options.slices > 1 else weight
        read = [past[k] * weight[k - first] for k in past if k >= first]
        total = sum(read[1:], read[0]) if read else past[max(past)]
        return total if pre_norm else normed(total, row - 1)

    group, seen = 0, []
    for index in [*kept, None]:
        following = rows if index is None else history.group_of[index]
        if index is None or following != group:
            past[group] = normed(x, group) if pre_norm else x
            x, group = combination(following), following
        seen.append(x)
        if index is not None:
            x = layers[index](x)
    return seen


def fast(history: LayerHistory, layers: list[Any], kept: list[int], x: Tensor) -> list[Tensor]:
    """The same through the history's own pass."""
    past, seen = history.start(), []
    for index in kept:
        seen.append(past.input(index, x))
        x = layers[index](seen[-1])
    return [*seen, past.finish(x)]


def setting(
    depth: int, pre_norm: bool = True, dtype: torch.dtype = torch.float64, step: int = 1, **options: Any
) -> tuple[LayerHistory, list[nn.Module], Tensor, list[Tensor]]:
    """A history, layers, an input, and all that has gradients."""
    torch.manual_seed(depth)
    boundaries = [*range(0, depth, step), depth]
    history = LayerHistory(WIDTH, boundaries, pre_norm, HistoryOptions(**options))
    layers: list[nn.Module] = [Layer() for _ in range(depth)]
    with torch.no_grad():
        for parameter in history.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    history.to(dtype)
    for layer in layers:
        layer.to(dtype)
    x = torch.randn(5, 3, WIDTH).to(dtype).requires_grad_()
    parameters = [p for module in (history, *layers) for p in module.parameters() if p.requires_grad]
    return history, layers, x, [x, *parameters]


def gradients(seen: list[Tensor], leaves: list[Tensor]) -> list[Tensor | None]:
    """Of a function of the output."""
    loss = (seen[-1].double() * torch.linspace(-1, 2, seen[-1].numel()).view_as(seen[-1])).pow(2).sum()
    return list(torch.autograd.grad(loss, leaves, allow_unused=True))


def agree(one: list[Any], other: list[Any], **tolerance: float) -> None:
    """None, the gradient of what was not used, is as good as 0."""
    assert len(one) == len(other)
    for a, b in zip(one, other):
        if a is None or b is None:
            assert a is b is None or not (b if a is None else a).any()
        else:
            torch.testing.assert_close(a, b, **(tolerance or EXACT))


CASES: dict[str, dict[str, Any]] = {
    "scalar": {},
    "slices": {"slices": 4},
    "vector": {"slices": WIDTH},
    "window": {"window": 3},
    "wide window": {"window": 11},
    "window of vectors": {"window": 3, "slices": 2},
    "softmax": {"softmax": True},
    "softmax in a window": {"softmax": True, "window": 5},
    "frozen": {"freeze": True},
    "embedding norm": {"embedding_norm": True},
    "groups": {"step": 4},
}


@pytest.mark.parametrize("pre_norm", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("depth", [1, 4, 30])
def test_equals_one_sum_after_the_other(depth: int, options: dict[str, Any], pre_norm: bool) -> None:
    history, layers, x, leaves = setting(depth, pre_norm, **options)
    every = list(range(depth))
    expected, seen = slow(history, layers, every, x), fast(history, layers, every, x)
    agree(seen, expected)
    agree(gradients(seen, leaves), gradients(expected, leaves))


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("kept", [[0, 1, 7, 8, 9, 17, 18, 19], [3], [], [1, 2, *range(9, 20)]], ids=str)
def test_dropped_layers(kept: list[int], options: dict[str, Any]) -> None:
    history, layers, x, leaves = setting(20, **options)
    expected, seen = slow(history, layers, kept, x), fast(history, layers, kept, x)
    agree(seen, expected)
    agree(gradients(seen, leaves), gradients(expected, leaves))


@pytest.mark.parametrize(("dtype", "units"), [(torch.float32, 40), (torch.bfloat16, 12), (torch.float16, 12)], ids=str)
@pytest.mark.parametrize("pre_norm", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("options", [{}, {"slices": WIDTH}], ids=["scalar", "vector"])
def test_lower_precision(options: dict[str, Any], pre_norm: bool, dtype: torch.dtype, units: int) -> None:
    history, layers, x, leaves = setting(20, pre_norm, dtype, **options)
    every = list(range(20))
    seen = fast(history, layers, every, x)
    found = [*seen, *gradients(seen, leaves)]
    # The same numbers, in float64.
    for module in (history, *layers):
        module.double()
    leaves = [x.detach().double().requires_grad_(), *leaves[1:]]
    exact = slow(history, layers, every, leaves[0])
    for value, expected in zip(found, [*exact, *gradients(exact, leaves)]):
        assert value is not None
        assert expected is not None
        assert value.dtype == dtype
        error = (value.double() - expected).norm() / expected.norm().clamp(min=1e-6)
        assert error < units * torch.finfo(dtype).eps


def test_outputs_may_be_used_elsewhere() -> None:
    history, layers, x, leaves = setting(12)
    found = []
    for run in (slow, fast):
        seen = run(history, layers, list(range(12)), x)
        loss = sum((index + 1) * state.pow(2).sum() for index, state in enumerate(seen))
        found.append(list(torch.autograd.grad(loss, leaves)))
    agree(found[1], found[0])


@pytest.mark.parametrize("with_weight", [False, True], ids=["stops midway", "reaches the first row"])
@pytest.mark.parametrize("last", [0, 1, 6, 11])
def test_gradients_of_a_part(last: int, with_weight: bool) -> None:
    history, layers, x, leaves = setting(12)
    every, found = list(range(12)), []
    for run in (slow, fast):
        seen = run(history, layers, every, x)
        chosen: list[Any] = [seen[7], layers[8].inner.weight] + [history.weight] * with_weight
        found.append(
            [
                *torch.autograd.grad(seen[last].sum(), leaves, allow_unused=True, retain_graph=True),
                *torch.autograd.grad(seen[-1].pow(2).sum(), chosen, allow_unused=True, retain_graph=True),
                *torch.autograd.grad(seen[last].pow(3).sum(), leaves, allow_unused=True, retain_graph=True),
                *torch.autograd.grad(seen[-1].pow(2).sum(), leaves),
            ]
        )
    agree(found[1], found[0])


def test_a_second_backward_pass_must_be_asked_for() -> None:
    history, layers, x, _ = setting(3)
    loss = fast(history, layers, [0, 1, 2], x)[-1].sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("freeze", [False, True], ids=["trained", "frozen"])
@pytest.mark.parametrize("embedding", [True, False], ids=["embedding", "no embedding"])
@pytest.mark.parametrize("pre_norm", [True, False], ids=["pre", "post"])
def test_a_layer_that_cuts_the_chain(pre_norm: bool, embedding: bool, freeze: bool) -> None:
    history, layers, x, leaves = setting(12, pre_norm, freeze=freeze)
    cut: list[Any] = list(layers)
    cut[6] = lambda x: layers[6](x).detach()
    history.layer_norms[6].requires_grad_(False)
    x.requires_grad_(embedding)
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    found = [gradients(run(history, cut, list(range(12)), x), leaves) for run in (slow, fast)]
    agree(found[1], found[0])


def test_passes_do_not_disturb_each_other() -> None:
    history, layers, x, leaves = setting(9)
    others = [x.detach() + 1, x.detach() * 2]
    passes = [history.start() for _ in others]
    for layer in range(9):
        others = [layers[layer](past.input(layer, y)) for past, y in zip(passes, others)]
    found = [past.finish(y) for past, y in zip(passes, others)]
    for y, out, start in zip(others, found, [x.detach() + 1, x.detach() * 2]):
        expected = slow(history, layers, list(range(9)), start)[-1]
        torch.testing.assert_close(out, expected, **EXACT)
        agree(gradients([out], leaves[1:]), gradients([expected], leaves[1:]))
        assert y.grad_fn is not None


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_layers(reentrant: bool) -> None:
    history, layers, x, leaves = setting(9)

    def again(layer: nn.Module) -> Any:
        return lambda x: checkpoint(layer, x, use_reentrant=reentrant)

    every = list(range(9))
    found = []
    for run, chosen in ((slow, layers), (fast, [again(layer) for layer in layers])):
        for leaf in leaves:
            leaf.grad = None
        run(history, chosen, every, x)[-1].pow(2).sum().backward()
        found.append([leaf.grad for leaf in leaves])
    agree(found[1], found[0])


def test_saved_elsewhere() -> None:
    history, layers, x, leaves = setting(9)
    with torch.autograd.graph.save_on_cpu():
        found = fast(history, layers, list(range(9)), x)
    agree(gradients(found, leaves), gradients(slow(history, layers, list(range(9)), x), leaves))


def test_mixed_precision_keeps_the_type_of_the_outputs() -> None:
    history, _, x, _ = setting(6, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen = fast(history, [lambda x: x * 0.5] * 6, list(range(6)), x)
        seen[-1].pow(2).sum().backward()
    assert {state.dtype for state in seen} == {torch.float32}
    agree(seen, slow(history, [lambda x: x * 0.5] * 6, list(range(6)), x), rtol=1e-5, atol=1e-6)


@contextmanager
def stored() -> Iterator[dict[int, int]]:
    """The bytes of each piece of memory that autograd keeps for the backward pass."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            memory = tensor.untyped_storage()
            kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield kept


@pytest.mark.parametrize("pre_norm", [True, False], ids=["pre", "post"])
@pytest.mark.parametrize("depth", [12, 48])
def test_one_tensor_is_stored_for_each_output(depth: int, pre_norm: bool) -> None:
    history = LayerHistory(64, range(depth + 1), pre_norm, HistoryOptions())
    x = torch.randn(16, 4, 64, requires_grad=True)
    with stored() as kept:
        # The layers keep nothing.
        seen = fast(history, [lambda x: x + 1.0] * depth, list(range(depth)), x)
    size = x.numel() * x.element_size()
    large = sum(size_ for size_ in kept.values() if size_ >= size)
    # Post-norm, the norm of a sum keeps its output as well, which a layer would keep anyway.
    expected = (depth + 1) * size * (1 if pre_norm else 2) - (0 if pre_norm else size)
    assert large == expected
    assert sum(kept.values()) - large < 0.1 * large
    assert seen[-1].requires_grad


def test_no_graph_without_gradients() -> None:
    history, layers, x, _ = setting(9)
    with torch.no_grad(), stored() as kept:
        seen = fast(history, layers, list(range(9)), x)
    assert not kept
    assert not any(state.requires_grad for state in seen)
    agree(seen, [state.detach() for state in slow(history, layers, list(range(9)), x)])


class Reads(TorchDispatchMode):
    """Counts the elements that products read."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = {"sums": 0, "weights": 0}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = {"mm": "sums", "addmv": "sums", "bmm": "weights"}.get(func._schema.name.split("::")[1])
        if name:
            self.elements[name] += max(arg.numel() for arg in args)
        return func(*args, **(kwargs or {}))


def test_outputs_are_read_in_blocks() -> None:
    depth, size = 48, 16 * 4 * 64
    history = LayerHistory(64, range(depth + 1), True, HistoryOptions())
    x = torch.randn(16, 4, 64, requires_grad=True)
    with Reads() as forward:
        out = fast(history, [lambda x: x + 1.0] * depth, list(range(depth)), x)[-1]
    with Reads() as backward:
        out.sum().backward()
    # One after the other, it is 49 * 50 / 2 = 1,225 reads.
    for reads in (forward, backward):
        assert 200 < reads.elements["sums"] / size < 350
    assert forward.elements["weights"] == 0
    assert backward.elements["weights"] / size < 250


@pytest.mark.parametrize("options", [{}, {"slices": WIDTH}, {"window": 3}], ids=["scalar", "vector", "window"])
@pytest.mark.parametrize("kept", [list(range(24)), [0, 3, 4, 9, *range(12, 24)]], ids=["all", "dropped"])
def test_the_host_waits_for_no_row(kept: list[int], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutputNorm, "obstacle", lambda norm, x: "as on a GPU")
    history = LayerHistory(WIDTH, range(25), True, HistoryOptions(**options))
    x = torch.randn(4, 2, WIDTH, requires_grad=True)
    with Waits() as counted:
        fast(history, [lambda x: x + 1.0] * 24, kept, x)[-1].sum().backward()
    assert counted.waits == {}
    assert counted.operations > len(kept)


def test_channels_are_summed_in_blocks() -> None:
    history = LayerHistory(WIDTH, range(49), True, HistoryOptions(slices=WIDTH))
    x = torch.randn(4, 2, WIDTH, requires_grad=True)
    with Waits() as forward:
        out = fast(history, [lambda x: x + 1.0] * 48, list(range(48)), x)[-1]
    with Waits() as backward:
        out.sum().backward()
    # One pair after the other, it is 49 * 50 / 2 = 1,225 additions in the forward pass, and four times that behind.
    assert forward.operations < 900
    assert backward.operations < 1300


def test_memory_for_gradients_is_taken_when_layers_have_freed_theirs() -> None:
    history, x, rooms = LayerHistory(4, range(48), True, HistoryOptions()), torch.randn(2, 2, 4), []
    past = history.start()

    def look(gradient: Tensor) -> None:
        tape = past.sums.tape
        rooms.append(0 if tape.gradients is None else len(tape.gradients.values))

    for layer in range(47):
        x = past.input(layer, x) + 0.0
        x.register_hook(look)
    past.finish(x).sum().backward()
    assert rooms == [2] * 2 + [12] * 10 + [48] * 35


def test_no_second_derivative() -> None:
    history, layers, x, _ = setting(2)
    out = fast(history, layers, [0, 1], x)[-1]
    (gradient,) = torch.autograd.grad(out.pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
