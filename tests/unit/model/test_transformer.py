"""The model as a whole: equal to fairseq's own where it should be, and all axes together."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from support.models import (
    EXAMPLE,
    PLAIN,
    PRE_NORM,
    SIZE,
    batch,
    build,
    build_stock,
    dictionary,
    incremental_logits,
    logits,
    scramble,
    task,
)

from deepnmt.model import other_decoders
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel

NORMS = {"post": {}, "pre": PRE_NORM}
CONNECTIONS = {
    "plain": PLAIN,
    "dlcl": {"encoder_groups": "1", "decoder_groups": "1"},
    "group-dense": {"encoder_groups": "2", "decoder_groups": "2"},
    "ragged": {"encoder_groups": "0,1,3", "decoder_groups": "0,2,3"},
    "encoder-only": {"encoder_groups": "1", "decoder_groups": "none"},
    "windowed-vector": {"dlcl_window": 2, "dlcl_granularity": "vector"},
}
POSITIONS = {
    "absolute": {},
    "learned": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "relative-keys": {
        "encoder_max_relative_length": 2,
        "decoder_max_relative_length": 2,
        "relative_positions": "keys",
    },
    "relative-only": {
        "encoder_max_relative_length": 3,
        "decoder_max_relative_length": 3,
        "no_token_positional_embeddings": True,
    },
}
STOCK = {
    "post": {},
    "pre": PRE_NORM,
    "learned-positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "no-positions": {"no_token_positional_embeddings": True},
    "shared": {"share_all_embeddings": True},
    "decoder-shared": {"share_decoder_input_output_embed": True},
    "embedding-norm": {"layernorm_embedding": True},
    "gelu": {"activation_fn": "gelu", "activation_dropout": 0.1, "attention_dropout": 0.1},
    "widths-and-depths": {
        "encoder_embed_dim": 24,
        "decoder_embed_dim": 16,
        "encoder_layers": 2,
        "encoder_ffn_embed_dim": 40,
        "decoder_attention_heads": 2,
    },
    "decoder-projections": {"decoder_input_dim": 12, "decoder_output_dim": 20},
    "checkpointed": {"checkpoint_activations": True},
    "layerdrop": {"encoder_layerdrop": 0.3, "decoder_layerdrop": 0.3},
    "cross-self-attention": {"cross_self_attention": True, "no_cross_attention": True},
    "quant-noise": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 8},
    "adaptive-softmax": {"adaptive_softmax_cutoff": [5, 10]},
}


@pytest.mark.parametrize("options", STOCK.values(), ids=STOCK)
def test_plain_model_equals_fairseqs(options: dict[str, Any]) -> None:
    stock = build_stock({**options, "dropout": 0.1})
    scramble(stock)
    own = build({**PLAIN, **options, "dropout": 0.1}).float()
    assert list(own.state_dict()) == list(stock.state_dict())
    own.load_state_dict(stock.state_dict())
    torch.testing.assert_close(logits(own, EXAMPLE), logits(stock.eval(), EXAMPLE), rtol=0, atol=1e-5)
    with torch.no_grad():
        encoded = [model.encoder(EXAMPLE["src_tokens"], return_all_hiddens=True) for model in (stock, own)]
        torch.testing.assert_close(encoded[1]["encoder_states"], encoded[0]["encoder_states"])
        chosen = {"alignment_layer": 1, "alignment_heads": 2}
        attention = [model(**EXAMPLE, **chosen)[1]["attn"][0] for model in (stock, own)]
        assert (attention[0] is None) == (attention[1] is None) == bool(options.get("no_cross_attention"))
        torch.testing.assert_close(attention[1], attention[0])
    # In training too: the same dropout, layers dropped, and gradients, for the same seed; sums differ in their order.
    gradients = []
    for model in (stock.train(), own.train()):
        torch.manual_seed(5)
        model(**EXAMPLE)[0].pow(2).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    tolerance = 1e-6 * max(gradient.abs().max().item() for gradient in gradients[0].values() if gradient is not None)
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-4, atol=tolerance, msg=name)


@pytest.mark.parametrize("shared", ["share_all_embeddings", "share_decoder_input_output_embed", "merge_src_tgt_embed"])
def test_adaptive_softmax_with_shared_embeddings_can_be_loaded(shared: str) -> None:
    """fairseq's own decoder adds a matrix that such a model does not have."""
    options = {"adaptive_softmax_cutoff": [5, 10], shared: True}
    trained, loaded = (build(options, seed=seed) for seed in (1, 2))
    scramble(trained)
    loaded.load_state_dict(trained.state_dict(), strict=True)
    torch.testing.assert_close(logits(loaded, EXAMPLE), logits(trained, EXAMPLE), rtol=0, atol=0)


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("connections", CONNECTIONS.values(), ids=CONNECTIONS)
@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_incremental_decoding_equals_full_pass(
    norm: dict[str, Any], connections: dict[str, Any], positions: dict[str, Any]
) -> None:
    model = build({**norm, **connections, **positions})
    full, stepwise = logits(model, EXAMPLE), incremental_logits(model, EXAMPLE)
    real = EXAMPLE["prev_output_tokens"].ne(1)
    # fairseq's incremental softmax and positions are float32, whatever the parameters are.
    torch.testing.assert_close(stepwise[real], full[real], rtol=0, atol=2e-6)


