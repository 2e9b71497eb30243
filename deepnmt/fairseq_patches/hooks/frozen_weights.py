"""`--fused-encoder`: the weights of the frozen encoder, when a training begins."""

from pathlib import Path
from typing import Any

from fairseq import models

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.model.fused_encoder import load_frozen


@replaces(models, "build_model", order=10, why="--fused-encoder begins with the weights of its checkpoint")
def build_with_frozen_weights(stock: Any, cfg: Any, task: Any, from_checkpoint: bool = False) -> Any:
    """Build a model; a model from a checkpoint gets the frozen weights from there, and so has a resumed training.

    Raises:
        UserError: the file of --fused-encoder cannot be read, or has another encoder
    """
    model = stock(cfg, task, from_checkpoint)
    frozen = getattr(getattr(model, "encoder", None), "frozen", None)
    if frozen is not None and not from_checkpoint and (path := Path(model.cfg.deep.fused_encoder)).is_file():
        load_frozen(frozen, path)
    return model
