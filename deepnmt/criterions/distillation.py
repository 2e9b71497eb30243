"""`label_smoothed_cross_entropy_distillation`: learn teachers' predictions, beside the references."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import copy
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.criterions.hints import FORM, UNIFORM, Hints
from deepnmt.errors import UserError
from deepnmt.kernels.linear_cross_entropy import Taught
from deepnmt.kernels.projection import pieces
from deepnmt.options.option_table import described, option

NAME = "label_smoothed_cross_entropy_distillation"
MISSING_TEACHER = f"--teacher must be given to train with --criterion {NAME}, but is not"
Predictions = tuple[Tensor, Tensor]


class Teachers:
    """Models whose weights do not change, without dropout, and the mean of their distributions.

    The same batches come again in each epoch, so their predictions are kept: the types as int32, the probabilities
    as float16. They are rounded before their first use. A batch counts as the same if it has the same sentences, in
    whatever order batches come. A resumed training therefore repeats itself exactly.

    Args:
        models: one or more
        types: K; at most V - 1 are kept
        room: bytes for kept predictions; later ones are predicted again each time
        temperature: divisor of the logits

    Attributes:
        kept: predictions by the digest of a batch
    """

    def __init__(self, models: Sequence[Any], types: int, room: int, temperature: float = 1.0) -> None:
        self.models = [model.eval() for model in models]
        self.types = types
        self.room = room
        self.temperature = temperature
        self.kept: dict[bytes, Predictions] = {}

    @torch.no_grad()
    def predict(self, sample: dict[str, Any], counted: tuple[Tensor, Tensor], prefix: int, like: Tensor) -> Predictions:
        """Return the likeliest types, N x K, and their probabilities, N x K.

        Args:
            sample: a batch
            counted: sentence and place of each of the N target positions
            prefix: places are counted from this one
            like: a tensor of the trained model, which sets the teachers' device and type
        """
        key = digest(sample)
        found = self.kept.get(key)
        if found is None:
            types, probabilities = self._predict(sample["net_input"], counted, prefix, like)
            found = types.int().cpu(), probabilities.half().cpu()
            size = sum(each.numel() * each.element_size() for each in found)
            if size <= self.room:
                self.room -= size
                self.kept[key] = found
        return found[0].to(like.device).long(), found[1].to(like.device).float()

    def _predict(
        self, inputs: dict[str, Any], counted: tuple[Tensor, Tensor], prefix: int, like: Tensor
    ) -> Predictions:
        features, weights = [], []
        for model in self.models:
            model.to(device=like.device, dtype=like.dtype)
            features.append(model(**inputs, features_only=True)[0][:, prefix:][counted] / self.temperature)
            weights.append(model.decoder.output_projection.weight)
        found = []
        for some in pieces(len(counted[0]), len(weights[0]), like.device):
            each = (torch.softmax(h[some] @ w.t(), dim=1, dtype=torch.float32) for h, w in zip(features, weights))
            mean = torch.stack(list(each)).mean(0)
            found.append(mean.topk(min(self.types, mean.size(1) - 1), dim=1))
        if not found:
            return counted[0].new_zeros(0, 1), like.new_zeros(0, 1)
        return torch.cat([each.indices for each in found]), torch.cat([each.values for each in found])


def digest(sample: dict[str, Any]) -> bytes:
    """Return the identity of a batch: a digest of its tokens and its padding."""
    result = hashlib.blake2b(digest_size=16)
    for tokens in (sample["net_input"]["src_tokens"], sample["net_input"]["prev_output_tokens"], sample["target"]):
        result.update(str(tuple(tokens.shape)).encode())
        result.update(tokens.cpu().numpy().tobytes())
    return result.digest()


def load_teachers(paths: str, task: Any) -> list[Any]:
    """Return the models of checkpoints, whose paths are colon-separated, for the task of a training.

    Raises:
        UserError: a checkpoint is missing or cannot be read, has other dictionaries or another direction, or this
            package cannot project the features of its model
    """
    models = []
    for path in paths.split(":"):
        if not Path(path).is_file():
            raise UserError(f"--teacher: checkpoint '{path}' not found")
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        _check_languages(path, state["cfg"], task)
        # A task of its own, since it is changed by checkpoints.
        own = type(task)(copy.deepcopy(task.cfg), task.source_dictionary, task.target_dictionary)
        try:
            (model,), _ = checkpoint_utils.load_model_ensemble([path], task=own, state=state)
        except UserError as error:
            raise UserError(*(f"--teacher: {path}: {fault}" for fault in str(error).splitlines())) from None
        if getattr(own, "right_to_left", False) != getattr(task, "right_to_left", False):
            raise UserError(f"--teacher: {path} was trained with --right-to-left, which must then be given")
        if reason := obstacle(model):
            raise UserError(f"--teacher: {path} cannot be used: {reason}")
        models.append(model)
    return models


def _check_languages(path: str, cfg: Any, task: Any) -> None:
    source, target = (getattr(cfg.task, name, None) for name in ("source_lang", "target_lang"))
    wanted = f"{task.cfg.source_lang} to {task.cfg.target_lang}"
    if source and target and f"{source} to {target}" != wanted:
        raise UserError(f"--teacher: {path} must translate {wanted}, but translates {source} to {target}")


@dataclass
class DistillationConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and the teachers' options."""

    teacher: Optional[str] = described(
        None, "checkpoint of the teacher, or several, colon-separated, whose mean is used"
    )
    teacher_weight: float = described(0.8, "share of the loss that is the cross entropy with the teacher, from 0 to 1")
    teacher_types: int = described(
        16, "number of a prediction's likeliest types to keep; the others share the rest evenly"
    )
    teacher_memory: int = described(
        2048, "MiB of predictions that a process keeps; others are predicted again in each epoch"
    )
    teacher_temperature: float = described(
        1.0, "divisor of all logits in the cross entropy with the teacher; above 1, unlikely types count more"
    )
    hint_weight: float = described(
        0.0, "weight of the squared distance of the layers' outputs from the teacher's, for one teacher"
    )
    hint_attention_weight: float = described(
        0.0, "weight of the squared distance of the attention probabilities from the teacher's, for one teacher"
    )
    hint_map: str = described(UNIFORM, f"layers of the model and the teacher's layers that they learn from: {FORM}")


