"""The decoder that sees both sides against its formulas, sentence by sentence and word by word."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.models import PRE_NORM, SIZE, batch, build, incremental_logits, logits, task
from support.slow import slow_but
from torch import Tensor

from deepnmt.kernels.reversal import reversed_words
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.model.two_sided import greedy_translation

PAD, EOS = 1, 2
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [13]]
TARGETS = [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8], []]
INPUTS = batch(SOURCES, TARGETS)
KINDS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": PRE_NORM,
    "no norm": {"encoder_norm": "none", "decoder_norm": "none"},
    "b2t, merged": {"encoder_norm": "b2t", "decoder_norm": "b2t", "merged_attention": True},
    "admin": {"residual_scale": "admin"},
    "relative, shared": {"decoder_max_relative_length": 2, "share_all_embeddings": True},
    "other widths": {"decoder_embed_dim": 24, "decoder_input_dim": 12, "decoder_output_dim": 20},
    "skipping": {**PRE_NORM, "decoder_skip": 0.5, "skip_scale": "inference"},
}


def two_sided(options: dict[str, Any]) -> Any:
    """A model whose backward translations end at different lengths."""
    model = build({"two_sided": True, **options}, seed=7 if "residual_scale" in options else 1)
    with torch.no_grad():
        model.encoder.backward_decoder.output_projection.weight.mul_(4)
        model.encoder.backward_decoder.output_projection.weight[EOS].mul_(2)
        for layer in model.decoder.layers:
            layer.backward_attn.q_proj.weight.mul_(4)
    return model


def encoded(model: Any, sources: list[list[int]]) -> Any:
    inputs = batch(sources, [[]] * len(sources))
    return model.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])


@torch.no_grad()
def written_backward(model: Any, source: list[int]) -> list[int]:
    """The most probable word after word, each from a pass over all before it; at most twice the source's and ten."""
    out, tokens = encoded(model, [source]), [EOS]
    while len(tokens) <= 2 * len(source) + 10:
        scores = model.encoder.backward_decoder(torch.tensor([tokens]), encoder_out=out)[0][0, -1]
        word = max((number for number in range(len(scores)) if number != PAD), key=lambda number: float(scores[number]))
        if word == EOS:
            break
        tokens.append(word)
    return tokens


def attended(attention: Any, query: Tensor, memory: Tensor) -> Tensor:
    """T x C for T x C and L x C, head by head."""
    q, k, v = (f(x) for f, x in ((attention.q_proj, query), (attention.k_proj, memory), (attention.v_proj, memory)))
    size, found = attention.head_dim, []
    for head in range(attention.num_heads):
        part = slice(head * size, (head + 1) * size)
        scores = (q[:, part] @ k[:, part].T / math.sqrt(size)).exp()
        found.append(scores / scores.sum(1, keepdim=True) @ v[:, part])
    return attention.out_proj(torch.cat(found, 1))  # type: ignore[no-any-return]


