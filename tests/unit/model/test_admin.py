"""Admin's profiling pass against equation (14), the layers written out here, and fairseq's trainer around it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from omegaconf import open_dict
from support.models import PLAIN, SIZE, batch, dictionary
from support.slow import slow_but
from torch import Tensor

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.initializers import batch_initializer
from deepnmt.model.initializers.admin import residuals
from deepnmt.model.initializers.from_batches import initialize_from_batches
from deepnmt.model.transformer import DLCLTransformerModel

# A learning rate of 0 leaves `w` as the pass has set it.
COMMAND = (
    "data --cpu --seed 5 --arch dlcl_transformer --optimizer sgd --lr 0 --criterion label_smoothed_cross_entropy "
    "--label-smoothing 0.1"
)
LOGGER = "deepnmt.model.initializers.from_batches"
ADMIN = {"initializer": "admin", "residual_scale": "admin"}


@functools.cache
def settings(command: str) -> Any:
    """What fairseq makes of a command line, which takes it long."""
    args = options.parse_args_and_arch(options.get_training_parser(), f"{COMMAND} {command}".split())
    return convert_namespace_to_omegaconf(args)


def trainer(command: str = "", double: bool = False, **model_options: Any) -> Trainer:
    """fairseq's trainer of a new model, which in float64 can be profiled but not trained."""
    cfg = copy.deepcopy(settings(command))
    torch.manual_seed(cfg.common.seed)
    task = TranslationTask(cfg.task, dictionary(), dictionary())
    config = DLCLTransformerConfig(**{**SIZE, "decoder_layers": 2, **ADMIN, **model_options})
    with open_dict(cfg):
        cfg.model = {**dataclasses.asdict(config), "_name": "dlcl_transformer"}  # what checkpoints say of the model
    model = DLCLTransformerModel.build_model(config, task)
    result = Trainer(cfg, task, model.double() if double else model, task.build_criterion(cfg.criterion))
    result.lr_step_begin_epoch(1)  # fairseq-train builds the optimizer here too, before there is data.
    return result


def sample(source: list[list[int]], target: list[list[int]]) -> dict[str, Any]:
    """A batch as fairseq's data sets put it together."""
    targets = [torch.tensor([*sentence, 2]) for sentence in target]
    return {
        "id": torch.arange(len(source)),
        "nsentences": len(source),
        "ntokens": sum(map(len, targets)),
        "net_input": batch(source, target),
        "target": collate_tokens(targets, pad_idx=1),
    }


SAMPLES = [
    sample([[5, 6, 7, 8, 9], [10, 11, 12]], [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8]]),
    sample([[20, 21, 7]], [[6, 23]]),
    sample([[9, 9], [12, 13], [14, 15]], [[20, 19, 18, 17, 16, 15], [7], [8]]),
]


class Reference:
    """(14) for one batch in float64: `ratios` of the encoder's sublayers, then of the decoder's."""

    def __init__(self, model: Any, inputs: dict[str, Tensor], seed: int = 5, factor: float = 1.0) -> None:
        self.ratios: list[float] = []
        self.factor = factor
        self.b2t = model.cfg.deep.norm("encoder").name == "b2t"
        torch.manual_seed(seed)
        model.train()
        with torch.no_grad():
            source_padding = inputs["src_tokens"].eq(1)
            source = self.run(model.encoder, inputs["src_tokens"], source_padding, None, None)
            tokens = inputs["prev_output_tokens"]
            self.run(model.decoder, tokens, tokens.eq(1), source, source_padding)

    def run(
        self, stack: Any, tokens: Tensor, padding: Tensor, source: Tensor | None, source_padding: Tensor | None
    ) -> Tensor:
        self.ratio = 1.0
        x = stack.dropout_module(stack.embed_scale * stack.embed_tokens(tokens) + stack.embed_positions(tokens))
        if source is None:
            x = x * (1 - padding.unsqueeze(-1).type_as(x))
        x = x.transpose(0, 1)
        future = torch.full((len(x), len(x)), -math.inf, dtype=x.dtype).triu(1) if source is not None else None
        past = stack.history.start() if stack.history is not None else None
        for index in range(len(stack.layers)):
            layer = stack.layers[index]
            if past is not None:
                x = past.input(index, x)
            layer_input = x
            if layer.self_attn is not None:
                attended = layer.self_attn(x, x, x, key_padding_mask=padding, attn_mask=future, need_weights=False)[0]
                x = self.sublayer(layer, x, attended, layer.self_attn_layer_norm)
            if source is not None and layer.encoder_attn is not None:
                own = {"query_padding_mask": padding} if layer.self_attn is None else {"value": source}
                attended = layer.encoder_attn(x, source, key_padding_mask=source_padding, **own)[0]
                x = self.sublayer(layer, x, attended, layer.encoder_attn_layer_norm)
            hidden = layer.fc2(torch.relu(layer.fc1(x)))
            x = self.sublayer(layer, x, hidden, layer.final_layer_norm, layer_input if self.b2t else 0.0)
        return x if past is None else past.finish(x)

    def sublayer(self, layer: Any, x: Tensor, branch: Tensor, norm: Any, added: Any = 0.0) -> Tensor:
        self.ratios.append(self.ratio)
        x, branch = self.ratio * x, self.factor * layer.dropout_module(branch)
        self.ratio = math.sqrt(np.var(x.double().numpy()) + np.var(branch.double().numpy()))
        result: Tensor = norm(x + branch + added)
        return result


