"""Word-level distillation: equation (42) in float64, teachers, what is kept of them, and whole trainings."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from support.consistency_reference import PAD, SMOOTHED, SOURCES, TARGETS, gradients, make_sample
from support.models import batch, build, dictionary, task
from support.restarts import train_until
from support.trainings import binarised_text
from torch import Tensor

from deepnmt.criterions import distillation
from deepnmt.criterions.distillation import Distillation, DistillationConfig, Teachers, digest, load_teachers
from deepnmt.errors import UserError
from deepnmt.kernels import projection
from deepnmt.kernels.linear_cross_entropy import Taught, linear_cross_entropy
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

N, C, V = 23, 6, 11
PLENTY = 2**30


def cross_entropies(scores: Tensor, right: int, e: float, w: float, named: dict[int, float]) -> Tensor:
    """The loss of one position; `named` has what the teacher says of its likeliest types."""
    log_p = scores - scores.exp().sum().log()
    rest = (1 - sum(named.values())) / (len(scores) - len(named))
    wanted = []
    for kind in range(len(scores)):
        smoothed = (1 - e) if kind == right else e / (len(scores) - 1)
        wanted.append((1 - w) * smoothed + w * named.get(kind, rest))
    return -(torch.tensor(wanted, dtype=torch.float64) * log_p).sum()


def likeliest(q: Tensor, k: int) -> dict[int, float]:
    """The k likeliest types of a distribution, but not all, rounded to half precision."""
    order = sorted(range(len(q)), key=lambda kind: -float(q[kind]))[: min(k, len(q) - 1)]
    return {kind: float(q[kind].half()) for kind in order}


@pytest.mark.parametrize("logits", [5 * V, 2**22])
@pytest.mark.parametrize(
    ("e", "w", "k"), [(0.1, 0.0, 3), (0.1, 0.4, 3), (0.0, 0.7, 1), (0.2, 1.0, 5), (0.1, 0.5, V - 1)]
)
@pytest.mark.parametrize("counted", [False, True])
def test_the_kernel_equals_the_formula(
    e: float, w: float, k: int, counted: bool, logits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(projection.LOGITS, "cpu", logits)
    monkeypatch.setattr(projection, "fewest_positions", lambda: 1)
    torch.manual_seed(3)
    h, weight = torch.randn(N, C).double().requires_grad_(), torch.randn(V, C).double().requires_grad_()
    target, q = torch.randint(V, (N,)), torch.softmax(2 * torch.randn(N, V).double(), 1)
    counts = torch.rand(N).double() if counted else None
    found, kinds = q.topk(k, dim=1)
    losses = linear_cross_entropy(h, weight, target, e, counts=counts, taught=Taught(kinds, found, w))
    loss = nll = torch.zeros(()).double()
    for number in range(N):
        scores = weight @ h[number]
        named = dict(zip(kinds[number].tolist(), found[number].tolist()))
        part = cross_entropies(scores, int(target[number]), e, w, named)
        loss = loss + part * (1.0 if counts is None else counts[number])
        nll = nll + cross_entropies(scores, int(target[number]), 0, 0, {})
    torch.testing.assert_close((losses.loss, losses.nll), (loss, nll), rtol=1e-12, atol=1e-12)
    for _ in range(2):
        ours = torch.autograd.grad(-2.5 * losses.loss, (h, weight), retain_graph=True)
        torch.testing.assert_close(ours, torch.autograd.grad(-2.5 * loss, (h, weight), retain_graph=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_kernel_in_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    h, weight, target = torch.randn(N, C), torch.randn(V, C), torch.randint(V, (N,))
    found, kinds = torch.softmax(2 * torch.randn(N, V), 1).topk(3, dim=1)
    gradients, values = [], []
    for kind in (torch.float64, dtype):
        inputs = [each.to(dtype).to(kind).requires_grad_() for each in (h, weight)]
        loss = linear_cross_entropy(*inputs, target, 0.1, taught=Taught(kinds, found, 0.6)).loss
        values.append(float(loss.detach()))
        gradients.append([each.double() for each in torch.autograd.grad(3 * loss, inputs)])
    assert values[1] == pytest.approx(values[0], rel=0.01)
    for exact, rough in zip(*gradients):
        assert float((exact - rough).norm() / exact.norm()) < 0.01


@pytest.mark.parametrize(("w", "T", "counted"), [(0.4, 2.0, False), (1.0, 0.5, True), (0.7, 3.0, True)])
def test_a_temperature_divides_both_logits(w: float, T: float, counted: bool) -> None:
    """(50): the gradient of the teacher's share keeps its size, which T^2 makes good."""
    torch.manual_seed(3)
    h, weight = torch.randn(N, C).double().requires_grad_(), torch.randn(V, C).double().requires_grad_()
    target, q = torch.randint(V, (N,)), torch.softmax(2 * torch.randn(N, V).double() / T, 1)
    counts = torch.rand(N).double() if counted else None
    found, kinds = q.topk(3, dim=1)
    losses = linear_cross_entropy(h, weight, target, 0.1, True, counts, Taught(kinds, found, w, T))
    loss = nll = torch.zeros(()).double()
    for number in range(N):
        scores, named = weight @ h[number], dict(zip(kinds[number].tolist(), found[number].tolist()))
        hard = cross_entropies(scores, int(target[number]), 0.1, 0.0, {})
        part = (1 - w) * hard + w * T * T * cross_entropies(scores / T, 0, 0.0, 1.0, named)
        loss = loss + part * (1.0 if counts is None else counts[number])
        nll = nll + cross_entropies(scores, int(target[number]), 0, 0, {})
    torch.testing.assert_close((losses.loss, losses.nll), (loss, nll), rtol=1e-12, atol=1e-12)
    assert int(losses.correct) == int((h @ weight.t()).argmax(1).eq(target).sum())
    ours = torch.autograd.grad(losses.loss, (h, weight))
    torch.testing.assert_close(ours, torch.autograd.grad(loss, (h, weight)))


