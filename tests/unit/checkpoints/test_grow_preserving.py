"""Growth that keeps the model's function: over connections, norms, residuals, depths and strategies."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.models import EXAMPLE, incremental_logits, logits
from support.preserved import STACKS, Options, assert_preserved, both, checkpoint, difference, model_of
from support.slow import slow_but
from torch import Tensor, nn

from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.errors import UserError

NORMS = ["post", "pre", "none", "b2t"]


# What a history can leave unread only by being chained: then layer norms run twice, on sums of a small variance v too,
# which an epsilon of 1e-5 changes by 1e-5 / 2v.
CHAINING = ("dlcl_window", "dlcl_freeze", "dlcl_softmax")


@st.composite
def boundaries(draw: st.DrawFn, depth: int) -> tuple[int, ...]:
    ends = draw(st.sets(st.integers(1, depth)))
    return (0, *sorted(ends | {depth}))


@st.composite
def models(draw: st.DrawFn, connections: str) -> Options:
    """Options of a model: one stack with these connections, the other with any, and norms and residuals as they go."""
    options: Options = {}
    kinds = (connections, draw(st.sampled_from(["none", "1", "ragged"])))
    for stack, kind in zip(draw(st.permutations(STACKS)), kinds):
        depth = options[f"{stack}_layers"] = draw(st.integers(1, 3))
        options[f"{stack}_groups"] = ",".join(map(str, draw(boundaries(depth)))) if kind == "ragged" else kind
        options[f"{stack}_norm"] = draw(st.sampled_from(NORMS))
    if any(options[f"{stack}_groups"] != "none" for stack in STACKS):
        options["dlcl_granularity"] = draw(st.sampled_from(["scalar", "4", "vector"]))
        options["dlcl_embedding_norm"] = draw(st.booleans())
        option = draw(st.sampled_from(["plain", "plain", *CHAINING]))
        options |= {} if option == "plain" else {option: draw(st.integers(1, 4)) if option == "dlcl_window" else True}
        # The variance of a sum of outputs is above 1; that of their mean can be small, see CHAINING.
        options["dlcl_init"] = "one"
    if all(options[f"{stack}_norm"] in ("post", "b2t") for stack in STACKS):
        options["residual_scale"] = draw(st.sampled_from(["plain", "deepnorm", "admin"]))
    else:
        options["no_decoder_final_norm"] = draw(st.booleans())
    options["merged_attention"] = draw(st.booleans())
    options["encoder_max_relative_length"] = draw(st.sampled_from([0, 2]))
    options["decoder_max_relative_length"] = 0 if options["merged_attention"] else draw(st.sampled_from([0, 2]))
    if draw(st.booleans()):
        options |= {**both("skip", 0.3), "skip_scale": "inference"}
    return options


@st.composite
def growths(draw: st.DrawFn, options: Options, strategy: str) -> Growth:
    """A growth of one stack or both."""
    stacks = draw(st.sampled_from([STACKS, STACKS[:1], STACKS[1:]]))
    depths, groups = {}, {}
    for stack in stacks:
        depth, ends = options[f"{stack}_layers"], options[f"{stack}_groups"]
        more = {"stack": depth, "interleave": depth, "top": 1 + depth // 2, "repeat-top": 2}[strategy]
        depths[stack] = depth + more
        if ends == "1" and draw(st.booleans()):
            old = range(depth + 1)
            scaled = [2 * end for end in old] if strategy == "interleave" else [*old, depth + more]
            groups[stack] = ",".join(map(str, scaled))
    return Growth(depths, groups, strategy, function_preserving=True)


def must_be_possible(options: Options, growth: Growth) -> bool:
    """Where refusing would be a fault; not all that is possible."""
    if options.get("residual_scale") == "deepnorm" and "b2t" in (options["encoder_norm"], options["decoder_norm"]):
        return False
    for stack in growth.depths:
        chained = options[f"{stack}_groups"] != "none" and any(options.get(name) for name in CHAINING)
        if chained and growth.strategy == "interleave":
            # Groups of one layer become two of one, unless others are given.
            if options.get("dlcl_window", 0) and options[f"{stack}_groups"] == "1" and stack not in growth.groups:
                return False
        elif chained:
            final = options[f"{stack}_norm"] == "pre" and not (stack == "decoder" and options["no_decoder_final_norm"])
            if not final and options[f"{stack}_norm"] in ("pre", "none"):
                return False
    return True


@pytest.mark.parametrize("strategy", ["stack", "top", "repeat-top", "interleave"])
@pytest.mark.parametrize("connections", ["none", "1", "ragged"])
def test_logits_stay_as_they_are(strategy: str, connections: str) -> None:
    grown: Counter[bool] = Counter()

    @settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def example(data: st.DataObject) -> None:
        options = data.draw(models(connections))
        growth = data.draw(growths(options, strategy))
        old = checkpoint(options, seed=data.draw(st.integers(1, 100)))
        try:
            new, _ = grow(old, growth)
        except UserError:
            assert not must_be_possible(options, growth)
            grown[False] += 1
            return
        grown[True] += 1
        assert_preserved(old, new, 5e-5 if options.get("dlcl_softmax") else 1e-5)

    example()
    assert grown[True] >= 3, grown


# Models, one for each way in which a new layer can be without effect
WAYS: dict[str, tuple[Options, str]] = {
    "plain-pre": ({**both("groups", "none"), **both("norm", "pre")}, "stack"),
    "plain-post": ({**both("groups", "none"), **both("norm", "post")}, "repeat-top"),
    "plain-none": ({**both("groups", "none"), **both("norm", "none")}, "interleave"),
    "plain-b2t": ({**both("groups", "none"), **both("norm", "b2t"), "merged_attention": True}, "top"),
    "admin": ({**both("groups", "none"), "residual_scale": "admin"}, "stack"),
    "unread-pre": ({**both("norm", "pre"), "dlcl_granularity": "vector"}, "stack"),
    "unread-post": ({**both("norm", "post")}, "repeat-top"),
    "unread-groups": ({**both("groups", "3"), **both("norm", "none")}, "top"),
    "unread-interleaved": ({**both("norm", "pre")}, "interleave"),
    "mixed-groups": ({**both("groups", "0,2,3"), **both("norm", "post")}, "interleave"),
    "softmax": ({"dlcl_softmax": True, **both("norm", "post")}, "stack"),
    "frozen": ({"dlcl_freeze": True, "dlcl_init": "one", **both("norm", "pre")}, "stack"),
    "frozen-interleaved": ({"dlcl_freeze": True, **both("norm", "none")}, "interleave"),
    "window": ({"dlcl_window": 2, **both("norm", "pre")}, "stack"),
}


@pytest.mark.parametrize(("options", "strategy"), slow_but([*WAYS.values()][::2], WAYS.values()), ids=WAYS)
def test_training_breaks_the_symmetry(options: Options, strategy: str) -> None:
    old = checkpoint(options)
    depth = {"top": 5}.get(strategy, 6)
    new, _ = grow(old, Growth(dict.fromkeys(STACKS, depth), strategy=strategy, function_preserving=True))
    model = model_of(new)
    real = EXAMPLE["prev_output_tokens"].ne(1)
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[real], logits(model_of(old), EXAMPLE)[real], rtol=0, atol=1e-4
    )
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    target = EXAMPLE["prev_output_tokens"].flatten()
    for update in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(**EXAMPLE)[0].flatten(0, 1), target).backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        if update == 0:
            # Each new layer, or new weights that read its group, learn at once.
            assert_something_learns(gradients, depth)
        if update == 3:
            # The keys' bias shifts all scores alike, and never learns.
            still = [
                name
                for name, gradient in gradients.items()
                if ".layers." in name and "k_proj.bias" not in name and not gradient.abs().max() > 0
            ]
            assert still == []
        optimizer.step()
    for stack in STACKS:
        weights = [model.get_submodule(f"{stack}.layers.{layer}.fc1").weight for layer in range(depth)]
        assert all(not torch.equal(weights[i], weights[j]) for i in range(depth) for j in range(i))


def assert_something_learns(gradients: dict[str, Tensor], depth: int) -> None:
    for stack in STACKS:
        weight = gradients.get(f"{stack}.history.weight")
        for layer in range(depth):
            projections = [f"{stack}.layers.{layer}.fc2.weight"]
            projections += [n for n in gradients if n.startswith(f"{stack}.layers.{layer}.") and "out_proj.weight" in n]
            learns = all(gradients[name].abs().max() > 0 for name in projections)
            assert learns or (weight is not None and weight[-1].ne(0).all())


def test_what_is_written_into_a_plain_post_norm_stack() -> None:
    old = checkpoint({**both("groups", "none"), "residual_scale": "admin", "encoder_layers": 2})["model"]
    state = checkpoint({**both("groups", "none"), "residual_scale": "admin", "encoder_layers": 2})
    new = grow(state, Growth({"encoder": 4}, function_preserving=True))[0]["model"]
    layers, source = "encoder.layers.", {0: 0, 1: 1, 2: 0, 3: 1}
    changed = set()
    for name in (n for n in new if n.startswith(layers)):
        number, rest = name[len(layers) :].split(".", 1)
        if not torch.equal(new[name], old[f"{layers}{source[int(number)]}.{rest}"]):
            changed.add(f"{number}.{rest}")
    zero = {f"{n}.{part}.{key}" for n in (2, 3) for part in ("self_attn.out_proj", "fc2") for key in ("weight", "bias")}
    one = {f"{n}.{part}_residual.weight" for n in (2, 3) for part in ("self_attn", "final")}
    plain = {f"1.final_layer_norm.{key}" for key in ("weight", "bias")}
    plain |= {f"{n}.{p}_layer_norm.{key}" for n in (2, 3) for p in ("self_attn", "final") for key in ("weight", "bias")}
    moved = {f"3.final_layer_norm.{key}" for key in ("weight", "bias")}
    assert changed == zero | one | plain - moved
    # The new top layer's own norm is a copy of the old one's: gain and bias of the top norm move to where they are.
    for name in zero | {name for name in plain - moved if name.endswith("bias")}:
        assert new[layers + name].eq(0).all(), name
    for name in one | {name for name in plain - moved if name.endswith("weight")}:
        assert new[layers + name].eq(1).all(), name
    other = {name for name in new if not name.startswith(layers)}
    assert all(torch.equal(new[name], old[name]) for name in other)


def test_gain_and_bias_move_to_the_top_of_a_run() -> None:
    state = checkpoint({**both("groups", "none"), "decoder_norm": "b2t", "decoder_layers": 2})
    old, new = state["model"], grow(state, Growth({"decoder": 6}, strategy="interleave", function_preserving=True))[0]
    for layer in range(6):
        for key, plain in (("weight", 1), ("bias", 0)):
            name = f"decoder.layers.{layer}.final_layer_norm.{key}"
            tensor = new["model"][name]
            if layer in (2, 5):
                assert torch.equal(tensor, old[f"decoder.layers.{layer // 3}.final_layer_norm.{key}"])
            else:
                assert tensor.eq(plain).all()


@pytest.mark.parametrize("stacks", [STACKS, STACKS[:1], STACKS[1:]], ids=str)
def test_deepnorm_scales_are_made_up_for(stacks: tuple[str, ...]) -> None:
    state = checkpoint({**both("groups", "none"), "residual_scale": "deepnorm", "encoder_layers": 2})
    depths = {"encoder": 2, "decoder": 3}
    deeper = {**depths, **{stack: 2 * depths[stack] for stack in stacks}}
    new, _ = grow(state, Growth({stack: deeper[stack] for stack in stacks}, function_preserving=True))

    def scale(stack: str, depth: dict[str, int]) -> float:
        if stack == "decoder":
            return math.pow(3 * depth["decoder"], 1 / 4)
        return 0.81 * math.pow(depth["encoder"] ** 4 * depth["decoder"], 1 / 16)

    for stack in STACKS:
        factor = scale(stack, deeper) / scale(stack, depths)
        for layer in range(depths[stack]):
            for part in ("self_attn.out_proj.weight", "self_attn.out_proj.bias", "fc2.weight", "fc2.bias"):
                name = f"{stack}.layers.{layer}.{part}"
                torch.testing.assert_close(new["model"][name], state["model"][name] * factor, rtol=1e-12, atol=0)
    assert_preserved(state, new)


def test_skipping_at_inference_is_made_up_for() -> None:
    options = {**both("groups", "none"), "encoder_norm": "pre", "encoder_skip": 0.4, "skip_scale": "inference"}
    state = checkpoint({**options, "encoder_layers": 2})
    new, _ = grow(state, Growth({"encoder": 4}, function_preserving=True))
    # (15): sublayer l of n is multiplied by 1 - 0.4 l / n, with n = 4 before and 8 after.
    for number, part in enumerate(["0.self_attn.out_proj", "0.fc2", "1.self_attn.out_proj", "1.fc2"], start=1):
        factor = (1 - 0.4 * number / 4) / (1 - 0.4 * number / 8)
        name = f"encoder.layers.{part}.weight"
        torch.testing.assert_close(new["model"][name], state["model"][name] * factor, rtol=1e-12, atol=0)
    assert_preserved(state, new)
    assert_preserved(state, grow(state, Growth({"decoder": 6}, function_preserving=True))[0])


def test_unread_layers_are_whole_copies() -> None:
    state = checkpoint({**both("norm", "post"), "residual_scale": "admin"})
    for strategy, sources in (("stack", [0, 1, 2, 0, 1, 2]), ("interleave", [0, 0, 1, 1, 2, 2])):
        new = grow(state, Growth({"encoder": 6}, strategy=strategy, function_preserving=True))[0]["model"]
        for name, tensor in new.items():
            if name.startswith("encoder.layers."):
                *start, number, rest = name.split(".", 3)
                source = ".".join([*start, str(sources[int(number)]), rest])
                assert torch.equal(tensor, state["model"][source]), name


def test_a_recurrence_grows_where_copies_are_unread() -> None:
    state = checkpoint({**both("norm", "pre"), "decoder_self_attention": "ssru"})
    assert_preserved(state, grow(state, Growth({"decoder": 6}, function_preserving=True))[0])


def test_growth_without_it_changes_the_function() -> None:
    state = checkpoint({**both("norm", "pre")})
    assert difference(model_of(state), model_of(grow(state, Growth({"encoder": 6}))[0])) > 0.01
