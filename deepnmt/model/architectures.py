"""Named architectures: `--arch NAME` sets what its paper sets, and any option given beside it wins.

Each is a model of its own for fairseq, with a dataclass that differs in its defaults alone, so that the command line,
Hydra (`model: {_name: NAME}`) and checkpoints all know it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from fairseq.models import register_model

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import NAME, DLCLTransformerModel

# The sizes: widths of model and feed-forward sublayers, and attention heads.
TINY = {"embed_dim": 128, "ffn_embed_dim": 256, "attention_heads": 4}
IWSLT = {"embed_dim": 512, "ffn_embed_dim": 1024, "attention_heads": 4}
BASE = {"embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8}
BIG = {"embed_dim": 1024, "ffn_embed_dim": 4096, "attention_heads": 16}


def norm(position: str) -> dict[str, str]:
    """Layer norms of both stacks."""
    return {"encoder_norm": position, "decoder_norm": position}


def layers(encoder: int, decoder: int) -> dict[str, int]:
    """Depth of both stacks."""
    return {"encoder_layers": encoder, "decoder_layers": decoder}


PRE_NORM = norm("pre")
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}


# The methods: what each sets, and its depth at the two sizes.
METHODS: dict[str, tuple[dict[str, Any], tuple[int, int], tuple[int, int]]] = {
    # Huang 2020
    "t_fixup": ({**PLAIN, **norm("none"), "initializer": "t-fixup"}, (6, 6), (6, 6)),
    # The course report's fusion with DLCL
    "dlcl_t_fixup": ({**norm("none"), "initializer": "t-fixup"}, (6, 6), (6, 6)),
    # Zhang 2019
    "ds_init": ({**PLAIN, **norm("post"), "initializer": "ds-init"}, (12, 12), (12, 12)),
    "ds_init_matt": (
        {**PLAIN, **norm("post"), "initializer": "ds-init", "merged_attention": True},
        (12, 12),
        (12, 12),
    ),
    # Xu 2020
    "lipschitz": ({**PLAIN, **norm("post"), "initializer": "lipschitz"}, (12, 12), (24, 24)),
    # Wang 2022
    "deepnorm": (
        {**PLAIN, **norm("post"), "initializer": "deepnorm", "residual_scale": "deepnorm"},
        (10, 10),
        (18, 18),
    ),
    # Liu 2020
    "admin": ({**PLAIN, **norm("post"), "initializer": "admin", "residual_scale": "admin"}, (6, 6), (18, 18)),
    # Takase 2023
    "b2t": ({**PLAIN, **norm("b2t")}, (6, 6), (18, 18)),
    # Shaw 2018
    "relative": (
        {**PLAIN, **norm("post"), "encoder_max_relative_length": 16, "decoder_max_relative_length": 16},
        (6, 6),
        (6, 6),
    ),
    # Li 2021
    "skip": ({**PLAIN, **PRE_NORM, "encoder_skip": 0.4}, (24, 6), (48, 6)),
    # Li 2020: group-dense with groups of the growth step
    "sdt": ({**PRE_NORM, "encoder_groups": "6", "decoder_groups": "none"}, (24, 6), (48, 6)),
}


def register() -> None:
    """Register the model and all its architectures with fairseq, for `--arch`."""
    register_model(NAME, dataclass=DLCLTransformerConfig)(DLCLTransformerModel)
    _register("tiny", TINY, **PRE_NORM, **layers(12, 4))
    _register("iwslt_de_en", IWSLT, **PRE_NORM)
    _register("wmt_en_de", BASE, **PRE_NORM)
    _register("wmt_en_de_big", BIG, **PRE_NORM)
    # Wang 2019, table 1: the deepest models of each norm position, DLCL in encoder and decoder.
    _register("wmt_en_de_30l", BASE, **PRE_NORM, **layers(30, 6))
    _register("wmt_en_de_postnorm_25l", BASE, **norm("post"), **layers(25, 6))
    for method, (options, iwslt_depth, wmt_depth) in METHODS.items():
        _register(f"{method}_iwslt_de_en", IWSLT, **options, **layers(*iwslt_depth))
        _register(f"{method}_wmt_en_de", BASE, **options, **layers(*wmt_depth))


def _register(name: str, size: dict[str, int], **options: Any) -> None:
    """Register `dlcl_transformer_NAME`: a size for both stacks, and further options of the model."""
    settings = {f"{stack}_{key}": value for stack in ("encoder", "decoder") for key, value in size.items()}
    settings.update(options)
    base = {option.name: option for option in dataclasses.fields(DLCLTransformerConfig)}
    defaults = [
        (key, base[key].type, dataclasses.field(default=value, metadata=base[key].metadata))
        for key, value in settings.items()
    ]
    config = dataclasses.make_dataclass(f"DLCLTransformerConfig_{name}", defaults, bases=(DLCLTransformerConfig,))
    model = type(f"DLCLTransformerModel_{name}", (DLCLTransformerModel,), {"__doc__": DLCLTransformerModel.__doc__})
    register_model(f"{NAME}_{name}", dataclass=config)(model)
