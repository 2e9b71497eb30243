"""Options of Transformers that a training would ignore, or fail by, fairseq's own architectures included."""

from collections.abc import Iterator
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModelBase

from deepnmt.model.dual import DualModel

INERT = ("adaptive_input", "tie_adaptive_weights", "tie_adaptive_proj", "char_inputs", "export")


def transformer_faults(cfg: Any) -> Iterator[str]:
    """Yield the faults of the options of a model from source to target; nothing for other models.

    Args:
        cfg: configuration of the whole training
    """
    kind, model = ARCH_MODEL_REGISTRY.get(getattr(cfg.model, "_name", None)), cfg.model
    if not (isinstance(kind, type) and issubclass(kind, (TransformerModelBase, DualModel))):
        return
    for name in INERT:
        if getattr(model, name, False):
            yield f"--{name.replace('_', '-')} must not be given: the model has nothing that it would change"
    for stack in ("encoder", "decoder"):
        kept = getattr(model, f"{stack}_layers_to_keep", None)
        # As a text it is an old checkpoint's; fairseq fails at a command line's list.
        if kept and not isinstance(kept, str):
            yield f"--{stack}-layers-to-keep must not be given: deepnmt shrink --{stack}-keep takes layers out"
    common = cfg.common
    master = (common.fp16 or common.bf16) and not (common.memory_efficient_fp16 or common.memory_efficient_bf16)
    if getattr(model, "quant_noise_pq", 0) and not master:
        # fairseq writes the noise into the weights; only master weights, from which they are made anew, survive that.
        yield "--quant-noise-pq needs --fp16 or --bf16: without master weights, the noise of each update stays in them"
    if getattr(model, "base_layers", 0) and cfg.distributed_training.distributed_world_size < 2:
        yield "--base-layers needs several processes, which the experts are dealt out to"
