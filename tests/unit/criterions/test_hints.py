"""Hints against equation (51), written out here sentence by sentence in float64, and trainings with them."""

from __future__ import annotations

import copy
import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.consistency_reference import PAD, SMOOTHED, SOURCES, TARGETS, make_sample
from support.models import PLAIN, PRE_NORM, batch, build, build_stock, task
from support.restarts import train_until
from support.slow import slow_but
from support.trainings import binarised_text
from torch import Tensor, nn

from deepnmt.criterions import distillation
from deepnmt.criterions.distillation import Distillation, DistillationConfig
from deepnmt.criterions.hints import Hints, _pairs
from deepnmt.errors import UserError

SMALL = {**PLAIN, "encoder_embed_dim": 8, "decoder_embed_dim": 12, "encoder_layers": 2, "decoder_layers": 4}
TEACHER = {**PLAIN, "encoder_layers": 4, "decoder_layers": 2}
MAP = "encoder=1:2,2:4/decoder=4:1"
PAIRS = {"encoder": [(0, 1), (1, 3)], "decoder": [(3, 0)]}


def taught(model: Any, **more: Any) -> Distillation:
    """The criterion with a teacher that it has not loaded itself."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(distillation, "TranslationTask", Namespace)
        monkeypatch.setattr(distillation, "load_teachers", lambda paths, task: [model])
        here = task()
        here.cfg = Namespace(bpe_dropout=0.0)
        return Distillation(here, DistillationConfig(**{**SMOOTHED, "teacher": "x", "teacher_types": 4, **more}))


def probabilities(attention: Any, queries: Tensor, keys: Tensor, causal: bool) -> Tensor:
    """H x T x S of one sentence, from T x C and S x C."""
    heads = attention.num_heads
    q, k = (
        (each @ linear.weight.t() + linear.bias).view(len(each), heads, -1).transpose(0, 1)
        for each, linear in ((queries, attention.q_proj), (keys, attention.k_proj))
    )
    scores = q @ k.transpose(1, 2) / math.sqrt(q.size(-1))
    if causal:
        scores = scores + torch.full(scores.shape[1:], -math.inf).triu(1)
    return scores.softmax(-1)


def computed(model: Any, source: list[int], target: list[int]) -> dict[str, list[dict[str, Tensor]]]:
    """Outputs and attentions of the layers of a plain post-norm model for one sentence, without hooks."""
    inputs = batch([source], [target])
    out = model.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"], return_all_hiddens=True)
    states = [each[:, 0] for each in out["encoder_states"]]
    found: dict[str, list[dict[str, Tensor]]] = {"encoder": [], "decoder": []}
    for layer, before, after in zip(model.encoder.layers, states[:-1], states[1:], strict=True):
        found["encoder"].append({"state": after, "self_attn": probabilities(layer.self_attn, before, before, False)})
    _, extra = model.decoder(inputs["prev_output_tokens"], encoder_out=out)
    states = [each[:, 0] for each in extra["inner_states"]]
    for layer, before, after in zip(model.decoder.layers, states[:-1], states[1:], strict=True):
        own = probabilities(layer.self_attn, before, before, True)
        value, last = layer.self_attn.v_proj, layer.self_attn.out_proj
        values = (before @ value.weight.t() + value.bias).view(len(before), own.size(0), -1).transpose(0, 1)
        attended = (own @ values).transpose(0, 1).flatten(1) @ last.weight.t() + last.bias
        middle = layer.self_attn_layer_norm(before + attended)
        cross = probabilities(layer.encoder_attn, middle, out["encoder_out"][0][:, 0], False)
        found["decoder"].append({"state": after, "self_attn": own, "encoder_attn": cross})
    return found


def expected(model: Any, teacher: Any, maps: dict[str, Tensor], pairs: Any, h: float, a: float) -> Tensor:
    """Equation (51)."""
    own, other = (
        [computed(each, source, target) for source, target in zip(SOURCES, TARGETS)] for each in (model, teacher)
    )
    total = torch.zeros(()).double()
    for stack, layers in pairs.items():
        for low, high in layers:
            for name in ("state", "self_attn", "encoder_attn"):
                if name not in own[0][stack][low] or (name == "state" and not h):
                    continue
                squares, number = torch.zeros(()).double(), 0
                for one, two in zip(own, other):
                    ours = one[stack][low][name]
                    if name == "state" and stack in maps:
                        ours = ours @ maps[stack].t()
                    squares = squares + (ours - two[stack][high][name].detach()).pow(2).sum()
                    number += ours.numel()
                total = total + (h if name == "state" else a) * squares / number
    return total


@pytest.mark.parametrize(("h", "a"), [(0.7, 0.3), (2.0, 0.0), (0.0, 5.0)])
@pytest.mark.parametrize("padding", [0, 2])
def test_loss_and_gradients_are_the_equation(h: float, a: float, padding: int) -> None:
    model, teacher, sample = build(SMALL).train(), build(TEACHER, seed=7), make_sample(padding)
    torch.manual_seed(11)
    criterion = taught(teacher, hint_weight=h, hint_attention_weight=a, hint_map=MAP)
    criterion.fit_to(model)
    criterion.double()
    assert isinstance(criterion.hints, Hints)
    maps = {stack: each.weight for stack, each in criterion.hints.maps.items()}
    assert {stack: tuple(each.shape) for stack, each in maps.items()} == (
        {"encoder": (16, 8), "decoder": (16, 12)} if h else {}
    )
    loss, size, log = criterion(model, sample)
    plain = taught(teacher)
    wanted = size * expected(model, teacher, maps, PAIRS, h, a)
    assert float(log["hint_loss"]) == pytest.approx(float(wanted.detach()), rel=1e-6)
    total = plain(model, sample)[0] + wanted
    assert float(loss.detach()) == pytest.approx(float(total.detach()), rel=1e-6) == float(log["loss"])
    parameters = [*model.parameters(), *maps.values()]
    ours, others = (torch.autograd.grad(each, parameters, allow_unused=True) for each in (loss, total))
    for one, two in zip(ours, others):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert criterion(model.eval(), sample)[2].keys() == plain(model, sample)[2].keys()


KINDS: dict[str, Any] = {
    "plain": {},
    "pre-norm": {**PRE_NORM, **PLAIN},
    "relative": {"encoder_max_relative_length": 2, "decoder_max_relative_length": 2},
    "merged": {"merged_attention": True},
    "shared": {"decoder_self_attention": "shared", "shared_cross_attention": True},
    "ssru": {"decoder_self_attention": "ssru"},
    "average": {"decoder_self_attention": "average"},
    "shared layers": {"encoder_share_layers": "0,1,0", "decoder_share_layers": "0,0,1"},
    "skipped": {"encoder_skip": 0.9, "decoder_skip": 0.9},
    "stock": None,
}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_models_have_none(kind: str) -> None:
    """Another seed of the same kind has one; a sublayer that an update skips has no attention to compare."""
    options = KINDS[kind]
    model, other = (
        build_stock({}, seed=seed).double() if options is None else build(options, seed=seed) for seed in (3, 4)
    )
    teacher, sample = copy.deepcopy(model), make_sample()
    losses = []
    for each in (model, other):
        criterion = taught(teacher, hint_weight=1.0, hint_attention_weight=1.0)
        criterion.fit_to(each)
        losses.append(float(criterion(each.train(), sample)[2]["hint_loss"]))
    assert losses[1] > 0.01
    assert losses[0] == 0 or kind == "skipped"


@pytest.mark.parametrize(
    ("depth", "teachers", "wanted"),
    [
        (3, 3, [0, 1, 2]),
        (2, 6, [2, 5]),
        (1, 4, [3]),
        (4, 2, [0, 0, 1, 1]),
        (12, 6, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        (2, 3, [1, 2]),
    ],
)
def test_a_uniform_map(depth: int, teachers: int, wanted: list[int]) -> None:
    """Layer l learns from l L / L', rounded up."""
    assert _pairs("uniform", "encoder", depth, teachers) == list(enumerate(wanted))


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ({}, {"hint_map": "encoder=4:1"}, r"--hint-map must be pairs of one of the model's 3 .*, but has 4:1"),
        ({}, {"hint_map": "decoder=1:5"}, r"--hint-map must be pairs .* of the decoder and .* 4, but has 1:5"),
        ({}, {"hint_map": "decoder=0:1"}, r"--hint-map must be pairs .*, but has 0:1"),
        ({}, {"hint_map": "encoder=1"}, r"--hint-map must be uniform, or pairs .*, but is encoder=1"),
        ({}, {"hint_map": "encoder=a:b"}, r"--hint-map must be uniform, or pairs .*, but is encoder=a:b"),
        ({}, {"hint_map": "encoder=1:1/encoder=2:2"}, r"--hint-map must be uniform, or pairs .*"),
        ({}, {"hint_map": "middle=1:1"}, r"--hint-map must be uniform, or pairs .*, but is middle=1:1"),
        (
            {"encoder_attention_heads": 2},
            {},
            r"--hint-attention-weight needs equal numbers of heads, but self_attn of encoder layer 1 has 2, and the "
            r"teacher's layer 2 4",
        ),
        (
            {"decoder_self_attention": "ssru", "no_cross_attention": True},
            {"hint_map": "decoder=1:1"},
            r"--hint-attention-weight needs an attention that model and teacher share in the layers of --hint-map",
        ),
        ({"encoder_layerdrop": 0.1}, {}, r"--hint-weight and .* cannot be combined with --encoder-layerdrop"),
        ({"checkpoint_activations": True}, {}, r"--hint-weight .* cannot be combined with --checkpoint-activations"),
        ({"cross_self_attention": True}, {}, r"--hint-weight .* cannot be combined with --cross-self-attention"),
        ({"adaptive_softmax_cutoff": "8,16"}, {}, r"--teacher cannot be used with this model: .*adaptive softmax"),
    ],
)
def test_models_and_maps_that_do_not_fit(options: dict[str, Any], more: dict[str, Any], message: str) -> None:
    teacher = build({"encoder_layers": 4, "decoder_layers": 4}, seed=5)
    criterion = taught(teacher, **{"hint_weight": 1.0, "hint_attention_weight": 1.0, **more})
    with pytest.raises(UserError, match=f"^{message}$"):
        criterion.fit_to(build(options))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"hint_weight": -1.0}, "--hint-weight must be a finite number of at least 0, but is -1.0"),
        ({"hint_attention_weight": math.inf}, "--hint-attention-weight must be a finite number of .*, but is inf"),
        ({"hint_map": "encoder=1:1"}, "--hint-map needs --hint-weight or --hint-attention-weight, but both are 0"),
        (
            {"hint_weight": 1.0, "teacher": "a:b"},
            "--teacher must be one checkpoint with --hint-weight or --hint-attention-weight, but is a:b",
        ),
    ],
)
def test_options_out_of_range(more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        taught(build(), **more)


def test_pairs_have_no_weights() -> None:
    here = task()
    here.cfg = Namespace(bpe_dropout=0.0, pair_weights="file", set_weights="1,2")
    message = "^--hint-weight and --hint-attention-weight cannot be combined with"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(distillation, "TranslationTask", Namespace)
        with pytest.raises(UserError, match=f"{message} --pair-weights\n--hint-.*with --set-weights$"):
            Distillation(here, DistillationConfig(**{**SMOOTHED, "teacher": "x", "hint_weight": 1.0}))


def test_a_teacher_runs_in_each_update_and_keeps_its_predictions_for_none() -> None:
    criterion = taught(build(seed=5), hint_weight=1.0)
    assert criterion.teachers is not None
    assert criterion.teachers.room == 0
    assert taught(build(seed=5)).teachers.room > 0  # type: ignore[union-attr]


def test_a_checkpoint_without_hints_leaves_the_new_maps() -> None:
    criterion = taught(build(TEACHER, seed=7), hint_weight=1.0)
    criterion.fit_to(build(SMALL))
    before = {name: tensor.clone() for name, tensor in criterion.state_dict().items()}
    criterion.load_state_dict(None, strict=True)
    assert all(torch.equal(tensor, before[name]) for name, tensor in criterion.state_dict().items())
    other = {name: tensor + 1 for name, tensor in before.items()}
    criterion.load_state_dict(other, strict=True)
    assert sorted(other) == ["hints.maps.decoder.weight", "hints.maps.encoder.weight"]
    assert all(torch.equal(tensor, other[name]) for name, tensor in criterion.state_dict().items())


def test_nothing_stays_behind() -> None:
    """The hooks are gone after a batch, also where the batch fails."""
    model, teacher, sample = build().train(), build(seed=5), make_sample()
    criterion = taught(teacher, hint_weight=1.0, hint_attention_weight=1.0)
    criterion.fit_to(model)
    criterion(model, sample)
    sample["target"] = None
    with pytest.raises((AttributeError, TypeError), match="NoneType"):
        criterion(model, sample)
    modules: list[nn.Module] = [*model.modules(), *teacher.modules()]
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in modules)
    assert int(sample["net_input"]["src_tokens"].eq(PAD).sum()) > 0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("corpus"))


