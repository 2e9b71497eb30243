"""Admin's profiling pass: what the trained vectors of the residuals start from (Liu 2020, EMNLP, arXiv 2004.08249).

    w_i = r_i,  r_1 = 1,  r_{i+1} = sqrt(Var(w_i x_i) + Var(F_i(x_i)))                           (14)

over the sublayers i of a stack, encoder and decoder apart; Var is one number, over all elements of a tensor T x B x C.

The pass runs in training mode before the first update, on that update's batches, each by itself; `w` is the root mean
square over all batches of all workers, so that it does not matter how they are spread. No layer is left out in it.

A model awaits the pass while all its `w` are the ones that they are built with. So it is the weights in a checkpoint
that say that the pass is over, and a restart or a fine-tuning keeps what has been trained.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.model.residual import Residual

logger = logging.getLogger(__name__)


def apply() -> None:
    """Let fairseq's trainer profile a model of `--initializer admin` before its first update."""
    stock = Trainer.train_step

    @functools.wraps(stock)
    def train_step(self: Any, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if self.get_num_updates() == 0 and uses_admin(self.get_model()):
            profile_once(self, samples)
        return stock(self, samples, *args, **kwargs)

    Trainer.train_step = train_step


def uses_admin(model: Any) -> bool:
    """Whether the configuration of a model, which may be any of fairseq's, asks for the pass."""
    config = getattr(getattr(model, "cfg", None), "deep", None)
    return config is not None and str(config.initializer) == "admin"


def profile_once(trainer: Any, samples: Sequence[Any]) -> None:
    """Set the `w` of all residuals, unless they have been set or trained before.

    Args:
        trainer: fairseq's
        samples: the batches of the first update on this worker; an empty one stands for none

    Raises:
        UserError: the model is fully sharded
    """
    if trainer.is_fsdp:
        raise UserError("--ddp-backend must not be fully_sharded with --initializer admin: it needs whole parameters")
    model = trainer.get_model()
    encoder, decoder = residuals(model.encoder), residuals(model.decoder)
    if any(bool((residual.weight != 1).any()) for residual in (*encoder, *decoder)):
        return
    # The sum of the squares of each r, and the number of batches.
    total = torch.zeros(len(encoder) + len(decoder) + 1, dtype=torch.float64, device=trainer.device)
    for sample in samples:
        batch, is_dummy = trainer._prepare_sample(sample)
        if not is_dummy:
            trainer._set_seed()  # The same dropout for a batch, whichever worker has it.
            squares = [ratio**2 for ratio in profile(model, batch["net_input"])]
            total += total.new_tensor([*squares, 1.0])
    if trainer.data_parallel_world_size > 1:
        total = distributed_utils.all_reduce(total, group=trainer.data_parallel_process_group)
    *weights, _ = (total / total[-1]).sqrt().tolist()
    with torch.no_grad():
        for residual, weight in zip((*encoder, *decoder), weights):
            residual.weight.fill_(weight)
    rebuild_optimizer(trainer)

    def span(values: list[float]) -> str:
        return f"from {min(values):.3g} to {max(values):.3g}"

    logger.info(
        f"admin: profiled {int(total[-1])} batches; w of the encoder {span(weights[: len(encoder)])}, "
        f"of the decoder {span(weights[len(encoder) :])}"
    )


def profile(model: Any, net_input: dict[str, Tensor]) -> list[float]:
    """The `r` of (14) for each sublayer of the encoder, then of the decoder, for one batch.

    It leaves behind the `w` of this batch, and a model in training mode.
    """
    model.train()
    with torch.no_grad(), _profiled(model.encoder) as encoder, _profiled(model.decoder) as decoder:
        model(**net_input, features_only=True)
    ratios = {**encoder, **decoder}
    return [ratios[residual] for residual in (*residuals(model.encoder), *residuals(model.decoder))]


def residuals(stack: Any) -> list[Any]:
    """The residuals of a stack, one a sublayer, in the order in which they run."""
    return [module for module in stack.modules() if isinstance(module, Residual)]


def rebuild_optimizer(trainer: Any) -> None:
    """Let the optimizer see the new `w`: in half precision it has copies of all parameters, made when it was built."""
    schedule = trainer.lr_scheduler.state_dict()
    trainer._optimizer = trainer._lr_scheduler = None  # Frees the copies before there are new ones.
    trainer._build_optimizer()
    trainer.lr_scheduler.load_state_dict(schedule)
    trainer.lr_step_update()


@contextmanager
def _profiled(stack: Any) -> Iterator[dict[Any, float]]:
    """Each residual that runs sets its `w`; what is yielded gets its `r`. Nothing is dropped but by dropout itself."""
    found: dict[Any, float] = {}
    ratio = 1.0

    def set_weight(residual: Any, inputs: tuple[Tensor, Tensor]) -> None:
        nonlocal ratio
        x, branch = inputs
        found[residual] = ratio
        residual.weight.fill_(ratio)
        ratio = math.sqrt(ratio**2 * _variance(x) + _variance(branch))

    # LayerDrop and sublayer skipping heed the mode of the list of layers, and of the module that draws.
    switches = [module for module in (stack.layers, stack.skipping) if module is not None]
    handles = [residual.register_forward_pre_hook(set_weight) for residual in residuals(stack)]
    for module in switches:
        module.training = False
    try:
        yield found
    finally:
        for module in switches:
            module.training = True
        for handle in handles:
            handle.remove()


def _variance(x: Tensor) -> float:
    return float(x.to(torch.promote_types(x.dtype, torch.float32)).var(correction=0))
