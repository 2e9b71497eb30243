"""Initial weights: law and standard deviation of every parameter against a table of the formulas."""

from __future__ import annotations

import functools
import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from support.models import PLAIN, build_stock, dictionary, task
from support.slow import slow_but
from torch import Tensor

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.initializers import INITIALIZERS, batch_initializer
from deepnmt.model.initializers.from_batches import initialize_from_batches
from deepnmt.model.initializers.initializer import BatchInitializer
from deepnmt.model.transformer import DLCLTransformerModel

SIZE = {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in {"embed_dim": 64, "ffn_embed_dim": 96, "attention_heads": 4}.items()
}


@dataclass
class Place:
    """Of one parameter: its shape, inputs and layer, from 1, and the depths of the encoder (L) and decoder (M)."""

    shape: tuple[int, ...]
    fan_in: int
    layer: int
    L: int
    M: int

    @property
    def xavier(self) -> float:
        """The standard deviation by Xavier with gain 1: sqrt(2 / (fan_in + fan_out))."""
        return math.sqrt(2 / sum(self.shape))


# For each method: pattern of a parameter's name, law, standard deviation. The first that matches holds.
Table = list[tuple[str, str, Callable[[Place], float]]]

SAME: Table = [(".*", "same", lambda p: 0.0)]
NO_BIAS: Table = [(r"\w+\.layers\.\d+\..*(proj|fc.)\.bias", "zero", lambda p: 0.0)]
UNIT: Table = [(r"(.*\.layer_norms\.\d+|.*layer_norm)\.weight", "one", lambda p: 0.0)]
UNIT += [(r"(.*\.layer_norms\.\d+|.*layer_norm)\.bias", "zero", lambda p: 0.0)]
T_FIXUP: Table = [
    (r"encoder\.embed_tokens\.weight", "normal", lambda p: p.shape[1] ** -0.5 * (9 * p.L) ** -0.25),
    (r"decoder\.embed_tokens\.weight", "normal", lambda p: p.shape[1] ** -0.5 * (9 * p.M) ** -0.25),
    (r"encoder\.layers\..*(v_proj|out_proj|fc1|fc2)\.weight", "uniform", lambda p: 0.67 * p.L**-0.25 * p.xavier),
    (r"decoder\.layers\..*(v_proj|out_proj|fc1|fc2)\.weight", "uniform", lambda p: (9 * p.M) ** -0.25 * p.xavier),
    (r"\w+\.(quant_noise|project_out_dim)\.weight", "uniform", lambda p: p.xavier),
]
TABLES: dict[str, Table] = {
    "fairseq-2019": [
        (r"\w+\.layers\.\d+\.\w+\.(q|k|v|forget)_proj\.weight", "uniform", lambda p: p.xavier / math.sqrt(2)),
        (r"\w+\.layers\..*(out_proj|fc1|fc2)\.weight", "uniform", lambda p: p.xavier),
        *NO_BIAS,
        *SAME,
    ],
    "xavier": [
        (r"\w+\.layers\..*(proj|fc1|fc2)\.weight", "uniform", lambda p: p.xavier),
        *NO_BIAS,
        *SAME,
    ],
    "t-fixup": [
        (r"\w+\.layers\.\d+\.\w+\.(q|k|forget)_proj\.weight", "uniform", lambda p: p.xavier),
        *T_FIXUP,
        *NO_BIAS,
        *SAME,
    ],
    "t-fixup-released": [
        (r"\w+\.layers\.\d+\.\w+\.(q|k|forget)_proj\.weight", "uniform", lambda p: p.xavier / math.sqrt(2)),
        (r"\w+\.layers\.\d+\.\w+\.(q|k|v|forget)_proj\.bias", "uniform", lambda p: (3 * p.fan_in) ** -0.5),
        *T_FIXUP,
        *NO_BIAS,
        *SAME,
    ],
    "ds-init": [
        (r"\w+\.layers\..*(proj|fc1|fc2)\.weight", "uniform", lambda p: 0.5 / p.layer**0.5 * p.xavier),
        *NO_BIAS,
        *SAME,
    ],
    "lipschitz": [
        (r"\w+\.embed_(tokens|positions)\.weight", "uniform", lambda p: math.sqrt(2 / sum(p.shape)) / math.sqrt(3)),
        (r"decoder\.output_projection\.weight", "uniform", lambda p: (3 * p.shape[1]) ** -0.5),
        (r"decoder\.adaptive_softmax\..*\.weight", "uniform", lambda p: (3 * p.shape[1]) ** -0.5),
        (r"\w+\.(quant_noise|project_out_dim)\.weight", "uniform", lambda p: (3 * p.shape[1]) ** -0.5),
        (r"\w+\.layers\..*(proj|fc1|fc2)\.weight", "uniform", lambda p: (3 * p.shape[1]) ** -0.5),
        *NO_BIAS,
        *UNIT,
        *SAME,
    ],
    "deepnorm": [
        (r"\w+\.layers\.\d+\.\w+\.(q|k|forget)_proj\.weight", "normal", lambda p: p.xavier),
        (r"encoder\.layers\..*_proj\.weight", "normal", lambda p: 0.87 * (p.L**4 * p.M) ** (-1 / 16) * p.xavier),
        (r"encoder\.layers\..*fc.\.weight", "normal", lambda p: 0.87 * (p.L**4 * p.M) ** (-1 / 16) * p.xavier),
        (r"decoder\.layers\..*(_proj|fc.)\.weight", "normal", lambda p: (12 * p.M) ** -0.25 * p.xavier),
        *NO_BIAS,
        *SAME,
    ],
}
OPTIONS: dict[str, dict[str, Any]] = {"ds-init": {"ds_init_alpha": 0.5}}
KURTOSIS = {"uniform": 1.8, "normal": 3.0}