def test_teachers_divide_their_logits_before_their_mean() -> None:
    teachers, sample = [build(seed=5), build(seed=6)], make_sample()
    places = sample["target"].ne(PAD).nonzero(as_tuple=True)
    types, found = Teachers(teachers, 23, 0, temperature=2.5).predict(sample, places, 0, torch.zeros(1).double())
    with torch.no_grad():
        mean = sum((each(**sample["net_input"])[0] / 2.5).softmax(-1) for each in teachers)[places] / 2
    torch.testing.assert_close(found.double(), mean.gather(1, types), rtol=1e-3, atol=1e-7)


def taught_by(models: list[Any], k: int = 4, room: int = PLENTY, **more: Any) -> Distillation:
    """The criterion with models that it has not loaded itself."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(distillation, "TranslationTask", Namespace)
        monkeypatch.setattr(distillation, "load_teachers", lambda paths, task: models)
        here = task()
        here.cfg = Namespace(bpe_dropout=0.0)
        result = Distillation(here, DistillationConfig(**{**SMOOTHED, "teacher": "x", "teacher_types": k, **more}))
    if result.teachers is not None:
        result.teachers.room = room
    return result


def expected(model: Any, teachers: list[Any], w: float, k: int, e: float = 0.1, prefix: int = 0) -> Tensor:
    """Equation (42), sentence by sentence, without padding."""
    loss = torch.zeros(()).double()
    for source, target in zip(SOURCES, TARGETS):
        inputs = batch([source], [target])
        scores = model(**inputs)[0][0]
        with torch.no_grad():
            q = torch.stack([teacher(**inputs)[0][0].softmax(-1) for teacher in teachers]).mean(0)
        for place, right in enumerate([*target, 2]):
            if place >= prefix:
                loss = loss + cross_entropies(scores[place], right, e, w, likeliest(q[place], k))
    return loss


@pytest.mark.parametrize(
    ("count", "w", "k", "prefix"), [(1, 0.5, 4, 0), (2, 0.8, 24, 0), (3, 1.0, 100, 0), (2, 0.3, 1, 2), (1, 0.0, 4, 0)]
)
def test_loss_and_gradients_are_the_equation(count: int, w: float, k: int, prefix: int) -> None:
    model, sample = build().train(), make_sample()
    # Teachers may be of other sizes, and drop nothing though they would in training.
    teachers = [build({"dropout": 0.4, "encoder_layers": 1 + seed}, seed=seed + 5).train() for seed in range(count)]
    criterion = taught_by(teachers, k, teacher_weight=w, ignore_prefix_size=prefix, report_accuracy=True)
    loss, size, log = criterion(model, sample)
    wanted = expected(model, teachers, w, k, prefix=prefix)
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=1e-6)
    for ours, other in zip(gradients(loss, model), gradients(wanted, model)):
        torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)
    assert size == log["ntokens"] == 14
    assert log["total"] == 14 - 3 * prefix
    assert float(log["nll_loss"]) == pytest.approx(
        float(expected(model, teachers, 0.0, 1, 0.0, prefix).detach()), rel=1e-6
    )


@pytest.mark.parametrize("more", [{}, {"sentence_avg": True}, {"ignore_prefix_size": 2}, {"report_accuracy": True}])
def test_validation_is_fairseqs_criterion(more: dict[str, Any]) -> None:
    model, sample = build().eval(), make_sample()
    ours, stock = taught_by([build(seed=9)], **more), LabelSmoothedCrossEntropyCriterion(task(), **{**SMOOTHED, **more})
    for reduce in (True, False):
        (loss, size, log), other = ours(model, sample, reduce), stock(model, sample, reduce)
        torch.testing.assert_close(loss, other[0], check_dtype=False)
        assert (size, log.keys()) == (other[1], other[2].keys())
    assert not ours.teachers.kept


class Counting:
    """How often models are called."""

    def __init__(self, *models: Any) -> None:
        self.calls = 0
        for model in models:
            model.register_forward_hook(self.note)

    def note(self, *_: Any) -> None:
        self.calls += 1


@pytest.mark.parametrize(("room", "calls"), [(PLENTY, 2), (0, 6), (14 * 4 * 6, 2), (14 * 4 * 6 - 1, 6)])
def test_predictions_are_kept_while_there_is_room(room: int, calls: int) -> None:
    """14 positions of 4 types, each an int32 and a float16; two teachers and three updates."""
    teachers, model, sample = [build(seed=5), build(seed=6)], build().train(), make_sample()
    counting = Counting(*teachers)
    criterion = taught_by(teachers, 4, room)
    losses = [criterion(model, sample)[0] for _ in range(3)]
    assert counting.calls == calls
    assert losses[0] == losses[1] == losses[2]


def test_batches_are_told_apart_by_their_tokens_and_their_padding() -> None:
    samples = [make_sample(), make_sample(extra_padding=1), make_sample(), make_sample()]
    samples[2]["target"][0, 0] += 1
    samples[3]["net_input"]["src_tokens"][0, 0] += 1
    assert len({digest(each) for each in samples}) == 4
    assert digest(make_sample()) == digest(make_sample())


def test_probabilities_that_were_rounded_up_still_sum_to_one() -> None:
    h, weight = torch.randn(2, C).double().requires_grad_(), torch.randn(V, C).double()
    kinds, known = torch.tensor([[1, 4], [2, 0]]), torch.tensor([[0.75, 0.26], [0.5, 0.5]]).double()
    loss = linear_cross_entropy(h, weight, torch.tensor([1, 3]), 0.1, taught=Taught(kinds, known, 0.5)).loss
    wanted = cross_entropies(weight @ h[0], 1, 0.1, 0.5, {1: 0.75 / 1.01, 4: 0.26 / 1.01})
    wanted = wanted + cross_entropies(weight @ h[1], 3, 0.1, 0.5, {2: 0.5, 0: 0.5})
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(torch.autograd.grad(loss, h), torch.autograd.grad(wanted, h))


def test_no_positions_and_more_types_than_there_are() -> None:
    teachers = Teachers([build(seed=5)], 100, PLENTY)
    sample, like = make_sample(), torch.zeros(1).double()
    places = sample["target"].ne(PAD).nonzero(as_tuple=True)
    assert teachers.predict(sample, places, 0, like)[0].shape == (14, 23)
    teachers.kept.clear()
    nothing = (places[0][:0], places[1][:0])
    assert not len(teachers.predict(sample, nothing, 0, like)[0])


def test_teachers_take_the_models_type() -> None:
    teacher, model = build(seed=5).float(), build().bfloat16().train()
    criterion = taught_by([teacher])
    assert criterion(model, make_sample())[0].isfinite()
    assert {parameter.dtype for parameter in teacher.parameters()} == {torch.bfloat16}
    assert not list(criterion.parameters())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"teacher_weight": 1.1}, "--teacher-weight must be from 0 to 1, but is 1.1"),
        ({"teacher_weight": float("nan")}, "--teacher-weight must be from 0 to 1, but is nan"),
        ({"teacher_types": 0}, "--teacher-types must be at least 1, but is 0"),
        ({"teacher_memory": -1}, "--teacher-memory must be at least 0, but is -1"),
        ({"teacher_temperature": 0.0}, "--teacher-temperature must be a finite number above 0, but is 0.0"),
    ],
)
def test_options_out_of_range(option: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        taught_by([], **option)


def test_without_teachers_it_validates_and_does_not_train() -> None:
    model, sample = build(), make_sample()
    criterion = taught_by([], teacher=None)
    stock = LabelSmoothedCrossEntropyCriterion(task(), **SMOOTHED)
    torch.testing.assert_close(criterion(model.eval(), sample)[0], stock(model, sample)[0], check_dtype=False)
    with pytest.raises(
        UserError, match=r"^--teacher must be given to train with --criterion label_smoothed_.*, but is not$"
    ):
        criterion(model.train(), sample)
    alone = taught_by([], teacher=None, teacher_weight=0.0)
    torch.testing.assert_close(alone(model, sample)[0], stock(model, sample)[0], check_dtype=False)


def test_the_task_must_translate() -> None:
    other = task()
    other.cfg = Namespace(_name="language_modeling")
    message = "^--task must be translation or deep_translation with a teacher, but is language_modeling$"
    with pytest.raises(UserError, match=message):
        Distillation(other, DistillationConfig(**{**SMOOTHED, "teacher": "x"}))


def test_a_model_with_an_obstacle_is_refused() -> None:
    model = build().train()
    model.decoder.output_projection = torch.nn.Linear(16, 24).double()
    with pytest.raises(UserError, match=r"^--teacher cannot be used with this model: the model's output projection"):
        taught_by([build(seed=5)])(model, make_sample())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("corpus"))


def command(data: Path, *more: str) -> list[str]:
    options = ["--task=deep_translation", "--label-smoothing=0.1", "--max-tokens=60", "--max-update=9"]
    options += ["--save-interval-updates=2", "--keep-interval-updates=1", "--disable-validation", "--dropout=0.2"]
    return [str(data), *options, "--no-epoch-checkpoints", *more]


@pytest.fixture(scope="module")
def teacher(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    save = tmp_path_factory.mktemp("teacher")
    with pytest.MonkeyPatch.context() as monkeypatch:
        train_until(monkeypatch, command(data, "--criterion=label_smoothed_cross_entropy_fused"), save)
    return save / "checkpoint_last.pt"


def translating(data: Path, kind: Any = DeepTranslationTask, **more: Any) -> Any:
    options = DeepTranslationConfig if kind is DeepTranslationTask else TranslationConfig
    return kind.setup_task(options(data=str(data), dataset_impl="mmap", required_seq_len_multiple=1, **more))


@pytest.mark.parametrize("kind", [DeepTranslationTask, TranslationTask])
def test_teachers_are_loaded_by_both_tasks(kind: Any, data: Path, teacher: Path) -> None:
    wanted = torch.load(teacher, weights_only=True)["model"]
    models = load_teachers(f"{teacher}:{teacher}", translating(data, kind))
    assert len(models) == 2
    for model in models:
        assert all(torch.equal(values, wanted[name]) for name, values in model.state_dict().items() if name in wanted)


def changed(path: Path, place: Path, **task_options: Any) -> Path:
    state = torch.load(path, weights_only=True)
    for name, value in task_options.items():
        state["cfg"]["task"][name] = value
    torch.save(state, place)
    return place


def test_teachers_that_cannot_be_used(data: Path, teacher: Path, tmp_path: Path) -> None:
    def refused(path: Path, message: str, made: Optional[Any] = None) -> None:
        with pytest.raises(UserError, match=message):
            load_teachers(str(path), made or translating(data))

    refused(tmp_path / "none.pt", r"^--teacher: checkpoint '.*none\.pt' not found$")
    (tmp_path / "text.pt").write_text("no checkpoint", "utf-8")
    refused(tmp_path / "text.pt", r"text\.pt")
    other = changed(teacher, tmp_path / "other.pt", source_lang="b", target_lang="a")
    refused(other, r"^--teacher: .*other\.pt must translate a to b, but translates b to a$")

    turned = changed(teacher, tmp_path / "turned.pt")
    state = torch.load(turned, weights_only=True)
    state["task_state"]["right_to_left"] = True
    torch.save(state, turned)
    refused(turned, r"^--teacher: .*turned\.pt was trained with --right-to-left, which must then be given$")
    backwards = translating(data, right_to_left=True)
    refused(teacher, r"last\.pt: --right-to-left cannot be used with a checkpoint", backwards)
    assert len(load_teachers(str(turned), backwards)) == 1

    larger = translating(data)
    words: Dictionary = dictionary(40)
    larger.src_dict = larger.tgt_dict = words
    refused(teacher, r"^--teacher: .*checkpoint_last\.pt: dictionary must have the 24 types of the checkpoint", larger)


def trained(monkeypatch: pytest.MonkeyPatch, data: Path, save: Path, *more: str, killed_at: int | None = None) -> Any:
    train_until(monkeypatch, command(data), save, *more, killed_at=killed_at)
    return torch.load(save / "checkpoint_last.pt", weights_only=True)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["0", "1"])
def test_a_training_resumes_bit_for_bit(
    memory: str, data: Path, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the second epoch, when all predictions were known, it predicts them anew."""
    options = ["--criterion=label_smoothed_cross_entropy_distillation", f"--teacher={teacher}:{teacher}"]
    options += ["--teacher-types=5", f"--teacher-memory={memory}"]
    whole = trained(monkeypatch, data, tmp_path / "whole", *options)
    trained(monkeypatch, data, tmp_path / "killed", *options, killed_at=7)
    resumed = trained(monkeypatch, data, tmp_path / "killed", *options)
    assert whole["model"].keys() == resumed["model"].keys()
    assert all(torch.equal(values, resumed["model"][name]) for name, values in whole["model"].items())
    assert whole["cfg"]["criterion"]["teacher"] == f"{teacher}:{teacher}"
    # Nothing of the teachers is in the checkpoint.
    plain = torch.load(teacher, weights_only=True)
    assert whole["model"].keys() == plain["model"].keys()
    assert not whole.get("criterion")


def test_nothing_is_kept_with_bpe_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    here = task()
    here.cfg = Namespace(bpe_dropout=0.1)
    monkeypatch.setattr(distillation, "TranslationTask", Namespace)
    monkeypatch.setattr(distillation, "load_teachers", lambda paths, task: [])
    made = Distillation(here, DistillationConfig(**{**SMOOTHED, "teacher": "x"}))
    assert made.teachers.room == 0
