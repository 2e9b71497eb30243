"""Named architectures: `--arch NAME` applies its paper's settings, and options on the command line override them.

For fairseq each one is a separate model, with a dataclass that differs in its defaults alone. The command line, Hydra
(`model: {_name: NAME}`) and checkpoints therefore all know it.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from fairseq.models import register_model

from deepnmt.model import other_decoders
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.dual import DualConfig, DualModel
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import NAME, DLCLTransformerModel
from deepnmt.options.dual_rules import ARCH

# The sizes: widths of model and feed-forward sublayers, and attention heads.
TINY = {"embed_dim": 128, "ffn_embed_dim": 256, "attention_heads": 4}
IWSLT = {"embed_dim": 512, "ffn_embed_dim": 1024, "attention_heads": 4}
BASE = {"embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8}
BIG = {"embed_dim": 1024, "ffn_embed_dim": 4096, "attention_heads": 16}


def norm(position: str) -> dict[str, str]:
    """Return the position of the layer norms, for both stacks."""
    return {"encoder_norm": position, "decoder_norm": position}


def layers(encoder: int, decoder: int) -> dict[str, int]:
    """Return the depth of each stack."""
    return {"encoder_layers": encoder, "decoder_layers": decoder}


PRE_NORM = norm("pre")
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}
# Settings of the published code of DLCL, SDT, sublayer skipping and Admin beside the method.
CODE_OF_2019 = {"initializer": "fairseq-2019"}
DROPOUTS = {"attention_dropout": 0.1, "activation_dropout": 0.1}
RELATIVE_KEYS = {"encoder_max_relative_length": 8, "decoder_max_relative_length": 8, "relative_positions": "keys"}


@dataclass(frozen=True)
class Method:
    """A method's settings, and its layers of encoder and decoder at the size of IWSLT14 and the base size of WMT14."""

    iwslt: tuple[int, int]
    wmt: tuple[int, int]
    options: dict[str, Any]


METHODS = {
    # Huang 2020
    "t_fixup": Method((6, 6), (6, 6), {**PLAIN, **norm("none"), "initializer": "t-fixup"}),
    # The course report's fusion with DLCL
    "dlcl_t_fixup": Method((6, 6), (6, 6), {**norm("none"), "initializer": "t-fixup"}),
    # Zhang 2019
    "ds_init": Method((12, 12), (12, 12), {**PLAIN, **norm("post"), "initializer": "ds-init"}),
    "ds_init_matt": Method(
        (12, 12), (12, 12), {**PLAIN, **norm("post"), "initializer": "ds-init", "merged_attention": True}
    ),
    # Xu 2020
    "lipschitz": Method((12, 12), (24, 24), {**PLAIN, **norm("post"), "initializer": "lipschitz"}),
    # Wang 2022
    "deepnorm": Method(
        (10, 10), (18, 18), {**PLAIN, **norm("post"), "initializer": "deepnorm", "residual_scale": "deepnorm"}
    ),
    # Liu 2020
    "admin": Method(
        (6, 6),
        (18, 18),
        {**PLAIN, **norm("post"), **DROPOUTS, "initializer": "admin-released", "residual_scale": "admin"},
    ),
    # Takase 2023
    "b2t": Method((6, 6), (18, 18), {**PLAIN, **norm("b2t")}),
    # Shaw 2018
    "relative": Method(
        (6, 6), (6, 6), {**PLAIN, **norm("post"), "encoder_max_relative_length": 16, "decoder_max_relative_length": 16}
    ),
    # Li 2021
    "skip": Method(
        (24, 6), (48, 6), {**PLAIN, **PRE_NORM, **CODE_OF_2019, **DROPOUTS, **RELATIVE_KEYS, "encoder_skip": 0.4}
    ),
    # Li 2020: group-dense with groups of the growth step
    "sdt": Method(
        (24, 6),
        (48, 6),
        {**PRE_NORM, **CODE_OF_2019, **DROPOUTS, **RELATIVE_KEYS, "encoder_groups": "6", "decoder_groups": "none"},
    ),
}


def register() -> None:
    """Register the model and all its architectures with fairseq, for `--arch`."""
    register_model(NAME, dataclass=DLCLTransformerConfig)(DLCLTransformerModel)
    other_decoders.register()
    register_model(ARCH, dataclass=DualConfig)(DualModel)
    # Sizes without published code of DLCL: fairseq's weights, and no dropout but the usual one.
    _register("tiny", TINY, **PRE_NORM, **layers(12, 4))
    _register("iwslt_de_en", IWSLT, **PRE_NORM)
    # Wang 2019: DLCL in encoder and decoder.
    _register("wmt_en_de", BASE, **PRE_NORM, **CODE_OF_2019, **DROPOUTS)
    _register("wmt_en_de_big", BIG, **PRE_NORM, **CODE_OF_2019, **DROPOUTS)
    # Its table 1: the deepest models of each norm position.
    _register("wmt_en_de_30l", BASE, **PRE_NORM, **CODE_OF_2019, **DROPOUTS, **layers(30, 6))
    _register("wmt_en_de_postnorm_25l", BASE, **norm("post"), **CODE_OF_2019, **layers(25, 6))
    for name, method in METHODS.items():
        _register(f"{name}_iwslt_de_en", IWSLT, **method.options, **layers(*method.iwslt))
        _register(f"{name}_wmt_en_de", BASE, **method.options, **layers(*method.wmt))


def _register(name: str, size: dict[str, int], **options: Any) -> None:
    """Register `dlcl_transformer_NAME`: a size for both stacks, and further options of the model."""
    settings = {f"{stack}_{key}": value for stack in STACKS for key, value in size.items()}
    settings.update(options)
    base = {option.name: option for option in dataclasses.fields(DLCLTransformerConfig)}
    defaults = [
        (key, base[key].type, dataclasses.field(default=value, metadata=base[key].metadata))
        for key, value in settings.items()
    ]
    config = dataclasses.make_dataclass(f"DLCLTransformerConfig_{name}", defaults, bases=(DLCLTransformerConfig,))
    model = type(f"DLCLTransformerModel_{name}", (DLCLTransformerModel,), {"__doc__": DLCLTransformerModel.__doc__})
    register_model(f"{NAME}_{name}", dataclass=config)(model)
