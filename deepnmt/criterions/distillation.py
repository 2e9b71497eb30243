"""`label_smoothed_cross_entropy_distillation`: learn what teachers predict, beside the references."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.criterions.teachers import Teachers, load_teachers
from deepnmt.errors import UserError
from deepnmt.kernels.linear_cross_entropy import Taught

NAME = "label_smoothed_cross_entropy_distillation"
MISSING_TEACHER = f"--teacher must be given to train with --criterion {NAME}, but is not"


@dataclass
class DistillationConfig(LabelSmoothedCrossEntropyCriterionConfig):  # type: ignore[misc]
    """fairseq's options of the label-smoothed cross entropy, and those of the teachers."""

    teacher: Optional[str] = field(
        default=None, metadata={"help": "checkpoint of the teacher, or several with colons between them: their mean"}
    )
    teacher_weight: float = field(
        default=0.8, metadata={"help": "share of the loss that is the cross entropy with the teacher, from 0 to 1"}
    )
    teacher_types: int = field(
        default=16,
        metadata={"help": "how many of a prediction's likeliest types are kept; the others have the same probability"},
    )
    teacher_memory: int = field(
        default=2048,
        metadata={"help": "MiB of predictions that a process keeps; what exceeds it is predicted in each epoch"},
    )


class Distillation(FusedLabelSmoothedCrossEntropy):
    """Word-level knowledge distillation (Kim and Rush 2016, EMNLP, D16-1139, 3.1), for q, the mean of the teachers:

        loss = (1 - w) NLL - w sum_v q(v | y_<t, x) log p(v | y_<t, x)                               (42)

    The NLL is label-smoothed. The K likeliest types of q are kept, as by Tan 2019 (ICLR, arXiv 1902.10461); the rest of
    its probability is spread over the others. Teachers read the reference, as the model does. In training, the log has
    (42) as `loss`; as `nll_loss`, and the perplexity, the NLL without smoothing. In validation it is the label-smoothed
    cross entropy alone.

    Without teachers it can validate, but train only where w is 0.

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
        if faults:
            raise UserError(*faults)
        self.weight = cfg.teacher_weight
        # No modules of the criterion: they are neither trained nor saved.
        # With BPE-dropout, no batch comes twice.
        room = 0 if getattr(task.cfg, "bpe_dropout", 0) else cfg.teacher_memory * 2**20
        self.teachers: Optional[Teachers] = None
        if cfg.teacher:
            self.teachers = Teachers(load_teachers(cfg.teacher, task), cfg.teacher_types, room)

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Any, int, dict[str, Any]]:
        """The loss of a batch, as fairseq's criterions give it; in training always reduced.

        Raises:
            UserError: in training, there is no teacher, or the model's features cannot be projected outside of it
        """
        if model.training and self.teachers is None and self.weight > 0:
            raise UserError(MISSING_TEACHER)
        if model.training and (reason := obstacle(model)):
            raise UserError(f"--teacher: must not be given with this model: {reason}")
        result: tuple[Any, int, dict[str, Any]] = super().forward(model, sample, reduce or model.training)
        return result

    def has_teachers(self, model: Any) -> bool:
        """See above: in training, where there are teachers."""
        return bool(model.training) and self.teachers is not None

    def taught(self, model: Any, sample: dict[str, Any], counted: tuple[Tensor, Tensor]) -> Optional[Taught]:
        """What the teachers predict, in training."""
        if not self.has_teachers(model):
            return None
        assert self.teachers is not None
        like = model.decoder.output_projection.weight
        return Taught(*self.teachers.predict(sample, counted, self.ignore_prefix_size, like), self.weight)
