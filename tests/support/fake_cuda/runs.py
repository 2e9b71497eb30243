"""Trainings by fairseq's trainer and beam searches, on the made-up device or on the CPU."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.models.transformer import TransformerModelBase
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import OmegaConf
from torch import Tensor, nn

from deepnmt.criterions import distillation
from deepnmt.criterions.distillation import DistillationConfig
from deepnmt.lr_schedulers.inverse_sqrt_reset import InverseSqrtResetConfig
from deepnmt.model.config import DLCLTransformerConfig, to_transformer_config
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.search.generator import BeamGenerator
from support.fake_cuda.device import FakeCuda, host
from support.language_models import language_model
from support.models import batch, dictionary

NARROW = {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in {"embed_dim": 16, "ffn_embed_dim": 24, "attention_heads": 4}.items()
}
PRECISIONS: dict[str, dict[str, Any]] = {
    "fp32": {},
    "fp16": {"fp16": True, "fp16_init_scale": 16},
    "fp16 not flat": {"fp16": True, "fp16_init_scale": 16, "fp16_no_flatten_grads": True},
    "fp16 memory-efficient": {"fp16": True, "memory_efficient_fp16": True, "fp16_init_scale": 16},
    "bf16": {"bf16": True},
    "amp": {"amp": True, "fp16_init_scale": 16},
}
WORDS = dictionary(40)


class Task(FairseqTask):
    source_dictionary = target_dictionary = WORDS

    def __init__(self) -> None:
        super().__init__(None)


def _sample(sources: list[list[int]], targets: list[list[int]]) -> dict[str, Any]:
    eos, pad = WORDS.eos(), WORDS.pad()
    longest = max(map(len, targets)) + 1
    return {
        "id": torch.arange(len(sources)),
        "nsentences": len(sources),
        "ntokens": sum(len(target) + 1 for target in targets),
        "target": torch.tensor([[*target, eos, *[pad] * (longest - len(target) - 1)] for target in targets]),
        "net_input": batch(sources, targets),
    }


# Two batches an update, the first one padded on both sides.
SAMPLES = [
    _sample([[5, 6, 7, 8, 9, 10, 11], [10, 11, 12], [13]], [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8], [9]]),
    _sample([[20, 21, 7]], [[6, 23]]),
]


class Training(NamedTuple):
    """What a training came to.

    Attributes:
        losses: of the updates and of a validation
        before, after: parameters
        without_gradient: names of parameters that got no gradient in the last update
        updates: that were made
        devices: types of device of all parameters and buffers
        kernels, waits: of the last update; none on the CPU
    """

    losses: list[float]
    before: dict[str, Tensor]
    after: dict[str, Tensor]
    without_gradient: list[str]
    updates: int
    devices: set[str]
    kernels: int
    waits: dict[str, int]


@contextmanager
def device(on_cpu: bool) -> Iterator[FakeCuda | None]:
    """The made-up device; on the CPU, what fairseq's half precision asks of one."""
    if not on_cpu:
        with FakeCuda() as mode:
            yield mode
        return
    with (
        mock.patch.object(torch.cuda, "current_device", return_value=None),
        mock.patch.object(Tensor, "cuda", lambda self: self),
    ):
        yield None


def options_of(architecture: str, **more: Any) -> dict[str, Any]:
    """What a named architecture sets, at a width at which it is quick."""
    config = MODEL_DATACLASS_REGISTRY[architecture]()
    options = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    dropouts = ("dropout", "attention_dropout", "activation_dropout")
    return {**options, **NARROW, **dict.fromkeys(dropouts, 0.0), **more}


def build(options: Mapping[str, Any], stock: bool = False) -> nn.Module:
    """A model of the package, or fairseq's own of the same options."""
    torch.manual_seed(1)
    known = {name: value for name, value in options.items() if not name.startswith("_")}
    config = DLCLTransformerConfig(**{**NARROW, "dropout": 0.0, **known})
    if stock:
        model: nn.Module = TransformerModelBase.build_model(to_transformer_config(config), Task())
        return model
    return DLCLTransformerModel.build_model(config, Task())


def train(
    options: Mapping[str, Any],
    precision: str,
    on_cpu: bool,
    criterion: str = "label_smoothed_cross_entropy",
    updates: int = 2,
    stock: bool = False,
    **groups: Mapping[str, Any],
) -> Training:
    """Train by fairseq's trainer, two batches an update, and validate once.

    Args:
        options: of the model
        precision: of `PRECISIONS`
        on_cpu: not on the made-up device
        criterion: its name
        updates: to make
        stock: fairseq's own model
        groups: fairseq's options beside the usual ones, by the name of their group
    """
    metrics.reset()
    with device(on_cpu) as mode:
        model = build(options, stock)
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        trainer = _trainer(model, criterion, on_cpu, {**PRECISIONS[precision], **groups.pop("common", {})}, groups)
        losses = []
        for _ in range(updates):
            if mode is not None:
                mode.reset()
            log = trainer.train_step([dict(sample) for sample in SAMPLES])
            losses += [] if log is None else [float(log["loss"])]
        kernels, waits = (mode.kernels, dict(mode.waits)) if mode is not None else (0, {})
        trained = trainer.get_model()
        named = dict(trained.named_parameters())
        losses.append(float(trainer.valid_step(dict(SAMPLES[0]))["loss"]))
        return Training(
            losses=losses,
            before=before,
            after={name: host(parameter).float() for name, parameter in named.items()},
            without_gradient=[name for name, p in named.items() if p.requires_grad and p.grad is None],
            updates=trainer.get_num_updates(),
            devices={tensor.device.type for tensor in (*trained.parameters(), *trained.buffers())},
            kernels=kernels,
            waits=waits,
        )