@pytest.mark.parametrize("positions", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("connections", CONNECTIONS.values(), ids=CONNECTIONS)
@pytest.mark.parametrize("left", [True, False], ids=["left-padded", "right-padded"])
def test_padding_never_changes_a_sentence(connections: dict[str, Any], positions: dict[str, Any], left: bool) -> None:
    model = build({**PRE_NORM, **connections, **positions})
    short, long = ([5, 6, 7], [8, 9]), ([10, 11, 12, 13, 14, 15, 16], [5, 6, 7, 8, 9, 10])
    alone = logits(model, batch([short[0]], [short[1]]))
    together = logits(model, batch([short[0], long[0]], [short[1], long[1]], left_pad_source=left))
    torch.testing.assert_close(together[:1, : alone.size(1)], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("positions", [POSITIONS["absolute"], POSITIONS["relative-only"]], ids=["absolute", "relative"])
@pytest.mark.parametrize("connections", CONNECTIONS.values(), ids=CONNECTIONS)
def test_half_precision_agrees(connections: dict[str, Any], positions: dict[str, Any], dtype: torch.dtype) -> None:
    options = {**PRE_NORM, **connections, **positions}
    exact, half = build(options), build(options).to(dtype)
    error = (logits(half, EXAMPLE).double() - logits(exact, EXAMPLE)).abs().max()
    # Ten half-precision roundings of numbers around the largest logit.
    bound = 10 * torch.finfo(dtype).eps * logits(exact, EXAMPLE).abs().max()
    assert error < bound
    half.train()(**EXAMPLE)[0].float().pow(2).mean().backward()
    for name, parameter in half.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("connections", CONNECTIONS.values(), ids=CONNECTIONS)
def test_checkpointed_activations_give_the_same_gradients(connections: dict[str, Any]) -> None:
    options = {**PRE_NORM, **connections, **POSITIONS["relative-keys"], "dropout": 0.2}
    gradients = []
    for extra in ({}, {"checkpoint_activations": True}, {"offload_activations": True}):
        model = build({**options, **extra}).train()
        torch.manual_seed(7)
        model(**EXAMPLE)[0].pow(2).sum().backward()
        gradients.append([p.grad for p in model.parameters()])
    for other in gradients[1:]:
        torch.testing.assert_close(other, gradients[0])


@pytest.mark.parametrize(
    "options",
    [
        {"share_all_embeddings": True, "layernorm_embedding": True},
        {"share_decoder_input_output_embed": True, "activation_fn": "gelu"},
        {"encoder_layers": 5, "decoder_layers": 2, "encoder_embed_dim": 24, "decoder_embed_dim": 16},
        {"encoder_layerdrop": 0.4, "decoder_layerdrop": 0.4},
        {"adaptive_softmax_cutoff": [5, 10]},
        {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 8},
        {"no_decoder_final_norm": True},
        {"decoder_input_dim": 12, "decoder_output_dim": 20},
    ],
    ids=lambda options: next(iter(options)),
)
def test_composes_with_fairseqs_options(options: dict[str, Any]) -> None:
    model = build({**PRE_NORM, "encoder_groups": "2", **POSITIONS["relative-keys"], **options}).float()
    unused = set()
    for seed in range(6):
        torch.manual_seed(seed)
        model.zero_grad()
        model.train()(**EXAMPLE)[0].pow(2).sum().backward()
        missing = {name for name, p in model.named_parameters() if p.grad is None and "adaptive_softmax" not in name}
        unused = missing if seed == 0 else unused & missing
    assert not unused
    # Stepwise decoding sees the same options.
    model.double().eval()
    real = EXAMPLE["prev_output_tokens"].ne(1)
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[real], logits(model, EXAMPLE)[real], atol=2e-6, rtol=0
    )


def test_separate_dictionaries() -> None:
    torch.manual_seed(1)
    config = DLCLTransformerConfig(**SIZE)
    model = DLCLTransformerModel.build_model(config, task(dictionary(20), dictionary(30)))
    assert logits(model.eval(), EXAMPLE).size(-1) == 34


# width, feed-forward width, heads, encoder layers, decoder layers, norm, as the papers give them
ARCHITECTURES: dict[str, tuple[int, int, int, int, int, str]] = {
    "dlcl_transformer": (512, 2048, 8, 6, 6, "post"),
    "dlcl_transformer_tiny": (128, 256, 4, 12, 4, "pre"),
    "dlcl_transformer_iwslt_de_en": (512, 1024, 4, 6, 6, "pre"),
    "dlcl_transformer_wmt_en_de": (512, 2048, 8, 6, 6, "pre"),
    "dlcl_transformer_wmt_en_de_big": (1024, 4096, 16, 6, 6, "pre"),
    "dlcl_transformer_wmt_en_de_30l": (512, 2048, 8, 30, 6, "pre"),
    "dlcl_transformer_wmt_en_de_postnorm_25l": (512, 2048, 8, 25, 6, "post"),
}
# What the published code sets beside the method: attention and ReLU dropout, initial weights, relative keys.
CODE_DROPOUTS = {"attention_dropout": 0.1, "activation_dropout": 0.1}
CODE_OF_2019 = {
    **CODE_DROPOUTS,
    "initializer": "fairseq-2019",
    "encoder_max_relative_length": 8,
    "decoder_max_relative_length": 8,
    "relative_positions": "keys",
}
# Depth at the IWSLT size and the WMT base size, norm, groups of the encoder, and what else the method sets.
METHODS: dict[str, tuple[tuple[int, int], tuple[int, int], str, str, dict[str, Any]]] = {
    "t_fixup": ((6, 6), (6, 6), "none", "none", {"initializer": "t-fixup"}),
    "dlcl_t_fixup": ((6, 6), (6, 6), "none", "1", {"initializer": "t-fixup"}),
    "ds_init": ((12, 12), (12, 12), "post", "none", {"initializer": "ds-init"}),
    "ds_init_matt": ((12, 12), (12, 12), "post", "none", {"initializer": "ds-init", "merged_attention": True}),
    "lipschitz": ((12, 12), (24, 24), "post", "none", {"initializer": "lipschitz"}),
    "deepnorm": ((10, 10), (18, 18), "post", "none", {"initializer": "deepnorm", "residual_scale": "deepnorm"}),
    "admin": (
        (6, 6),
        (18, 18),
        "post",
        "none",
        {"initializer": "admin-released", "residual_scale": "admin", **CODE_DROPOUTS},
    ),
    "b2t": ((6, 6), (18, 18), "b2t", "none", {}),
    "relative": (
        (6, 6),
        (6, 6),
        "post",
        "none",
        {"encoder_max_relative_length": 16, "decoder_max_relative_length": 16},
    ),
    "skip": ((24, 6), (48, 6), "pre", "none", {"encoder_skip": 0.4, **CODE_OF_2019}),
    "sdt": ((24, 6), (48, 6), "pre", "6", {"decoder_groups": "none", **CODE_OF_2019}),
}
for method, (iwslt, wmt, method_norm, _, _) in METHODS.items():
    ARCHITECTURES[f"dlcl_transformer_{method}_iwslt_de_en"] = (512, 1024, 4, *iwslt, method_norm)
    ARCHITECTURES[f"dlcl_transformer_{method}_wmt_en_de"] = (512, 2048, 8, *wmt, method_norm)


def test_every_architecture_is_in_the_table() -> None:
    names = {name for name in MODEL_DATACLASS_REGISTRY if name.startswith("dlcl_transformer")}
    assert names - set(other_decoders.MODELS) == set(ARCHITECTURES)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture(name: str) -> None:
    width, inner, heads, encoder_layers, decoder_layers, norm = ARCHITECTURES[name]
    for given, encoder_depth in (({}, encoder_layers), ({"encoder_layers": 7}, 7)):
        config = MODEL_DATACLASS_REGISTRY[name](**given)
        for stack, depth in (("encoder", encoder_depth), ("decoder", decoder_layers)):
            keys = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
            assert [getattr(config, f"{stack}_{key}") for key in keys] == [width, inner, heads, depth]
            assert config.norm(stack).name == norm
            if not any(f"transformer_{method}_" in name for method in METHODS):
                assert config.stack(stack).boundaries == tuple(range(depth + 1))


@pytest.mark.parametrize("size", ["iwslt_de_en", "wmt_en_de"])
@pytest.mark.parametrize("method", METHODS)
def test_architecture_of_a_method(method: str, size: str) -> None:
    _, _, _, groups, options = METHODS[method]
    config = MODEL_DATACLASS_REGISTRY[f"dlcl_transformer_{method}_{size}"]()
    assert config.encoder_groups == groups
    expected = {"decoder_groups": "1" if groups == "1" else "none", **options}
    default = DLCLTransformerConfig()
    for name in SET_BY_METHODS:
        assert getattr(config, name) == expected.get(name, getattr(default, name)), name
    small = {**{key: value for key, value in SIZE.items() if not key.endswith("layers")}, **layers_of(config)}
    model = DLCLTransformerModel.build_model(dataclasses.replace(config, **small), task())
    assert logits(model.eval(), EXAMPLE).isfinite().all()


SET_BY_METHODS = ("decoder_groups", "residual_scale", "merged_attention", "encoder_skip", *CODE_OF_2019)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tiny", {}),
        ("iwslt_de_en", {}),
        ("wmt_en_de", {**CODE_DROPOUTS, "initializer": "fairseq-2019"}),
        ("wmt_en_de_big", {**CODE_DROPOUTS, "initializer": "fairseq-2019"}),
        ("wmt_en_de_30l", {**CODE_DROPOUTS, "initializer": "fairseq-2019"}),
        ("wmt_en_de_postnorm_25l", {"initializer": "fairseq-2019"}),
    ],
)
def test_dlcl_architectures_set_what_the_published_code_sets(name: str, options: dict[str, Any]) -> None:
    config, default = MODEL_DATACLASS_REGISTRY[f"dlcl_transformer_{name}"](), DLCLTransformerConfig()
    for option in SET_BY_METHODS:
        if option != "decoder_groups":
            assert getattr(config, option) == options.get(option, getattr(default, option)), option


def test_checkpoint_keeps_the_options_it_was_trained_with() -> None:
    """A checkpoint stores all options, so that it is read as ever where its architecture has come to set others."""
    stored = {**dataclasses.asdict(DLCLTransformerConfig(**SIZE)), "encoder_norm": "pre", "decoder_norm": "pre"}
    old = DLCLTransformerModel.build_model(DLCLTransformerConfig.from_options(Namespace(**stored)), task())
    config = MODEL_DATACLASS_REGISTRY["dlcl_transformer_sdt_wmt_en_de"].from_options(
        Namespace(**stored, arch="dlcl_transformer_sdt_wmt_en_de")
    )
    for name in CODE_OF_2019:
        assert getattr(config, name) == stored[name], name
    new = DLCLTransformerModel.build_model(config, task())
    new.load_state_dict(old.state_dict())
    torch.testing.assert_close(logits(new.eval(), EXAMPLE), logits(old.eval(), EXAMPLE), rtol=0, atol=0)


def layers_of(config: DLCLTransformerConfig) -> dict[str, int]:
    return {"encoder_layers": config.encoder_layers, "decoder_layers": config.decoder_layers}
