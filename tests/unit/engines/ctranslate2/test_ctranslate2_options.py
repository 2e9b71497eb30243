"""Every option of a model is computed, changes nothing in a trained model, or is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.models import PLAIN, build_stock

from deepnmt.engines.ctranslate2.options import SUPPORT, faults, options_of
from deepnmt.engines.onnx.options import SUPPORT as onnx
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.options.option_table import MODEL, OPTIONS, Row

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "DLCL": ({"encoder_groups": "1"}, "--encoder-groups 1: use --engine onnx"),
    "groups": ({"decoder_groups": "0,2,6"}, "--decoder-groups 0,2,6: use --engine onnx"),
    "no norm": ({"encoder_norm": "none"}, "--encoder-norm none: use --engine onnx"),
    "B2T": ({"decoder_norm": "b2t"}, "--decoder-norm b2t: use --engine onnx"),
    "merged attention": ({"merged_attention": True}, "--merged-attention: use --engine onnx"),
    "shared attention": (
        {"decoder_self_attention": "shared", "shared_attention_blocks": "3", "shared_cross_attention": True},
        "--decoder-self-attention shared: use --engine onnx",
    ),
    "average attention": ({"decoder_self_attention": "average"}, "--decoder-self-attention average: use --engine onnx"),
    "SSRU": ({"decoder_self_attention": "ssru"}, "--decoder-self-attention ssru: use --engine onnx"),
    "absolute beside relative": (
        {"decoder_max_relative_length": 8},
        "--decoder-max-relative-length 8 without --no-token-positional-embeddings: use --engine onnx",
    ),
    "adaptive softmax": ({"adaptive_softmax_cutoff": [4, 8]}, "--adaptive-softmax-cutoff [4, 8]: use --engine torch"),
    "cross-self-attention": ({"cross_self_attention": True}, "--cross-self-attention: use --engine torch"),
    "no cross-attention": ({"no_cross_attention": True}, "--no-cross-attention: use --engine onnx"),
    "another activation": ({"activation_fn": "linear"}, "--activation-fn linear: use --engine onnx"),
    "another output": ({"decoder_output_dim": 24}, "--decoder-output-dim 24: use --engine onnx"),
    "quantisation noise": ({"quant_noise_pq": 0.1}, "--quant-noise-pq 0.1: use --engine onnx"),
    "experts": ({"base_layers": 1}, "--base-layers 1: use --engine torch"),
    "one table of two dictionaries": ({"merge_src_tgt_embed": True}, "--merge-src-tgt-embed: use --engine onnx"),
    "two-sided": ({"two_sided": True}, "--two-sided: use --engine torch"),
    "xFormers": ({"encoder_xformers_att_config": "{}"}, "--encoder-xformers-att-config {}: use --engine torch"),
}


def config(**options: Any) -> DLCLTransformerConfig:
    return DLCLTransformerConfig(**{**PLAIN, **options})


def test_rows_are_of_options_of_the_model() -> None:
    names = {each.name for each in dataclasses.fields(DLCLTransformerConfig)}
    assert {name for name, row in OPTIONS.items() if row.role == MODEL} <= names
    assert {row.part_of for row in OPTIONS.values()} - {""} <= names
    for support in (SUPPORT, onnx):
        assert support.takes | set(support.only) <= names
        # An engine that takes what no inference asks for would hide that the table is wrong.
        assert not [name for name in support.takes if not OPTIONS.get(name, Row(MODEL)).inference]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused(case: str) -> None:
    options, line = REFUSED[case]
    assert list(faults(config(**options))) == [line]


@pytest.mark.parametrize("name", ["dropout", "encoder_layerdrop", "initializer", "dlcl_window", "base_sublayers"])
def test_what_no_inference_asks_for_is_taken(name: str) -> None:
    values = {"initializer": "admin", "dlcl_window": 3, "base_sublayers": 2}
    assert list(faults(config(**{name: values.get(name, 0.3)}))) == []


def test_a_plain_model_is_not_refused() -> None:
    assert list(faults(config())) == []
    assert list(faults(config(adaptive_softmax_cutoff=[], base_layers=None, char_inputs=None))) == []


def test_a_new_option_is_refused_until_somebody_has_taught_it() -> None:
    @dataclasses.dataclass
    class Newer(DLCLTransformerConfig):
        macaron: bool = False

    assert list(faults(Newer(**PLAIN))) == []
    assert list(faults(Newer(**PLAIN, macaron=True))) == ["--macaron: use --engine torch"]


def test_the_options_of_a_model_of_fairseq() -> None:
    own = options_of(build_stock({"encoder_normalize_before": True, "encoder_learned_pos": True}))
    assert own is not None
    assert (own.encoder_normalize_before, own.encoder_learned_pos, own.encoder_layers) == (True, True, 3)
    assert own.encoder_groups == own.decoder_groups == "none"
    assert list(faults(own)) == []