def weights(model: Any) -> list[float]:
    """`w` of all sublayers, encoder first; each is one number repeated."""
    vectors = [v for name, v in model.named_parameters() if name.endswith("_residual.weight")]
    assert all(bool((v == v[0]).all()) for v in vectors)
    return [v.tolist()[0] for v in vectors]


def expected(trainer: Trainer, samples: list[dict[str, Any]], **kwargs: Any) -> Any:
    """`w` to compare with: of each sublayer, the root mean square of r over the batches."""
    model = trainer.get_model()
    ratios = [Reference(model, batch["net_input"], **kwargs).ratios for batch in samples]
    # fairseq's softmax is in float32 even where the model is in float64.
    precision = 1e-7 if model.encoder.embed_tokens.weight.dtype == torch.double else 1e-5
    return pytest.approx(np.sqrt(np.mean(np.square(ratios), axis=0)), rel=precision)


@pytest.mark.parametrize("batches", slow_but([3], [1, 3]))
@pytest.mark.parametrize(
    ("options", "sublayers"),
    [
        (PLAIN, 12),
        ({}, 12),
        ({**PLAIN, "encoder_norm": "b2t", "decoder_norm": "b2t"}, 12),
        ({"merged_attention": True, "encoder_max_relative_length": 2}, 10),
        ({"decoder_self_attention": "average"}, 12),
        ({"decoder_self_attention": "ssru"}, 12),
        ({"no_cross_attention": True}, 10),
        ({"checkpoint_activations": True}, 12),
        ({**PLAIN, "attention_dropout": 0.2, "dropout": 0.3}, 12),
    ],
    ids=["plain", "dlcl", "b2t", "merged", "average", "ssru", "no cross-attention", "checkpointed", "dropout"],
)
def test_w_is_the_formula(options: dict[str, Any], sublayers: int, batches: int) -> None:
    profiled = trainer(double=True, **options)
    samples = SAMPLES[:batches]
    by_formula = expected(profiled, samples)
    profiled.get_model().eval()
    initialize_from_batches(profiled, samples)
    found = weights(profiled.get_model())
    assert len(found) == sublayers
    assert found == by_formula
    assert found[0] == found[6] == 1.0  # The first of the encoder, and of the decoder.
    assert max(found) > 1.3


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({"encoder_layerdrop": 0.9, "decoder_layerdrop": 0.9}, 1.0),
        ({"encoder_skip": 0.9, "decoder_skip": 0.9, "skip_schedule": "constant"}, 1.0),
        ({"encoder_skip": 0.9, "decoder_skip": 0.9, "skip_schedule": "constant", "skip_scale": "inference"}, 1 - 0.9),
    ],
    ids=["layerdrop", "skip", "skip, scaled at inference"],
)
def test_no_sublayer_is_left_out(options: dict[str, Any], factor: float) -> None:
    profiled = trainer(double=True, **PLAIN, dropout=0.0, **options)
    by_formula = expected(profiled, SAMPLES, factor=factor)
    initialize_from_batches(profiled, SAMPLES)
    assert weights(profiled.get_model()) == by_formula
    assert all(module.training for module in profiled.get_model().modules())