def trained(data: Path, save: Path, *more: str, killed_at: int | None = None) -> Any:
    options = ["--task=deep_translation", "--label-smoothing=0.1", "--max-tokens=60", "--max-update=5"]
    options += ["--save-interval-updates=2", "--disable-validation", "--no-epoch-checkpoints"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        train_until(monkeypatch, [str(data), *options], save, *more, killed_at=killed_at)
    return torch.load(save / "checkpoint_last.pt", weights_only=True)


@pytest.mark.parametrize("killed_at", slow_but([0], [0, 3, 2]))
def test_a_training_learns_the_maps_and_resumes_bit_for_bit(killed_at: int, data: Path, tmp_path: Path) -> None:
    """Killed after so many updates; 0: not at all."""
    options = ["--criterion=label_smoothed_cross_entropy_fused", "--encoder-embed-dim=8", "--max-update=1"]
    trained(data, tmp_path / "teacher", *options)
    options = ["--criterion=label_smoothed_cross_entropy_distillation", "--teacher-temperature=2"]
    options += [f"--teacher={tmp_path}/teacher/checkpoint_last.pt", "--hint-weight=0.5", "--hint-attention-weight=2"]
    options += ["--hint-map=encoder=1:1,3:2", *([] if killed_at else ["--max-update=2"])]
    whole = trained(data, tmp_path / "whole", *options)
    assert list(whole["criterion"]) == ["hints.maps.encoder.weight"]
    if not killed_at:
        return
    trained(data, tmp_path / "killed", *options, killed_at=killed_at)
    resumed = trained(data, tmp_path / "killed", *options)
    for part in ("model", "criterion"):
        assert whole[part].keys() == resumed[part].keys()
        assert all(torch.equal(values, resumed[part][name]) for name, values in whole[part].items())
