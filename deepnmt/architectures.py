"""Named architectures: `--arch NAME` sets what its paper sets, and any option on the command line wins over it."""

from __future__ import annotations

from typing import Any

from fairseq.models import register_model_architecture

from deepnmt import model

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

    def set_defaults(args: Any) -> None:
        for key, value in settings.items():
            if key not in args:
                setattr(args, key, value)

    register_model_architecture(model.NAME, f"{model.NAME}_{name}")(set_defaults)


register("tiny", TINY, **PRE_NORM, encoder_layers=12, decoder_layers=4)
register("iwslt_de_en", IWSLT, **PRE_NORM)
register("wmt_en_de", BASE, **PRE_NORM)
register("wmt_en_de_big", BIG, **PRE_NORM)
# Wang 2019, table 1: the deepest models of each norm position, DLCL in encoder and decoder.
register("wmt_en_de_30l", BASE, **PRE_NORM, encoder_layers=30)
register("wmt_en_de_postnorm_25l", BASE, encoder_layers=25)
