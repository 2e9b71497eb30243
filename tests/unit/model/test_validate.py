"""Options that are out of range or exclude each other are refused before anything is built, all at once."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from support.models import SIZE, dictionary, task

from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.groups import group_boundaries
from deepnmt.model.initializers import INITIALIZERS
from deepnmt.model.transformer import DLCLTransformerModel

NO_GROUPS = {"encoder_groups": "none", "decoder_groups": "none"}

FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"encoder_groups": "0,2,2,3"}, r"--encoder-groups: boundaries must be increasing, but are '0,2,2,3'"),
    ({"decoder_groups": "0,3,2"}, r"--decoder-groups: boundaries must be increasing, but are '0,3,2'"),
    ({"encoder_groups": "0,2,4"}, r"--encoder-groups: boundaries must go from 0 to the depth, 3, but are '0,2,4'"),
    ({"encoder_groups": "1,3"}, r"--encoder-groups: boundaries must go from 0 to the depth, 3, but are '1,3'"),
    ({"encoder_groups": "4"}, r"--encoder-groups: must be from 1 to the depth, 3, but is 4"),
    ({"encoder_groups": "0"}, r"--encoder-groups: must be from 1 to the depth, 3, but is 0"),
    ({"encoder_groups": "all"}, r"--encoder-groups: must be 'none', a group size or boundaries .*, but is 'all'"),
    (
        {"dlcl_granularity": "3", "decoder_groups": "none"},
        r"--dlcl-granularity: must divide --encoder-embed-dim 16, but is 3",
    ),
    ({"dlcl_granularity": "0"}, r"--dlcl-granularity: must be 'scalar', 'vector' or a number of slices, but is '0'"),
    ({"dlcl_granularity": "big"}, r"--dlcl-granularity: must be 'scalar', 'vector' or .*, but is 'big'"),
    (
        {"encoder_attention_heads": 3},
        r"--encoder-embed-dim must be divisible by --encoder-attention-heads 3, but is 16",
    ),
    (
        {"decoder_attention_heads": 5},
        r"--decoder-embed-dim must be divisible by --decoder-attention-heads 5, but is 16",
    ),
    ({"decoder_attention_heads": 0}, r"--decoder-attention-heads must be at least 1 and at most 2147483647, but is 0"),
    ({"encoder_layers": 0, "encoder_groups": "none"}, r"--encoder-layers must be from 1 to 10000, but is 0"),
    ({"decoder_input_dim": 0}, r"--decoder-input-dim must be from 1 to 1048576, but is 0"),
    ({"decoder_output_dim": -2}, r"--decoder-output-dim must be from 1 to 1048576, but is -2"),
    ({"max_source_positions": 0}, r"--max-source-positions must be from 1 to 1048576, but is 0"),
    ({"max_target_positions": 1 << 21}, r"--max-target-positions must be from 1 to 1048576, but is 2097152"),
    ({"dlcl_window": -1}, r"--dlcl-window must be at least 0 and at most 2147483647, but is -1"),
    ({"dlcl_dropout": 1.0}, r"--dlcl-dropout must be at least 0 and below 1, but is 1.0"),
    ({"dropout": -0.1}, r"--dropout must be at least 0 and below 1, but is -0.1"),
    ({"attention_dropout": 2}, r"--attention-dropout must be at least 0 and below 1, but is 2"),
    ({"activation_dropout": 1}, r"--activation-dropout must be at least 0 and below 1, but is 1"),
    ({"relu_dropout": 1.5}, r"--relu-dropout must be at least 0 and below 1, but is 1.5"),
    ({"adaptive_softmax_dropout": -1}, r"--adaptive-softmax-dropout must be at least 0 and below 1, but is -1"),
    ({"encoder_layerdrop": 1}, r"--encoder-layerdrop must be at least 0 and below 1, but is 1"),
    ({"decoder_layerdrop": -1}, r"--decoder-layerdrop must be at least 0 and below 1, but is -1"),
    ({**NO_GROUPS, "dlcl_window": 2}, r"--dlcl-window needs --encoder-groups or --decoder-groups, but both are none"),
    ({**NO_GROUPS, "dlcl_init": "one"}, r"--dlcl-init needs --encoder-groups or --decoder-groups"),
    ({**NO_GROUPS, "dlcl_freeze": True}, r"--dlcl-freeze needs --encoder-groups or --decoder-groups"),
    ({**NO_GROUPS, "dlcl_softmax": True}, r"--dlcl-softmax needs --encoder-groups or --decoder-groups"),
    ({**NO_GROUPS, "dlcl_dropout": 0.1}, r"--dlcl-dropout needs --encoder-groups or --decoder-groups"),
    ({**NO_GROUPS, "dlcl_granularity": "vector"}, r"--dlcl-granularity needs --encoder-groups or --decoder-groups"),
    ({**NO_GROUPS, "dlcl_embedding_norm": True}, r"--dlcl-embedding-norm needs --encoder-groups or --decoder-groups"),
    ({"encoder_layers_to_keep": "0,1"}, r"--encoder-layers-to-keep needs --encoder-groups none"),
    (
        {**NO_GROUPS, "decoder_layers_to_keep": [0, 1]},
        r"--decoder-layers-to-keep must not be given: deepnmt shrink --decoder-keep takes layers out$",
    ),
    ({"base_layers": 1}, r"--base-layers must be 0 with --decoder-groups 1, but is 1"),
    ({"encoder_max_relative_length": -2}, r"--encoder-max-relative-length must be at least 0 and .*, but is -2"),
    (
        {"decoder_max_relative_length": 2, "decoder_xformers_att_config": "{}"},
        r"--decoder-xformers-att-config and --decoder-max-relative-length 2 exclude each other",
    ),
    (
        {"encoder_xformers_att_config": "(1, 2)"},
        r"--encoder-xformers-att-config must be a dictionary such as {'name': 'scaled_dot_product'}, but is \(1, 2\)$",
    ),
    ({"encoder_xformers_att_config": "x"}, r"--encoder-xformers-att-config must be a literal such as .*, but is 'x'$"),
    ({"decoder_xformers_att_config": ""}, r"--decoder-xformers-att-config must be a literal such as .*, but is ''$"),
    ({"relative_positions": "keys"}, r"--relative-positions keys needs --encoder-max-relative-length or .* both are 0"),
    (
        {"cross_self_attention": True, "decoder_max_relative_length": 2},
        r"--cross-self-attention and --decoder-max-relative-length 2 exclude each other",
    ),
    (
        {"encoder_normalize_before": True, "encoder_norm": "b2t"},
        r"--encoder-norm must be pre with --encoder-normalize-before, but is b2t",
    ),
    (
        {"residual_scale": "deepnorm", "decoder_norm": "pre"},
        r"--decoder-norm must be post or b2t with --residual-scale deepnorm, but is pre",
    ),
    (
        {"residual_scale": "admin", "encoder_norm": "none"},
        r"--encoder-norm must be post or b2t with --residual-scale admin, but is none",
    ),
    ({"initializer": "admin"}, r"--residual-scale must be admin with --initializer admin, but is plain"),
    (
        {"initializer": "ds-init", "ds_init_alpha": 0.0},
        r"--ds-init-alpha must be above 0 and at most 1, but is 0.0",
    ),
    ({"initializer": "ds-init", "ds_init_alpha": 2}, r"--ds-init-alpha must be above 0 and at most 1, but is 2"),
    ({"ds_init_alpha": 0.5}, r"--initializer must be ds-init with --ds-init-alpha, but is default"),
    ({"encoder_word_dropout": 1.0}, r"--encoder-word-dropout must be at least 0 and below 1, but is 1.0"),
    ({"decoder_word_dropout": -0.1}, r"--decoder-word-dropout must be at least 0 and below 1, but is -0.1"),
    ({"encoder_skip": 1.0}, r"--encoder-skip must be at least 0 and below 1, but is 1.0"),
    ({"decoder_skip": -0.5}, r"--decoder-skip must be at least 0 and below 1, but is -0.5"),
    ({"encoder_skip": 0.2, "encoder_layerdrop": 0.1}, r"--encoder-skip and --encoder-layerdrop exclude each other"),
    (
        {**NO_GROUPS, "decoder_skip": 0.2, "decoder_layers_to_keep": "0"},
        r"--decoder-skip and --decoder-layers-to-keep exclude each other",
    ),
    (
        {**NO_GROUPS, "decoder_skip": 0.2, "base_layers": 1},
        r"--base-layers must be 0 with --decoder-skip 0.2, but is 1",
    ),
    ({"skip_schedule": "constant"}, r"--skip-schedule needs --encoder-skip or --decoder-skip, but both are 0"),
    ({"skip_scale": "inference"}, r"--skip-scale needs --encoder-skip or --decoder-skip, but both are 0"),
    (
        {"merged_attention": True, "encoder_embed_dim": 24},
        r"--decoder-embed-dim must be --encoder-embed-dim 24 with --merged-attention, but is 16",
    ),
    (
        {"cross_self_attention": True, "encoder_embed_dim": 24},
        r"--decoder-embed-dim must be --encoder-embed-dim 24 with --cross-self-attention, but is 16",
    ),
    (
        {"merged_attention": True, "no_cross_attention": True},
        r"--no-cross-attention and --merged-attention exclude each other",
    ),
    (
        {"merged_attention": True, "cross_self_attention": True},
        r"--cross-self-attention and --merged-attention exclude each other",
    ),
    (
        {"merged_attention": True, "decoder_max_relative_length": 2},
        r"--decoder-max-relative-length and --merged-attention exclude each other",
    ),
    *(
        (
            {"decoder_self_attention": "average", "initializer": name},
            rf"^--decoder-self-attention average cannot be combined with --initializer {name}$",
        )
        for name in ("t-fixup", "t-fixup-released", "ds-init", "deepnorm")
    ),
    *(
        (
            {"decoder_self_attention": "shared", name: value},
            rf"^--decoder-self-attention shared cannot be combined with --{name.replace('_', '-')}$",
        )
        for name, value in {
            "decoder_skip": 0.1,
            "decoder_layerdrop": 0.1,
            "checkpoint_activations": True,
            "offload_activations": True,
            "two_sided": True,
        }.items()
    ),
    *(
        ({name: value}, rf"^--{name.replace('_', '-')} needs --decoder-self-attention shared, but it is full$")
        for name, value in {"shared_attention_blocks": "3", "shared_cross_attention": True}.items()
    ),
    (
        {"decoder_self_attention": "shared", "shared_attention_blocks": "none"},
        "^--shared-attention-blocks: must be a number of layers, or boundaries such as 0,2,6, but is none$",
    ),
    (
        {"decoder_self_attention": "shared", "shared_attention_blocks": "0,9"},
        "^--shared-attention-blocks: boundaries must go from 0 to the depth",
    ),
    (
        {"decoder_self_attention": "shared", "shared_cross_attention": True, "no_cross_attention": True},
        "^--shared-cross-attention cannot be combined with --no-cross-attention$",
    ),
    (
        {"encoder_share_layers": "0,0"},
        r"^--encoder-share-layers must have a number for each of the \d+ layers, but has 2$",
    ),
    (
        {"decoder_share_layers": "0,2,1", "decoder_layers": 3},
        "^--decoder-share-layers must number layers from 0 in their order, but is '0,2,1'$",
    ),
    (
        {"decoder_share_layers": "all"},
        "^--decoder-share-layers must be 'none' or the layers by their numbers, such as 0,0,1,1, but is 'all'$",
    ),
    *(
        (
            {"decoder_share_layers": "0,0,1", "decoder_layers": 3, **more},
            f"^--decoder-share-layers cannot be combined with {option}$",
        )
        for option, more in {
            "--decoder-layerdrop": {"decoder_layerdrop": 0.1},
            "--initializer admin": {"initializer": "admin", "residual_scale": "admin"},
            "--decoder-self-attention shared": {"decoder_self_attention": "shared"},
        }.items()
    ),
    (
        {"average_attention_ffn": True},
        r"^--average-attention-ffn needs --decoder-self-attention average, but it is full$",
    ),
    *(
        (
            {"decoder_self_attention": kind, name: value},
            rf"^--decoder-self-attention {kind} cannot be combined with --{name.replace('_', '-')}$",
        )
        for kind in ("average", "shared", "ssru")
        for name, value in {
            "merged_attention": True,
            "cross_self_attention": True,
            "decoder_max_relative_length": 2,
            "decoder_xformers_att_config": "None",
        }.items()
    ),
    (
        {"share_all_embeddings": True, "encoder_embed_dim": 24},
        r"--share-all-embeddings needs .* to be equal, but they are 24 and 16",
    ),
    (
        {"share_all_embeddings": True, "decoder_embed_path": "x"},
        r"--share-all-embeddings and --decoder-embed-path exclude each other",
    ),
    (
        {"merge_src_tgt_embed": True, "encoder_embed_dim": 24},
        r"--merge-src-tgt-embed needs .* to be equal, but they are 24 and 16",
    ),
    (
        {"merge_src_tgt_embed": True, "decoder_input_dim": 8},
        r"--decoder-input-dim must be --decoder-embed-dim 16 where the decoder's embeddings are shared, but is 8",
    ),
    ({"tie_adaptive_weights": True}, r"--tie-adaptive-weights must not be given: the model has no adaptive input"),
    ({**NO_GROUPS, "base_layers": 1}, r"^--base-layers must be 0 in one process, but is 1$"),
    (
        {"share_decoder_input_output_embed": True, "decoder_output_dim": 8},
        r"--decoder-output-dim must be --decoder-embed-dim 16 where the decoder's embeddings are shared, but is 8",
    ),
    *(
        (
            {**NO_GROUPS, "two_sided": True, name: value},
            rf"--two-sided cannot be combined with --{option} .*{kept}",
        )
        for name, value, option, kept in (
            ("no_cross_attention", True, "no-cross-attention", "True"),
            ("cross_self_attention", True, "cross-self-attention", "True"),
            ("encoder_layers_to_keep", "0", "encoder-layers-to-keep", "0"),
            ("decoder_layers_to_keep", "0", "decoder-layers-to-keep", "0"),
            ("base_layers", 1, "base-layers", "1"),
            ("adaptive_softmax_cutoff", [5, 10], "adaptive-softmax-cutoff", "10"),
        )
    ),
    (
        {"two_sided": True, "initializer": "admin", "residual_scale": "admin"},
        r"--initializer must need no batches with --two-sided, but is admin",
    ),
]


def build(options: dict[str, Any], joined: bool = True) -> Any:
    config = DLCLTransformerConfig(**{**SIZE, **options})
    return DLCLTransformerModel.build_model(config, task() if joined else task(dictionary(20), dictionary(30)))


@pytest.mark.parametrize(("options", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_refused_with_one_line_that_names_the_option(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        build(options)
    assert len(str(error.value).splitlines()) == 1


def test_separate_dictionaries_cannot_be_shared() -> None:
    with pytest.raises(UserError, match="--share-all-embeddings needs one dictionary for both languages"):
        build({"share_all_embeddings": True}, joined=False)


def test_xformers_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xformers", None)
    message = r"^--decoder-xformers-att-config needs the package xformers, which is not installed$"
    with pytest.raises(UserError, match=message):
        build({"decoder_xformers_att_config": "{'name': 'linformer'}"})


def test_all_faults_at_once() -> None:
    with pytest.raises(UserError, match="--encoder-groups") as error:
        build({"encoder_groups": "9", "encoder_skip": 0.1, "encoder_attention_heads": 3, "encoder_layerdrop": 0.1})
    assert len(str(error.value).splitlines()) == 3
    with pytest.raises(UserError, match="--dlcl-window") as error:
        build({"encoder_layers": 0, "dlcl_window": -1, "dropout": 2.0})
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("groups", "depth", "boundaries"),
    [
        ("1", 3, (0, 1, 2, 3)),
        ("6", 12, (0, 6, 12)),
        ("6", 14, (0, 6, 12, 14)),
        ("12", 12, (0, 12)),
        ("0,6,12,21", 21, (0, 6, 12, 21)),
        ("none", 5, None),
    ],
)
def test_group_boundaries(groups: str, depth: int, boundaries: tuple[int, ...] | None) -> None:
    assert group_boundaries(groups, depth) == boundaries


def test_unknown_option_of_hydra_is_refused() -> None:
    with pytest.raises(UserError, match=r"model\.encoder_layerz is not an option of dlcl_transformer"):
        DLCLTransformerConfig.from_options(OmegaConf.create({"_name": "dlcl_transformer_tiny", "encoder_layerz": 3}))


def test_foreign_entries_of_a_namespace_are_left_alone() -> None:
    config = DLCLTransformerConfig.from_options(Namespace(encoder_layers=5, max_tokens=100))
    assert config.encoder_layers == 5
    assert not hasattr(config, "max_tokens")


def test_values_that_are_no_choice_are_refused() -> None:
    values = {"encoder_norm": "sandwich", "initializer": "t-fixdown", "decoder_norm": "pre"}
    for options in (Namespace(**values), OmegaConf.create(values)):
        with pytest.raises(UserError, match="--encoder-norm") as error:
            DLCLTransformerConfig.from_options(options)
        assert str(error.value).splitlines() == [
            "--encoder-norm must be one of auto, post, pre, none, b2t, but is sandwich",
            f"--initializer must be one of {', '.join(INITIALIZERS)}, but is t-fixdown",
        ]


def test_a_null_of_fairseq_hydra_train() -> None:
    options = OmegaConf.structured(DLCLTransformerConfig())
    options.decoder_embed_dim = None
    with pytest.raises(UserError, match=r"^model\.decoder_embed_dim must have a value, but is null$"):
        DLCLTransformerConfig.from_options(options)
