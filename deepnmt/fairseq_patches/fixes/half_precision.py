"""--bf16 without a TPU, --amp with the gradients that it computes, and overflows of --fp16 on the CPU."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from fairseq.dataclass.configs import CommonConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.trainer import Trainer

from deepnmt.fairseq_patches.patch import replaces

AMP_INIT_SCALE = CommonConfig.amp_init_scale


@replaces(distributed_utils, "call_main", order=20, why="--bf16 works on a TPU alone (issue 4696)")
def allow_bf16_without_tpu(stock: Any, cfg: Any, main: Callable[..., object], **kwargs: Any) -> None:
    """Let --bf16 train on GPUs and the CPU."""
    if cfg.common.bf16 and distributed_utils.xm is None:
        for options in (cfg.common, cfg.distributed_training, cfg.optimizer):
            if options is not None and "tpu" in options:
                options.tpu = False
    stock(cfg, main, **kwargs)


@replaces(AMPOptimizer, "__init__", order=10, why="--amp-init-scale is ignored, or read as --amp-scale-window")
def scale_as_asked(stock: Any, self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Begin with the scale, and raise it after the updates, that the options name.

    fairseq begins with --fp16-init-scale, which counts where --amp-init-scale is left as it is.
    """
    stock(self, cfg, *args, **kwargs)
    given: dict[str, Any] = {}
    if cfg.common.amp_init_scale != AMP_INIT_SCALE:
        given["scale"] = float(cfg.common.amp_init_scale)
    if cfg.common.amp_scale_window is not None:
        given["growth_interval"] = cfg.common.amp_scale_window
    # Where there is no GPU, it scales nothing.
    if state := self.scaler.state_dict():
        self.scaler.load_state_dict({**state, **given})


@replaces(AMPOptimizer, "step", order=10, why="--amp divides the gradients by the loss scale twice")
def unscale_once(stock: Any, self: Any) -> None:
    """Step the optimizer that `clip_grad_norm` has unscaled.

    torch's scaler remembers for which object it has unscaled the gradients. fairseq gives it torch's optimizer there
    and its own around that here, so that it divides once more.
    """
    self.scaler.step(self.optimizer)
    self.scaler.update()


@replaces(Trainer, "train_step", order=35, why="an overflow of --fp16 on the CPU ends the training")
def skip_an_overflow_on_the_cpu(stock: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Make an update, or none if a gradient overflows."""
    if self.cuda or not getattr(self.optimizer, "scaler", None):
        return stock(self, *args, **kwargs)
    # fairseq's trainer moves the norm of an overflow, 0, to a GPU.
    with patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
        return stock(self, *args, **kwargs)
