"""When training meets a NaN or Inf: stop, and name the first layer that is not finite.

fairseq ends such a training with "gradients are Nan/Inf" or "Minimum loss scale reached". Here the failed update is run
again, with its seed, its batches and hooks on all modules. The error says where the first NaN or Inf arose:

    a parameter      it is not finite before the update
    an activation    in forward order the first module with finite inputs and an output that is not
    a gradient       in backward order the first module with a finite gradient of its output, and one of its input or
                     of a parameter that is not

`nonfinite_watch.py` finds the place. Until an update fails, training has no overhead.
"""

from collections.abc import Sequence
from typing import Any, Optional

import torch

from deepnmt.training.nonfinite_watch import Watch

ADVICE = "lower --lr, lengthen --warmup-updates, or set (or lower) --clip-norm"


def workers_disagree(trainer: Any, error: FloatingPointError) -> bool:
    """Return whether the workers' gradient norms differ; fairseq reports this fault like NaN and Inf."""
    return "inconsistent between workers" in str(error) and bool(trainer._grad_norm_buf.isfinite().all())


def diagnosis(trainer: Any, samples: Sequence[Any], error: FloatingPointError) -> str:
    """Return the line for the user about the failed update, the same from all workers.

    The trainer's parameters have their values from before the update, and the samples are its batches.
    """
    cfg = trainer.cfg
    watch = Watch(trainer.get_model(), trainer.get_criterion(), loss_scale(trainer.optimizer))
    watch.check_parameters()
    if not watch.finding:
        with watch.hooks():
            run_again(trainer, samples, watch)
        watch.check_gradients()
    found = watch.finding
    # Workers that do not sum their gradients in each update need not all fail in the same one.
    all_fail = not cfg.optimization.use_bmuf and cfg.distributed_training.ddp_backend != "slowmo"
    if trainer.data_parallel_world_size > 1 and all_fail:
        found = first_of_workers(f"worker {trainer.data_parallel_rank}: {found}" if found else "", trainer)
    found = found or (
        f"{str(error).split('. ')[0]}, but the same batches, run again with the same seed, give finite parameters, "
        "activations and gradients: what failed cannot be named"
    )
    advice = f"{ADVICE}, or use --bf16" if cfg.common.fp16 or cfg.common.amp else ADVICE
    return f"training stopped at update {trainer.get_num_updates() + 1}: {found}; {advice}"


def run_again(trainer: Any, samples: Sequence[Any], watch: Watch) -> None:
    """Run forward and backward pass as in `train_step`, which has cleared the gradients, on each worker separately."""
    trainer._set_seed()
    extra = {}
    if trainer.cfg.ema.store_ema and getattr(trainer.task, "uses_ema", False):
        extra["ema_model"] = trainer.ema.get_model()
    for number, sample in enumerate(samples, start=1):
        watch.batch = f"batch {number} of {len(samples)}: " if len(samples) > 1 else ""
        prepared, is_dummy = trainer._prepare_sample(sample)
        trainer.task.train_step(
            sample=prepared,
            model=trainer.get_model(),
            criterion=trainer.get_criterion(),
            optimizer=trainer.optimizer,
            update_num=trainer.get_num_updates(),
            ignore_grad=is_dummy,
            **extra,
        )


def loss_scale(optimizer: Any) -> Optional[float]:
    """Return the multiplier of the loss in FP16; None in other precisions."""
    scaler = getattr(optimizer, "scaler", None)
    if scaler is None:
        return None
    return float(scaler.loss_scale if hasattr(scaler, "loss_scale") else scaler.get_scale())


def first_of_workers(found: str, trainer: Any) -> str:
    """Return the first finding among the workers."""
    all_found: list[str] = [""] * trainer.data_parallel_world_size
    torch.distributed.all_gather_object(all_found, found, group=trainer.data_parallel_process_group)
    return next(filter(None, all_found), "")