DEPTHS = {"L": 5, "M": 3}
RELATIVE = {"encoder_max_relative_length": 4}
WIDTHS = {
    f"{stack}_{name}": value
    for stack, width in (("encoder", 24), ("decoder", 16))
    for name, value in {"embed_dim": width, "ffn_embed_dim": 2 * width, "attention_heads": 4}.items()
}
SCENARIOS: dict[str, dict[str, Any]] = {
    "unshared": DEPTHS,
    "decoder shared": {**DEPTHS, "share_decoder_input_output_embed": True},
    "all shared": {**DEPTHS, "share_all_embeddings": True, "joined": True},
    "deep encoder": {"L": 20, "M": 1, "share_all_embeddings": True, "joined": True},
    "deep decoder": {"L": 1, "M": 20},
    "widths": {"L": 7, "M": 9, **WIDTHS},
    "relative": {**DEPTHS, **RELATIVE, "decoder_max_relative_length": 4},
    "merged": {**DEPTHS, **RELATIVE, "merged_attention": True},
    "ssru": {**DEPTHS, "decoder_self_attention": "ssru"},
    "projected": {**DEPTHS, "decoder_output_dim": 48, "quant_noise_pq": 0.1},
    "adaptive": {**DEPTHS, "adaptive_softmax_cutoff": "60,140"},
    "learned": {**DEPTHS, "encoder_learned_pos": True, "decoder_learned_pos": True, "max_source_positions": 70},
    "dropped": {**DEPTHS, "encoder_layerdrop": 0.3, "checkpoint_activations": True},
    "plain": {**DEPTHS, **PLAIN},
    "no norms": {**DEPTHS, "encoder_norm": "none", "decoder_norm": "none"},
}


def build(initializer: str, joined: bool = False, L: int = 5, M: int = 3, **options: Any) -> DLCLTransformerModel:
    """A model as a command would build it: by `build_model`, and nothing afterwards."""
    torch.manual_seed(1)
    config = DLCLTransformerConfig(
        **{**SIZE, **options, "encoder_layers": L, "decoder_layers": M, "initializer": initializer}
    )
    source = dictionary(300)
    model: DLCLTransformerModel = DLCLTransformerModel.build_model(
        config, task(source, source if joined else dictionary(200))
    )
    return model


@functools.cache
def default_parameters(scenario: str) -> dict[str, Tensor]:
    return dict(build("default", **SCENARIOS[scenario]).named_parameters())


def law_of(table: Table, name: str, place: Place) -> tuple[str, float]:
    law, deviation = next((law, std) for pattern, law, std in table if re.fullmatch(pattern, name))
    return law, deviation(place)