def _trainer(
    model: nn.Module, criterion: str, on_cpu: bool, common: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]]
) -> Any:
    cfg: Any = OmegaConf.structured(FairseqConfig)
    OmegaConf.set_struct(cfg, False)
    cfg.model = {}
    cfg.optimizer = FairseqAdamConfig(_name="adam", lr=[1e-2], adam_eps=1e-3, adam_betas="(0.9, 0.98)")
    schedule = InverseSqrtResetConfig(_name="inverse_sqrt_reset", warmup_updates=2, reset_updates="2", lr=[1e-2])
    cfg.lr_scheduler = schedule
    cfg.common.cpu = on_cpu
    cfg.common.update(common)
    cfg.checkpoint.save_dir = tempfile.gettempdir()
    for group, values in groups.items():
        cfg[group].update(values)
    kind = CRITERION_DATACLASS_REGISTRY[criterion](label_smoothing=0.1, report_accuracy=True)
    kind.sentence_avg = False
    if isinstance(kind, DistillationConfig):
        kind.teacher = "made up"
    with two_teachers():
        made = CRITERION_REGISTRY[criterion].build_criterion(kind, Task())
    return Trainer(cfg, Task(), model, made)


@contextmanager
def two_teachers() -> Iterator[None]:
    """Within the context, a criterion with teachers has two models of the CPU, one deeper than the other."""
    teachers = [build({"encoder_layers": layers, "decoder_layers": 1}) for layers in (1, 2)]
    with (
        mock.patch.object(distillation, "TranslationTask", Task),
        mock.patch.object(distillation, "load_teachers", return_value=teachers),
    ):
        yield


class Found(NamedTuple):
    """Hypotheses of each sentence, best first."""

    tokens: list[list[list[int]]]
    scores: list[list[float]]
    kernels: int
    waits: int


def search_model(options: Mapping[str, Any]) -> nn.Module:
    """A random model, with probabilities that differ enough for hypotheses to end at different lengths."""
    model: Any = build(options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        if getattr(model.decoder, "output_projection", None) is not None:
            model.decoder.output_projection.weight[WORDS.eos()].mul_(2)
    return model.eval()  # type: ignore[no-any-return]


def search(options: Mapping[str, Any], half: bool, on_cpu: bool, own: bool = True, lm_weight: float = 0.0) -> Found:
    """Translate the first sample by the package's search, or by fairseq's."""
    with device(on_cpu) as mode:
        model = search_model(options)
        if half:
            model.half()
        inputs = {name: value for name, value in SAMPLES[0]["net_input"].items() if name != "prev_output_tokens"}
        if mode is not None:
            _move(model)
            inputs = {name: value.to("cuda") for name, value in inputs.items()}
        kind = BeamGenerator if own else SequenceGenerator
        lm = {"lm_model": language_model(WORDS), "lm_weight": lm_weight} if lm_weight else {}
        generator = kind([model], WORDS, beam_size=4, max_len_b=12, **lm)
        if mode is not None:
            mode.reset()
        with torch.no_grad():
            found = generator.generate([model], {"net_input": inputs})
        return Found(
            tokens=[[host(hypothesis["tokens"]).tolist() for hypothesis in sentence] for sentence in found],
            scores=[[float(host(hypothesis["score"])) for hypothesis in sentence] for sentence in found],
            kernels=mode.kernels if mode is not None else 0,
            waits=sum(mode.waits.values()) if mode is not None else 0,
        )


def _move(module: nn.Module) -> None:
    """`module.cuda()`, with shared parameters still shared."""
    moved: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is not None:
                if id(parameter) not in moved:
                    moved[id(parameter)] = nn.Parameter(parameter.detach().to("cuda"), parameter.requires_grad)
                part._parameters[name] = moved[id(parameter)]
        for name, buffer in list(part._buffers.items()):
            if buffer is not None:
                part._buffers[name] = buffer.to("cuda")


def largest_difference(one: Training, other: Training) -> float:
    """The largest difference within a parameter, as a share of its largest value."""
    pairs = ((one.after[name], other.after[name]) for name in one.after)
    return max(float((a - b).abs().max() / a.abs().max().clamp(min=1e-3)) for a, b in pairs)


def update_error(one: Training, other: Training) -> float:
    """How far apart two trainings are, as a share of how far the first has come.

    In half precision, single parameters whose gradients are rounding alone say nothing.
    """
    apart = torch.stack([(one.after[name] - other.after[name]).norm() for name in one.after]).norm()
    come = torch.stack([(one.after[name] - one.before[name].float()).norm() for name in one.after]).norm()
    return float(apart / come)


def score_error(options: Mapping[str, Any], found: Found) -> float:
    """The largest difference of a score from the same rounded weights' in float32, by the forward pass."""
    model: Any = search_model(options).half().float()
    errors = []
    for number, (hypotheses, scores) in enumerate(zip(found.tokens, found.scores)):
        source = SAMPLES[0]["net_input"]["src_tokens"][number : number + 1]
        source = source[:, int(source.eq(WORDS.pad()).sum()) :]
        for hypothesis, score in zip(hypotheses, scores):
            tokens = torch.tensor([hypothesis])
            shifted = torch.cat([torch.tensor([[WORDS.eos()]]), tokens[:, :-1]], dim=1)
            with torch.no_grad():
                output = model(source, torch.tensor([source.size(1)]), shifted)
                log_probs = model.get_normalized_probs(output, log_probs=True)
            errors.append(abs(float(log_probs.gather(-1, tokens.unsqueeze(-1)).mean()) - score))
    return max(errors)
