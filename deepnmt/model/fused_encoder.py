"""A frozen encoder beside the model's own: every layer also attends to its states (Zhu 2020, ICLR, arXiv 2002.06823).

With the frozen encoder's states H_B and the own encoder's output H_E,

    encoder layer, self-attention's sublayer     F(x) = (Att(x, x) + Att_B(x, H_B)) / 2
    decoder layer, cross-attention's sublayer    F(x) = (Att(x, H_E) + Att_B(x, H_B)) / 2       (69)

In training, either attention is alone, with factor 1, with probability p / 2 each (--fused-drop p); the expectation is
the same. The frozen encoder has the options of the own one, and the weights of a checkpoint, such as one of a masked
language model. They become part of this model's checkpoints, which need that file no longer.

Shapes: T x B x C is time, batch, channel.
"""
# Twin: deepnmt/search/incremental/layer_steps.py computes the decoder's part for one position in a search; change both.

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from fairseq import checkpoint_utils
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.options.option_table import dashed

if TYPE_CHECKING:
    from deepnmt.model.config import DLCLTransformerConfig

ENCODER, TABLE = "encoder.", "embed_tokens.weight"


def fused(own: Tensor, beside: Tensor, drop: float) -> Tensor:
    """Return the mean of both attentions, T x B x C, or with probability `drop` one of them."""
    share = float(torch.rand(())) if drop else 1.0
    # Both have a gradient in any case: distributed training waits for it.
    first, second = (1.0, 0.0) if share < drop / 2 else (0.0, 1.0) if share < drop else (0.5, 0.5)
    return own * first + beside * second


def load_frozen(encoder: Any, path: Path) -> None:
    """Take the weights of a frozen encoder from a checkpoint.

    Raises:
        UserError: the checkpoint cannot be read, or has another encoder
    """
    tensors = checkpoint_utils.load_checkpoint_to_cpu(str(path))["model"]
    own = dict(encoder.named_parameters())
    found = {name[len(ENCODER) :]: tensor for name, tensor in tensors.items() if name.startswith(ENCODER)}
    if TABLE in found and TABLE in own:
        # A pre-training has further types at the end.
        found[TABLE] = found[TABLE][: len(own[TABLE])]
    if surplus := sorted(found.keys() - encoder.state_dict().keys()):
        raise UserError(f"--fused-encoder {path}: must have the encoder of this model, but also has {surplus[0]}")
    for name, tensor in own.items():
        if name not in found or found[name].shape != tensor.shape:
            has = "has another shape" if name in found else "is missing"
            raise UserError(f"--fused-encoder {path}: must have the encoder of this model, but {ENCODER}{name} {has}")
        with torch.no_grad():
            tensor.copy_(found[name])


def fusing_faults(config: "DLCLTransformerConfig") -> Iterator[str]:
    """Yield the faults of --fused-encoder and the options beside it."""
    if config.fused_encoder is None:
        if config.fused_drop != 1:
            yield "--fused-drop needs --fused-encoder"
        return
    kept = [f"{stack}_layers_to_keep" for stack in ("encoder", "decoder")]
    for name in ("two_sided", "no_cross_attention", "cross_self_attention", *kept, "base_layers", "decoder_lm_layers"):
        if getattr(config, name):
            yield f"--fused-encoder cannot be combined with --{dashed(name)}"
    if config.sums > 1:
        yield f"--fused-encoder cannot be combined with --encoder-groups {config.encoder_groups}"
    if config.shares_attention:
        yield "--fused-encoder cannot be combined with --decoder-self-attention shared"
    if str(config.initializer).startswith("admin"):
        yield f"--fused-encoder cannot be combined with --initializer {config.initializer}"