def assert_law(law: str, values: Tensor, name: str) -> None:
    """That values, divided by their expected standard deviation, follow a law: to five standard errors."""
    count, kurtosis = values.numel(), KURTOSIS[law]
    values = values.double()
    assert abs(values.mean()) < 5 / math.sqrt(count), name
    assert values.pow(2).mean().sqrt() == pytest.approx(1, abs=5 * math.sqrt((kurtosis - 1) / (4 * count))), name
    assert values.pow(4).mean() / values.pow(2).mean() ** 2 == pytest.approx(kurtosis, abs=5 * math.sqrt(24 / count))
    if law == "uniform":
        bound = math.sqrt(3)
        assert bound * (1 - 20 / count) < values.abs().max() < bound * (1 + 1e-5), name


# Depths and widths, which the laws are functions of, and what else a method has a law for.
DEPTHS_AND_WIDTHS = ("deep encoder", "deep decoder", "widths")
OTHERS = {
    "fairseq-2019": ("unshared", "relative", "ssru", "dropped"),
    "xavier": ("all shared", "learned", "no norms"),
    "t-fixup": ("decoder shared", "ssru", "projected", "plain"),
    "t-fixup-released": ("relative", "ssru", "projected"),
    "ds-init": ("all shared", "merged", "no norms"),
    "lipschitz": ("merged", "projected", "adaptive", "learned"),
    "deepnorm": ("unshared", "ssru", "dropped", "plain"),
}
USUAL = [(method, scenario) for method, others in OTHERS.items() for scenario in (*DEPTHS_AND_WIDTHS, *others)]
PAIRS = [(method, scenario) for method in TABLES for scenario in SCENARIOS]


@pytest.mark.parametrize(("initializer", "scenario"), slow_but(USUAL, PAIRS))
def test_every_parameter_follows_its_law(initializer: str, scenario: str) -> None:
    options = {**SCENARIOS[scenario], **OPTIONS.get(initializer, {})}
    model = build(initializer, **options)
    before = default_parameters(scenario)
    pooled: dict[tuple[str, str], list[Tensor]] = defaultdict(list)
    assert before.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        layer = re.search(r"layers\.(\d+)\.", name)
        fan_in = before.get(re.sub(r"bias$", "weight", name), parameter).size(-1)
        place = Place(tuple(parameter.shape), fan_in, int(layer[1]) + 1 if layer else 0, options["L"], options["M"])
        law, deviation = law_of(TABLES[initializer], name, place)
        values = parameter.detach()
        if law in KURTOSIS:
            if "embed" in name:
                assert not values[1].any(), f"{name}: padding"
                values = torch.cat([values[:1], values[2:]])
            assert_law(law, values / deviation, name)
            assert not torch.equal(parameter, before[name]), name
            pooled[re.sub(r"\d+", "*", name, count=1), law].append(values.flatten() / deviation)
        elif law == "same":
            assert torch.equal(values, before[name]), name
        else:
            assert torch.equal(values, torch.full_like(values, float(law == "one"))), name
    for (name, law), parts in pooled.items():
        assert_law(law, torch.cat(parts), name)


def test_tables_leave_out_what_they_should() -> None:
    """The scenarios have the parameters that the methods leave alone, so that the test above sees them."""
    named = {name for scenario in SCENARIOS.values() for name, _ in build("default", **scenario).named_parameters()}
    for part in (
        "relative_keys",
        "relative_values",
        "history.weight",
        "history.layer_norms.0.bias",
        "output_projection",
    ):
        assert any(part in name for name in named), part
    for table in TABLES.values():
        for pattern, _, _ in table:
            assert any(re.fullmatch(pattern, name) for name in named), pattern


def test_t_fixup_with_dlcl_keeps_the_norms_of_the_history_only() -> None:
    names = dict(build("t-fixup", **SCENARIOS["no norms"]).named_parameters()).keys()
    norms = {f"{stack}.history.layer_norms.{k}" for stack, n in (("encoder", 5), ("decoder", 3)) for k in range(n)}
    assert {name.rpartition(".")[0] for name in names if "norm" in name} == norms