def test_training_profiles_once_before_its_first_update(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trained = trainer()
    by_formula = expected(trained, SAMPLES[:2])
    trained.train_step(SAMPLES[:2])
    first = weights(trained.get_model())
    assert first == by_formula
    for again in (1, 0):  # fairseq counts no update where the gradients overflow.
        trained._num_updates = again
        trained.train_step(SAMPLES[2:])
    assert weights(trained.get_model()) == first
    encoder, decoder = first[:6], first[6:]
    messages = [
        record.getMessage() for record in caplog.records if record.name == "deepnmt.model.initializers.from_batches"
    ]
    assert messages == [
        f"admin: profiled 2 batches; w of the encoder from {min(encoder):.3g} to {max(encoder):.3g}, "
        f"of the decoder from {min(decoder):.3g} to {max(decoder):.3g}"
    ]


def test_w_is_trained_from_there() -> None:
    trained = trainer("--lr 0.1")
    by_formula = expected(trained, SAMPLES[:1])
    model = trained.get_model()
    trained.train_step(SAMPLES[:1])
    vectors = [v for name, v in model.named_parameters() if name.endswith("_residual.weight")]
    assert [float(v.detach().mean()) for v in vectors] == pytest.approx(by_formula.expected, abs=0.05)
    assert all(v.detach().std() > 0 for v in vectors)


def test_training_that_has_begun_is_not_profiled() -> None:
    trained = trainer()
    trained.set_num_updates(1)
    trained.train_step(SAMPLES[:1])
    assert set(weights(trained.get_model())) == {1.0}


@pytest.mark.parametrize("reset", [False, True], ids=["restart", "fine-tuning"])
def test_checkpoint_is_not_profiled_again(reset: bool, tmp_path: Path) -> None:
    first = trainer()
    first.train_step(SAMPLES[:1])
    stored = weights(first.get_model())
    path = tmp_path / "checkpoint.pt"
    first.consolidate_optimizer()
    first.save_checkpoint(str(path), {"train_iterator": {"epoch": 1, "iterations_in_epoch": 1}})
    second = trainer()
    second.load_checkpoint(str(path), reset_optimizer=reset)
    assert second.get_num_updates() == (0 if reset else 1)
    second.train_step(SAMPLES[1:])
    assert weights(second.get_model()) == stored


def test_trained_w_is_kept_when_admin_is_chosen_later() -> None:
    before, after = trainer(initializer="default"), trainer()
    with torch.no_grad():
        before.get_model().encoder.layers[1].final_residual.weight[3] = 1.001
    after.get_model().load_state_dict(before.get_model().state_dict())
    after.train_step(SAMPLES[:1])
    for name, values in before.get_model().state_dict().items():
        assert torch.equal(after.get_model().state_dict()[name], values), name


@pytest.mark.parametrize("residual_scale", ["admin", "plain"])
def test_other_initializers_are_not_profiled(residual_scale: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trained = trainer(initializer="default", residual_scale=residual_scale)
    before = {name: values.clone() for name, values in trained.get_model().state_dict().items()}
    optimizer = trained.optimizer
    trained.train_step(SAMPLES)
    assert trained.optimizer is optimizer
    assert trained.get_num_updates() == 1
    for name, values in trained.get_model().state_dict().items():
        assert torch.equal(values, before[name]), name
    assert not [record for record in caplog.records if record.name == LOGGER]


def test_models_of_fairseq_itself_are_trained_as_ever() -> None:
    trained = trainer(initializer="default")
    trained._model.cfg = None
    assert batch_initializer(trained.get_model()) is None
    trained.train_step(SAMPLES[:1])
    assert trained.get_num_updates() == 1


class Workers:
    """Stands for the process group: sums what the workers, run one after the other, put into all_reduce."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, shares: list[list[dict[str, Any]]]) -> None:
        self.trainers = [trainer(double=True, dropout=0.3) for _ in shares]
        for worker in self.trainers:
            assert worker.model is worker.get_model()  # Made before there seem to be more workers.
            assert worker.criterion is worker.get_criterion()
        given: list[Tensor] = []
        monkeypatch.setattr(Trainer, "data_parallel_world_size", len(shares))
        monkeypatch.setattr(Trainer, "data_parallel_process_group", "the group")
        for reply in (False, True):

            def all_reduce(tensor: Tensor, group: Any, reply: bool = reply) -> Tensor:
                assert group == "the group"
                given.append(tensor.clone())
                return sum(given[: len(shares)]) if reply else tensor  # type: ignore[return-value]

            monkeypatch.setattr(distributed_utils, "all_reduce", all_reduce)
            for worker, share in zip(self.trainers, shares):
                with torch.no_grad():
                    for residual in residuals(worker.get_model()):
                        residual.weight.fill_(1.0)
                worker.reset_dummy_batch(SAMPLES[2])
                initialize_from_batches(worker, share)


@pytest.mark.parametrize(
    "shares",
    [[SAMPLES[:1], SAMPLES[1:2]], [SAMPLES[:2], [*SAMPLES[2:], {}]], [SAMPLES, [None]]],  # type: ignore[list-item]
    ids=["one each", "one short", "none"],
)
def test_workers_agree_on_the_mean_over_all_batches(shares: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    alone = trainer(double=True, dropout=0.3)
    batches = [share for worker in shares for share in worker if share]
    by_formula = expected(alone, batches)
    initialize_from_batches(alone, batches)
    workers = Workers(monkeypatch, shares)
    for worker in (alone, *workers.trainers):
        assert weights(worker.get_model()) == by_formula
    assert weights(workers.trainers[0].get_model()) == weights(workers.trainers[1].get_model())


@pytest.mark.parametrize("command", ["--fp16 --fp16-no-flatten-grads", "--memory-efficient-fp16 --optimizer adam"])
def test_half_precision_optimizer_keeps_w(command: str) -> None:
    trained = trainer(f"--lr 1e-6 {command} --fp16-init-scale 1", **PLAIN, dropout=0.0)
    half = trained.get_model()
    assert half.encoder.layers[0].fc1.weight.dtype == torch.half
    exact = trainer(double=True, **PLAIN, dropout=0.0)
    exact.get_model().load_state_dict(half.state_dict())
    by_formula = expected(exact, SAMPLES)
    trained.train_step(SAMPLES)
    assert trained.get_num_updates() == 1
    found = [
        float(v.detach().double().mean()) for name, v in half.named_parameters() if name.endswith("_residual.weight")
    ]
    assert found == pytest.approx(by_formula.expected, rel=3e-3)


def test_variance_of_half_precision_does_not_overflow() -> None:
    profiled = trainer("--memory-efficient-fp16 --optimizer adam", **PLAIN, dropout=0.0)
    with torch.no_grad():
        profiled.get_model().encoder.embed_tokens.weight.mul_(300)
    exact = trainer(double=True, **PLAIN, dropout=0.0)
    exact.get_model().load_state_dict(profiled.get_model().state_dict())
    by_formula = expected(exact, SAMPLES)
    initialize_from_batches(profiled, SAMPLES)
    found = weights(profiled.get_model())
    assert 256 < max(found) < 1000  # The largest number is 65504, and 256 its root.
    assert found == pytest.approx(by_formula.expected, rel=3e-3)


SCHEDULES = [
    "--lr-scheduler inverse_sqrt --lr 0.5 --warmup-updates 10 --warmup-init-lr 0.1",
    "--lr-scheduler fixed --lr 0.5,0.25 --warmup-updates 4",
    "--lr-scheduler cosine --lr 0.5 --warmup-updates 3 --lr-period-updates 9 --warmup-init-lr 0.1",
    "--lr-scheduler polynomial_decay --lr 0.5 --total-num-update 10",
    "--lr-scheduler reduce_lr_on_plateau --lr 0.5 --warmup-updates 3 --warmup-init-lr 0.1",
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_learning_rate_goes_on_as_without_the_pass(schedule: str) -> None:
    profiled, other = trainer(schedule), trainer(schedule, initializer="default")
    profiled.lr_scheduler.best = other.lr_scheduler.best = 7.0
    for each in (profiled, other):
        each.lr_step_begin_epoch(2)
    rate = profiled.get_lr()
    assert rate > 0
    initialize_from_batches(profiled, SAMPLES[:1])
    assert profiled.get_lr() == rate
    rates = []
    for each in (profiled, other):
        rates.append([each.get_lr()])
        for _ in range(3):
            each.train_step(SAMPLES[:1])
            rates[-1].append(each.get_lr())
    assert rates[0] == rates[1]
    assert profiled.lr_scheduler.state_dict() == other.lr_scheduler.state_dict()


def test_dropout_of_the_training_is_as_without_the_pass() -> None:
    profiled = trainer(dropout=0.3)
    one = profiled.train_step(SAMPLES[:2])
    state = torch.get_rng_state()
    given = trainer(initializer="default", dropout=0.3)
    given.get_model().load_state_dict(profiled.get_model().state_dict())
    two = given.train_step(SAMPLES[:2])
    assert one["loss"] == two["loss"]
    assert torch.equal(state, torch.get_rng_state())