# The test below has all kinds without the second attention.
@pytest.mark.parametrize("kind", slow_but(["post-norm", "b2t, merged", "relative, shared", "other widths"], KINDS))
def test_states_and_their_attention(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch against sentences by themselves, which have no padding, with the attention written out."""
    model = two_sided(KINDS[kind])
    together, stepwise = logits(model, INPUTS), incremental_logits(model, INPUTS)
    translations = [written_backward(model, source) for source in SOURCES]
    assert len(set(map(len, translations))) > 1, "too easy: all equally long"
    states = []
    for source, tokens in zip(SOURCES, translations):
        found = encoded(model, [source])
        own, _ = model.encoder.backward_decoder.extract_features(torch.tensor([tokens]), encoder_out=found)
        states.append(own[0])
        torch.testing.assert_close(found["backward_out"][0][:, 0], own[0])

    for row, (source, target) in enumerate(zip(SOURCES, TARGETS)):
        for layer in model.decoder.layers:
            attention = layer.backward_attn

            def forward(query: Tensor, attention: Any = attention, row: int = row, **options: Any) -> Any:
                return attended(attention, query[:, 0], states[row]).unsqueeze(1), None

            monkeypatch.setattr(attention, "forward", forward)
        alone = logits(model, batch([source], [target]))[0]
        for found in (together, stepwise):
            # fairseq's incremental softmax is float32, whatever the parameters are.
            torch.testing.assert_close(found[row, : len(target) + 1], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_without_the_second_attention_it_is_the_plain_model(options: dict[str, Any]) -> None:
    model, plain = two_sided(options), build(options)
    states = {name: tensor for name, tensor in model.state_dict().items() if "backward" not in name}
    plain.load_state_dict(states)
    assert not torch.allclose(logits(model, INPUTS), logits(plain, INPUTS), atol=1e-3)
    with torch.no_grad():
        for layer in model.decoder.layers:
            layer.backward_attn.out_proj.weight.zero_()
            layer.backward_attn.out_proj.bias.zero_()
    torch.testing.assert_close(logits(model, INPUTS), logits(plain, INPUTS), rtol=0, atol=0)


def test_a_long_translation_ends() -> None:
    model = two_sided({})
    with torch.no_grad():
        model.encoder.backward_decoder.output_projection.weight[EOS] = 0  # other words have higher scores
    found = encoded(model, SOURCES)["backward_padding_mask"][0]
    lengths = [len(written_backward(model, source)) for source in SOURCES]
    assert (~found).sum(1).tolist() == lengths
    assert lengths == [21, 17, 13]
    short = two_sided({"max_target_positions": 4})
    with torch.no_grad():
        short.encoder.backward_decoder.output_projection.weight[EOS] = 0
    assert (~encoded(short, SOURCES)["backward_padding_mask"][0]).sum(1).tolist() == [4, 4, 4]


def test_the_reference_is_not_given_away() -> None:
    """In training mode, what is predicted before a word does not depend on it; of the future, nothing is seen."""
    model = two_sided({}).train()
    before = logits(model, batch(SOURCES[:1], [[6, 7, 8, 9]]))
    after = logits(model, batch(SOURCES[:1], [[6, 7, 8, 10]]))
    torch.testing.assert_close(before[0, :4], after[0, :4], rtol=0, atol=0)
    assert not torch.allclose(before[0, 4], after[0, 4])


def test_the_greedy_translation_has_no_dropout() -> None:
    """And leaves the training mode as it was."""
    model = two_sided({"dropout": 0.5})
    out, decoder, longest = encoded(model, SOURCES), model.encoder.backward_decoder, torch.tensor([9, 9, 9])
    expected = greedy_translation(decoder, out, longest)
    assert not decoder.training
    decoder.train()
    assert all(greedy_translation(decoder, out, longest).equal(expected) for _ in range(3))
    assert decoder.training
    states = [decoder.extract_features(expected, encoder_out=out)[0] for _ in range(2)]
    assert not states[0].equal(states[1])


def test_the_backward_decoder_rates_the_reversed_reference() -> None:
    model = two_sided(PRE_NORM)
    with torch.no_grad():
        output = model(**INPUTS, backward=True)[1]["backward_output"]
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS)):
        tokens = torch.tensor([[EOS, *target[::-1]]])
        expected = model.encoder.backward_decoder(tokens, encoder_out=encoded(model, [source]))[0][0]
        torch.testing.assert_close(output[row, : len(target) + 1], expected.detach())
    assert "backward_output" not in model(**INPUTS)[1]


def test_sentences_of_a_batch_change_places() -> None:
    model = two_sided({})
    order = torch.tensor([2, 0, 0])
    moved = model.encoder.reorder_encoder_out(encoded(model, SOURCES), order)
    found = model.decoder(INPUTS["prev_output_tokens"][order], encoder_out=moved)[0].detach()
    torch.testing.assert_close(found, logits(model, INPUTS)[order])


def test_checkpointed_activations_give_the_same_gradients() -> None:
    found = []
    for more in ({}, {"checkpoint_activations": True}):
        model = two_sided({**PRE_NORM, **more}).train()
        output, extra = model(**INPUTS, backward=True)
        (output.square().sum() + extra["backward_output"].square().sum()).backward()
        found.append({name: parameter.grad for name, parameter in model.named_parameters()})
    assert all(gradient is not None for gradient in found[0].values())
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("initializer", ["fairseq-2019", "xavier", "t-fixup", "ds-init", "lipschitz", "deepnorm"])
def test_both_decoders_are_initialised_alike(initializer: str) -> None:
    norms = {"encoder_norm": "none", "decoder_norm": "none"} if initializer == "t-fixup" else {}
    size = {**SIZE, "encoder_embed_dim": 64, "decoder_embed_dim": 64, "decoder_layers": 2}
    config = DLCLTransformerConfig(**{**size, **norms, "initializer": initializer, "two_sided": True})
    model = DLCLTransformerModel.build_model(config, task())
    for one, other in zip(model.decoder.layers, model.encoder.backward_decoder.layers):
        theirs = dict(other.named_parameters())
        for name, mine in one.named_parameters():
            if mine.dim() == 2 and name in theirs:
                assert float(theirs[name].detach().std()) == pytest.approx(float(mine.detach().std()), rel=0.15), name


@pytest.mark.parametrize("number", range(4))
def test_reversal(number: int) -> None:
    """Of words alone, wherever the padding is; twice, it is nothing."""
    rows = [
        ([5, 6, 7, 2], [7, 6, 5, 2]),
        ([1, 2, 8, 9], [1, 2, 9, 8]),
        ([2, 1, 1, 1], [2, 1, 1, 1]),
        ([5, 2, 6, 1], [6, 2, 5, 1]),
    ]
    tokens, expected = (torch.tensor(row) for row in rows[number])
    assert reversed_words(tokens, EOS, PAD).equal(expected)
    every = torch.tensor([row for row, _ in rows])
    assert reversed_words(every, EOS, PAD)[number].equal(expected)
    assert reversed_words(reversed_words(every, EOS, PAD), EOS, PAD).equal(every)
