"""Changes to the trainer: before its first update, for speed on the CPU, and for numbers that are not finite."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn

import fairseq.trainer
import torch
from fairseq.optim.adam import Adam, FairseqAdam
from fairseq.trainer import Trainer
from torch import nn

from deepnmt.errors import in_place_of
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.kernels.malloc import keep_freed_memory
from deepnmt.kernels.products import rounded_factors
from deepnmt.model.initializers.from_batches import initialize_from_batches
from deepnmt.training.fused_adam import FusedAdam
from deepnmt.training.nonfinite import diagnosis, workers_disagree


@replaces(Trainer, "__init__", order=20, why="freed memory stays in the process: faster on the CPU")
def keep_memory_on_the_cpu(stock: Any, self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Keep freed memory in every training on the CPU."""
    stock(self, cfg, *args, **kwargs)
    if not self.cuda and not self.tpu:
        keep_freed_memory()


@replaces(Trainer, "__init__", order=30, why="a criterion may have parameters of the model's widths")
def show_the_model_to_the_criterion(
    stock: Any, self: Any, cfg: Any, task: Any, model: Any, criterion: Any, *args: Any, **kwargs: Any
) -> None:
    """Give the model to a criterion that asks for it, before the criterion gets its device and its optimizer."""
    if hasattr(criterion, "fit_to"):
        criterion.fit_to(model)
    stock(self, cfg, task, model, criterion, *args, **kwargs)


@replaces(FairseqAdam, "__init__", order=10, why="Adam in one pass over the memory")
def build_fused_adam(stock: Any, self: Any, cfg: Any, params: Any) -> None:
    """Build `FusedAdam` where it would be fairseq's own Adam; `--use-old-adam` stays fairseq's."""
    stock(self, cfg, params)
    if type(self._optimizer) is Adam and not getattr(cfg, "use_old_adam", False):
        self._optimizer = FusedAdam(self._optimizer.param_groups, **self.optimizer_config)


@replaces(Trainer, "set_num_updates", order=10, why="a criterion may change its loss during training")
def tell_the_criterion(stock: Any, self: Any, num_updates: int) -> None:
    """Give the number of updates to a criterion that asks for it; fairseq gives it to the model alone."""
    stock(self, num_updates)
    criterion = self.get_criterion()
    if hasattr(criterion, "set_num_updates"):
        criterion.set_num_updates(num_updates)


@replaces(Trainer, "train_step", order=10, why="initial weights that need data, such as Admin's")
def initialize_before_the_first_update(stock: Any, self: Any, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Set the weights that need data on the first update's batches."""
    if self.get_num_updates() == 0:
        initialize_from_batches(self, samples)
    return stock(self, samples, *args, **kwargs)


@replaces(Trainer, "train_step", order=20, why="the first layer with a NaN or Inf is named")
def name_what_is_not_finite(stock: Any, self: Any, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Make an update, or say where a NaN or Inf arose.

    Raises:
        UserError: says it, the same line from all workers
    """
    try:
        return stock(self, samples, *args, **kwargs)
    except FloatingPointError as error:
        if workers_disagree(self, error):
            raise
        raise in_place_of(FloatingPointError, diagnosis(self, samples, error)) from error


@replaces(Trainer, "train_step", order=50, why="--float32-matmul-precision: products may round their factors")
def round_factors(stock: Any, self: Any, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Make an update with products of the precision that was asked for, and leave everything else as it is."""
    precision = str(getattr(self.task.cfg, "float32_matmul_precision", None) or "highest")
    with matmul_precision(precision, self.cuda):
        return stock(self, samples, *args, **kwargs)


@contextmanager
def matmul_precision(precision: str, cuda: bool) -> Iterator[None]:
    """Products of float32 matrices have this precision: torch's on a GPU, this package's kernels' on the CPU."""
    if cuda:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
    else:
        with rounded_factors() if precision == "medium" else nullcontext():
            yield


@replaces(fairseq.trainer, "NanDetector", order=10, why="fairseq's detector logs every gradient")
def leave_detection_to_the_diagnosis(stock: Any, model: nn.Module) -> NoReturn:
    """Raise the error on again that the trainer makes its detector for."""
    error = sys.exc_info()[1]
    assert isinstance(error, FloatingPointError), "the trainer makes its detector while it handles such an error"
    raise error