@pytest.mark.parametrize("initializer", ["default", "admin"])
def test_weights_of_fairseq_are_kept(initializer: str) -> None:
    options: dict[str, Any] = {**PLAIN, "residual_scale": "admin"}
    torch.manual_seed(1)
    stock = build_stock({**SIZE, "encoder_layers": 5, "decoder_layers": 3})
    torch.manual_seed(1)
    config = DLCLTransformerConfig(
        **{**SIZE, **options, "encoder_layers": 5, "decoder_layers": 3, "initializer": initializer}
    )
    model = DLCLTransformerModel.build_model(config, task())
    own = model.state_dict()
    for name, values in stock.state_dict().items():
        assert torch.equal(own.pop(name), values), name
    assert len(own) == 5 * 2 + 3 * 3
    for name, values in own.items():
        assert name.endswith("_residual.weight")
        assert torch.equal(values, torch.ones(64)), name


def test_published_admin_starts_from_the_weights_of_2019() -> None:
    released, base = (build(name, residual_scale="admin") for name in ("admin-released", "fairseq-2019"))
    for name, values in base.state_dict().items():
        assert torch.equal(released.state_dict()[name], values), name
    method = batch_initializer(released)
    assert method is not None
    assert method.is_pending(released)


@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_no_initializer_adds_to_a_checkpoint(initializer: str) -> None:
    options = {"residual_scale": "admin"}
    assert build(initializer, **options).state_dict().keys() == build("default", **options).state_dict().keys()


@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_weights_repeat_for_a_seed(initializer: str) -> None:
    options = {"residual_scale": "admin"}
    first, second = (build(initializer, **options).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("initializer", INITIALIZERS)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_loaded_embeddings_are_kept(initializer: str, stack: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    words = {f"w{index}": torch.randn(64) for index in range(200)}
    lines = ["200 64", *(" ".join([word, *map(str, vector.tolist())]) for word, vector in words.items())]
    path.write_text("\n".join(lines) + "\n")
    model = build(initializer, **{f"{stack}_embed_path": str(path), "residual_scale": "admin"})
    for name in ("encoder", "decoder"):
        table = getattr(model, name).embed_tokens.weight
        assert torch.equal(table[4:204], torch.stack(list(words.values()))) == (name == stack)


def test_lipschitz_sets_layer_norms() -> None:
    model = build("default")
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    with torch.no_grad():
        for norm in norms:
            norm.weight.fill_(2.0)
            norm.bias.fill_(3.0)
    INITIALIZERS["lipschitz"](model, model.cfg.deep)
    assert len(norms) > 20
    for norm in norms:
        assert torch.equal(norm.weight, torch.ones(64))
        assert torch.equal(norm.bias, torch.zeros(64))


class FromBatches(BatchInitializer):
    """Sets a bias of the first layer from the number of source tokens of each batch."""

    def is_pending(self, model: Any) -> bool:
        return not model.encoder.layers[0].fc1.bias[0]

    def size(self, model: Any) -> int:
        return 2

    def measure(self, model: Any, net_input: dict[str, Tensor]) -> list[float]:
        return [float(net_input["src_tokens"].numel()), 7.0]

    def set_weights(self, model: Any, means: Sequence[float]) -> str:
        with torch.no_grad():
            model.encoder.layers[0].fc1.bias[: len(means)] = torch.tensor(means)
        return "the bias is set"


def test_initializer_that_needs_batches_is_one_registration(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stand-in for fairseq's trainer: what it calls before the first update is in test_admin.py."""
    caplog.set_level(logging.INFO)
    monkeypatch.setitem(INITIALIZERS, "from-batches", FromBatches(base=INITIALIZERS["xavier"]))
    model = build("from-batches")
    assert not model.encoder.layers[0].fc1.bias.any()
    assert torch.equal(model.encoder.layers[0].fc1.weight, build("xavier").encoder.layers[0].fc1.weight)
    trainer = MagicMock(is_fsdp=False, data_parallel_world_size=1, device=None)
    trainer.get_model.return_value = model
    trainer._prepare_sample.side_effect = lambda sample: (sample, sample is None)
    samples = [{"net_input": {"src_tokens": torch.ones(2, size)}} for size in (3, 6)]
    for _ in range(2):  # The second time there is nothing left to do.
        initialize_from_batches(trainer, [*samples, None])
        assert model.encoder.layers[0].fc1.bias[:3].tolist() == [9.0, 7.0, 0.0]
    assert [record.getMessage() for record in caplog.records] == ["from-batches: profiled 2 batches; the bias is set"]
    trainer._build_optimizer.assert_called_once_with()
