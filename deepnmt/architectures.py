"""Named architectures: `--arch NAME` sets what its paper sets, and any option given beside it wins.

Each is a model of its own for fairseq, with a dataclass that differs in its defaults alone, so that the command line,
Hydra (`model: {_name: NAME}`) and checkpoints all know it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from fairseq.models import register_model

from deepnmt.config import DLCLTransformerConfig
from deepnmt.model import NAME, DLCLTransformerModel

# The sizes: widths of model and feed-forward sublayers, and attention heads.
TINY = {"embed_dim": 128, "ffn_embed_dim": 256, "attention_heads": 4}
IWSLT = {"embed_dim": 512, "ffn_embed_dim": 1024, "attention_heads": 4}
BASE = {"embed_dim": 512, "ffn_embed_dim": 2048, "attention_heads": 8}
BIG = {"embed_dim": 1024, "ffn_embed_dim": 4096, "attention_heads": 16}

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def register(name: str, size: dict[str, int], **options: Any) -> None:
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


register("tiny", TINY, **PRE_NORM, encoder_layers=12, decoder_layers=4)
register("iwslt_de_en", IWSLT, **PRE_NORM)
register("wmt_en_de", BASE, **PRE_NORM)
register("wmt_en_de_big", BIG, **PRE_NORM)
# Wang 2019, table 1: the deepest models of each norm position, DLCL in encoder and decoder.
register("wmt_en_de_30l", BASE, **PRE_NORM, encoder_layers=30)
register("wmt_en_de_postnorm_25l", BASE, encoder_layers=25)
