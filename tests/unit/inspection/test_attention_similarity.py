"""The similarity of decoder layers against equation (48), with loops over positions, and its blocks by brute force."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from support.language_models import language_model
from support.models import build, dictionary
from support.sublayer_reference import BATCHES, PAD

from deepnmt.errors import UserError
from deepnmt.inspection.attention_similarity import blocks, similarities


def distributions(model: Any, batch: dict[str, Any]) -> list[list[list[float]]]:
    """For each layer and each real position, the mean over the heads of its attention, by loops."""
    inputs: list[torch.Tensor] = []

    def keep(_: Any, args: Any, given: dict[str, Any]) -> None:
        inputs.append(given["query"])

    layers = model.decoder.layers
    hooks = [layer.self_attn.register_forward_pre_hook(keep, with_kwargs=True) for layer in layers]
    fed = batch["net_input"]
    tokens = fed.get("prev_output_tokens", fed["src_tokens"])
    with torch.no_grad():
        model.eval()(**fed)
    found = []
    for layer, x, hook in zip(layers, inputs, hooks):
        hook.remove()
        attention, rows = layer.self_attn, []
        q, k = attention.q_proj(x), attention.k_proj(x)
        size = attention.head_dim
        for sentence in range(x.size(1)):
            for t in range(len(x)):
                if tokens[sentence, t] == PAD:
                    continue
                mean = [0.0] * (t + 1)
                for head in range(attention.num_heads):
                    part = slice(head * size, (head + 1) * size)
                    keys = [k[s, sentence, part] + distance(attention, s - t) for s in range(t + 1)]
                    scores = [float(q[t, sentence, part] @ key) / math.sqrt(size) for key in keys]
                    total = sum(map(math.exp, scores))
                    mean = [m + math.exp(e) / total / attention.num_heads for m, e in zip(mean, scores)]
                rows.append(mean)
        found.append(rows)
    return found


def distance(attention: Any, places: int) -> Any:
    """The vector that relative positions (7) add to the keys of a distance."""
    vectors = getattr(attention, "relative_keys", None)
    if vectors is None:
        return 0.0
    farthest = len(vectors) // 2
    return vectors[max(-farthest, min(farthest, places)) + farthest]


def alike(one: list[float], other: list[float]) -> float:
    total = 0.0
    for a, b in zip(one, other):
        middle = (a + b) / 2
        total += a * math.log2(a / middle) / 2 + b * math.log2(b / middle) / 2
    return 1 - total


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decoder_groups": "none", "decoder_norm": "pre"},
        {"decoder_max_relative_length": 2},
        {"decoder_self_attention": "shared", "shared_attention_blocks": "1"},
    ],
)
def test_similarity_is_the_formula(options: dict[str, Any]) -> None:
    model = build(options)
    with torch.no_grad():
        for layer in model.decoder.layers:
            layer.self_attn.q_proj.weight.mul_(8)
    rows = [[*one, *two] for one, two in zip(*(distributions(model, batch) for batch in BATCHES))]
    expected = [[sum(map(alike, one, other)) / len(one) for other in rows] for one in rows]
    found = similarities(model, BATCHES, PAD)
    for i in range(3):
        assert found[i] == pytest.approx(expected[i], abs=1e-6)
    assert found[0][1] < 0.99
    assert all("forward" not in vars(layer.self_attn) for layer in model.decoder.layers)


def test_layers_without_weights_are_refused() -> None:
    for kind, number in (("ssru", 1), ("average", 1), ("shared", 2)):
        with pytest.raises(
            UserError, match=rf"^--attention-similarity: decoder layer {number} has no attention weights"
        ):
            similarities(build({"decoder_self_attention": kind}), BATCHES, PAD)
    with pytest.raises(UserError, match=r"^--attention-similarity: decoder layer 1 has no attention weights of"):
        similarities(build({"merged_attention": True}), BATCHES, PAD)


def test_a_layer_in_several_places_is_refused() -> None:
    model = build({"decoder_share_layers": "0,0,1"})
    message = "^--attention-similarity needs different layers, but the decoder has one layer in several places$"
    with pytest.raises(UserError, match=message):
        similarities(model, BATCHES, PAD)
    with pytest.raises(UserError, match=r"^--attention-similarity needs layers of a Transformer, but the decoder"):
        similarities(model.encoder, BATCHES, PAD)
    # Other layers may share, since only the decoder's are compared.
    assert len(similarities(build({"encoder_share_layers": "0,0,0"}), BATCHES, PAD)) == 3


def test_a_language_model_has_only_targets() -> None:
    model = language_model(dictionary()).double()
    batches = [{"net_input": {"src_tokens": batch["net_input"]["prev_output_tokens"]}} for batch in BATCHES]
    found = similarities(model, batches, PAD)
    rows = [[*one, *two] for one, two in zip(*(distributions(model, batch) for batch in batches))]
    assert found[0][1] == pytest.approx(sum(map(alike, *rows)) / len(rows[0]), abs=1e-6)


def test_blocks_are_as_long_as_they_may_be() -> None:
    draw = random.Random(1)
    for _ in range(200):
        depth, theta = draw.randint(1, 7), draw.random()
        matrix = [[draw.random() for _ in range(depth)] for _ in range(depth)]

        def similarity(first: int, last: int, matrix: Any = matrix) -> float:
            pairs = [matrix[i][j] for i in range(first, last + 1) for j in range(i + 1, last + 1)]
            return sum(pairs) / len(pairs) if pairs else 1.0

        boundaries = blocks(matrix, theta)
        assert (boundaries[0], boundaries[-1]) == (0, depth)
        for first, end in zip(boundaries, boundaries[1:]):
            assert all(similarity(first, last) >= theta for last in range(first + 1, end))
            assert end == depth or similarity(first, end) < theta