class Distillation(FusedLabelSmoothedCrossEntropy):
    """Word-level knowledge distillation (Kim and Rush 2016, EMNLP, D16-1139, 3.1), for q, the mean of the teachers:

        loss = (1 - w) NLL - w sum_v q(v | y_<t, x) log p(v | y_<t, x)                               (42)
        loss = (1 - w) NLL - w T^2 sum_v q_T(v | y_<t, x) log p_T(v | y_<t, x)                       (50)

    (50) has the distributions of logits divided by T (Hinton 2015, arXiv 1503.02531); (42) is T = 1. Hints (51) are
    added to either, multiplied by the number of target tokens.

    The NLL is label-smoothed. The K likeliest types of q are kept, as by Tan 2019 (ICLR, arXiv 1902.10461); the rest of
    its probability is spread over the others. Teachers read the reference, as the model does. In training, the log has
    (42) as `loss`. Its `nll_loss`, and the perplexity, are the NLL without smoothing. In validation it is the
    label-smoothed cross entropy alone.

    Without teachers it can validate, but train only if w is 0.

    Raises:
        UserError: every option that is out of range, a line each; a teacher cannot be used
    """  # fmt: skip

    def __init__(self, task: Any, cfg: DistillationConfig) -> None:
        super().__init__(task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, cfg.report_accuracy)
        faults = []
        if not isinstance(task, TranslationTask):
            faults.append(f"--task must be translation or deep_translation with a teacher, but is {task.cfg._name}")
        if not 0 <= cfg.teacher_weight <= 1:
            faults.append(f"--teacher-weight must be from 0 to 1, but is {cfg.teacher_weight}")
        if cfg.teacher_types < 1:
            faults.append(f"--teacher-types must be at least 1, but is {cfg.teacher_types}")
        if cfg.teacher_memory < 0:
            faults.append(f"--teacher-memory must be at least 0, but is {cfg.teacher_memory}")
        if not 0 < cfg.teacher_temperature < math.inf:
            faults.append(f"--teacher-temperature must be a finite number above 0, but is {cfg.teacher_temperature}")
        faults += _hint_faults(task, cfg)
        if faults:
            raise UserError(*faults)
        self.weight, self.temperature = cfg.teacher_weight, cfg.teacher_temperature
        self.wanted = (cfg.hint_weight, cfg.hint_attention_weight, cfg.hint_map)
        # Not modules of the criterion: they are neither trained nor saved.
        # Of a text that is cut anew, no batch occurs twice. Hints need the teacher's pass in every update.
        cut_anew = any(getattr(task.cfg, name, 0) for name in ("bpe_dropout", "unigram_sampling"))
        room = 0 if cut_anew or any(self.wanted[:2]) else cfg.teacher_memory * 2**20
        self.teachers: Optional[Teachers] = None
        self.hints: Optional[Hints] = None
        if cfg.teacher:
            self.teachers = Teachers(load_teachers(cfg.teacher, task), cfg.teacher_types, room, self.temperature)

    def fit_to(self, model: Any) -> None:
        """Make the hints for a model, which a trainer does before it moves the criterion to its device.

        Raises:
            UserError: hints are asked for, and the model or the teacher does not fit
        """
        if self.teachers is not None and any(self.wanted[:2]):
            if reason := obstacle(model):
                raise UserError(f"--teacher cannot be used with this model: {reason}")
            self.hints = Hints(*self.wanted, model, self.teachers.models[0])

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """Return the loss of a batch, as in fairseq's criterions; in training always reduced.

        Raises:
            UserError: in training, there is no teacher, or the model's features cannot be projected separately
        """
        if model.training and self.teachers is None and self.weight > 0:
            raise UserError(MISSING_TEACHER)
        if model.training and (reason := obstacle(model)):
            raise UserError(f"--teacher cannot be used with this model: {reason}")
        if self.hints is None or self.teachers is None or not model.training:
            result: tuple[Any, int, dict[str, Any]] = super().forward(model, sample, reduce or model.training)
            return result
        with self.hints.watch(model, self.teachers.models[0]) as seen:
            loss, size, log = super().forward(model, sample)
        hint = self.hints.loss(seen, sample, self.padding_idx) * sample["ntokens"]
        loss = loss + hint
        return loss, size, {**log, "loss": loss.detach(), "hint_loss": hint.detach()}

    def load_state_dict(self, state_dict: Optional[Mapping[str, Any]], *args: Any, **kwargs: Any) -> Any:
        """Load the maps of hints. They keep their initial values if the checkpoint is of a training without hints."""
        return super().load_state_dict(self.state_dict() if state_dict is None else state_dict, *args, **kwargs)

    def has_teachers(self, model: Any) -> bool:
        """See above: in training, if there are teachers."""
        return bool(model.training) and self.teachers is not None

    def taught(self, model: Any, sample: dict[str, Any], counted: tuple[Tensor, Tensor]) -> Optional[Taught]:
        """Return the teachers' predictions, in training."""
        if not self.has_teachers(model):
            return None
        assert self.teachers is not None
        like = model.decoder.output_projection.weight
        predicted = self.teachers.predict(sample, counted, self.ignore_prefix_size, like)
        return Taught(*predicted, self.weight, self.temperature)

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log what fairseq logs and, with hints, their share of the loss per token as `hint_loss`."""
        super().reduce_metrics(logging_outputs)
        cls.log_mean(logging_outputs, "hint_loss", "ntokens", 1.0, 4)


def _hint_faults(task: Any, cfg: DistillationConfig) -> Iterator[str]:
    weights = {"hint-weight": cfg.hint_weight, "hint-attention-weight": cfg.hint_attention_weight}
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            yield f"--{name} must be a finite number of at least 0, but is {weight}"
    if not any(weights.values()):
        if cfg.hint_map != UNIFORM:
            yield "--hint-map needs --hint-weight or --hint-attention-weight, but both are 0"
        return
    if cfg.teacher and ":" in cfg.teacher:
        yield f"--teacher must be one checkpoint with --hint-weight or --hint-attention-weight, but is {cfg.teacher}"
    for name in ("pair_weights", "set_weights"):
        if getattr(task.cfg, name, None):
            yield f"--hint-weight and --hint-attention-weight cannot be combined with {option(name)}"
