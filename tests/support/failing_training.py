"""Trainings by fairseq's trainer in which something is not finite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.lr_scheduler.fixed_schedule import FixedLRScheduleConfig
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import OmegaConf
from torch import Tensor, nn

import deepnmt
from deepnmt.errors import UserError
from support.models import EXAMPLE, build, dictionary

INF, NAN = float("inf"), float("nan")
DLCL = {"encoder_groups": "1", "decoder_groups": "1", "encoder_normalize_before": True}
Make = Callable[..., Trainer]


class Task(FairseqTask):
    def __init__(self) -> None:
        super().__init__(None)
        self.words = dictionary()

    @property
    def target_dictionary(self) -> Dictionary:
        return self.words


class Criterion(LabelSmoothedCrossEntropyCriterion):
    """With something done to its loss."""

    def __init__(self, change: Callable[[Tensor], Tensor] = lambda loss: loss) -> None:
        super().__init__(Task(), sentence_avg=False, label_smoothing=0.1)
        self.change = change

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        loss, *rest = super().forward(*args, **kwargs)
        return self.change(loss), *rest


class ScaledGradient(torch.autograd.Function):
    """The identity, with a gradient that is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0] * ctx.factor, None


def sample(net_input: dict[str, Tensor] = EXAMPLE) -> dict[str, Any]:
    target = net_input["prev_output_tokens"].roll(-1, dims=1)
    return {"id": torch.arange(len(target)), "ntokens": target.numel(), "net_input": net_input, "target": target}


def trainer_maker(folder: Path) -> Make:
    """A function that makes trainers, which save to a folder."""
    deepnmt.register()

    def trainer(
        model: nn.Module | None = None, criterion: nn.Module | None = None, **options: dict[str, Any]
    ) -> Trainer:
        cfg = OmegaConf.structured(FairseqConfig)
        OmegaConf.set_struct(cfg, False)
        cfg.model = {}
        cfg.optimizer = FairseqAdamConfig(_name="adam", lr=[1e-3])
        cfg.lr_scheduler = FixedLRScheduleConfig(_name="fixed", lr=[1e-3])
        cfg.common.cpu = True
        cfg.checkpoint.save_dir = str(folder)
        for group, values in options.items():
            cfg[group].update(values)
        return Trainer(cfg, Task(), model or build(DLCL).float(), criterion or Criterion())

    return trainer


def plant(model: nn.Module, name: str, value: float) -> None:
    """Put a value into one place of what a module puts out."""

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        tensor = (output[0] if isinstance(output, tuple) else output).clone()
        tensor.view(-1)[3] = value
        return (tensor, *output[1:]) if isinstance(output, tuple) else tensor

    model.get_submodule(name).register_forward_hook(hook)


def scale_gradient(model: nn.Module, name: str, factor: float) -> None:
    """Multiply the gradient inside a module."""
    model.get_submodule(name).register_forward_hook(lambda module, args, output: ScaledGradient.apply(output, factor))


def error_of(trainer: Trainer, samples: list[dict[str, Any]] | None = None) -> str:
    with pytest.raises(UserError, match=r"^training stopped at update ") as caught:
        trainer.train_step(samples or [sample()])
    text = str(caught.value)
    assert "\n" not in text
    return text
