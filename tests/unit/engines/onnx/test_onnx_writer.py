"""Every kind of model computes in ONNX Runtime what it computes in torch, and what it cannot be is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from support.models import PLAIN, PRE_NORM, batch, build_stock, scramble
from support.onnx_models import engine_of, onnx_engine, options
from support.searched_models import FEW, MODELS, SENTENCES, model, sample
from support.slow import slow_but

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.onnx import writer
from deepnmt.engines.onnx.engine import ENCODER, STEP, OnnxEngine
from deepnmt.engines.onnx.options import SUPPORT
from deepnmt.errors import UserError
from deepnmt.export.parity import LARGEST_DIFFERENCE
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.options.option_table import OPTIONS
from deepnmt.search.generator import BeamGenerator

RELATIVE = {"encoder_max_relative_length": 2, "decoder_max_relative_length": 2}
KINDS: dict[str, dict[str, Any]] = {
    **{name: given for name, given in MODELS.items() if not {"adaptive_softmax_cutoff", "two_sided"} & given.keys()},
    "relative keys in both": {**RELATIVE, "relative_positions": "keys", "no_token_positional_embeddings": True},
    "windows, slices, b2t": {**RELATIVE, "dlcl_window": 2, "dlcl_granularity": "2", "encoder_norm": "b2t"},
    "merged, groups, admin": {"merged_attention": True, "encoder_groups": "0,2,3", "residual_scale": "admin"},
    "skipping in both": {"encoder_skip": 0.4, "skip_scale": "inference", "skip_schedule": "constant"},
    "sizes": {
        **{"encoder_embed_dim": 12, "encoder_ffn_embed_dim": 20, "encoder_layers": 2, "encoder_attention_heads": 3},
        **{"decoder_embed_dim": 20, "decoder_ffn_embed_dim": 12, "decoder_layers": 4, "decoder_attention_heads": 2},
        **{"encoder_learned_pos": True, "max_source_positions": 9, "max_target_positions": 40},
    },
    "embeddings": {
        **{"share_decoder_input_output_embed": True, "merge_src_tgt_embed": True, "no_scale_embedding": True},
        **{"encoder_normalize_before": True, "decoder_normalize_before": True, "no_decoder_final_norm": True},
        "quant_noise_pq": 0.1,
    },
    "fewer layers": {**PLAIN, "encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": "1"},
    "GELU by tanh": {"activation_fn": "gelu_accurate"},
    "tanh": {"activation_fn": "tanh"},
    "no activation": {"activation_fn": "linear"},
}
# What the export's check allows is 1e-4; what is left here is rounding alone.
TOLERANCE = 1e-5


def words_of(sentences: list[list[int]]) -> list[list[str]]:
    return [[FEW[number] for number in sentence] for sentence in sentences]


def log_probs(net: Any, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
    """Of each type of the targets and of the end symbols, by the model's own forward pass, a sentence at a time."""
    found = []
    for source, target in zip(sources, targets):
        with torch.no_grad():
            each = net(**batch([source], [target]))[0].log_softmax(-1)[0]
        found.append(each[range(len(target) + 1), [*target, FEW.eos()]].tolist())
    return found


def matrices(graph: onnx.ModelProto) -> list[onnx.TensorProto]:
    """The weights of a graph that are matrices. A single number before a norm would change nothing."""
    return [
        each
        for each in graph.graph.initializer
        if len(each.dims) == 2 and max(each.dims) > 1 and each.data_type == onnx.TensorProto.FLOAT
    ]


@contextmanager
def broken(graph: onnx.ModelProto, path: Path, name: str, seed: int) -> Iterator[None]:
    """The graph of a file, with one weight changed."""
    weight = next(each for each in matrices(graph) if each.name == name)
    whole = path.read_bytes()
    values = numpy_helper.to_array(weight)
    noise = np.random.default_rng(seed).standard_normal(values.shape).astype(np.float32)
    kept = onnx.TensorProto()
    kept.CopyFrom(weight)
    weight.CopyFrom(numpy_helper.from_array(values + np.float32(0.1) * noise, name))
    path.write_bytes(graph.SerializeToString())
    yield
    weight.CopyFrom(kept)
    path.write_bytes(whole)


def difference(found: list[list[float]], expected: list[list[float]]) -> float:
    """The largest of a log-probability."""
    return max(abs(a - b) for one, other in zip(found, expected, strict=True) for a, b in zip(one, other, strict=True))


def assert_same_as_torch(net: Any, engine: OnnxEngine) -> None:
    """The same n-best lists as the package's search, and the log-probabilities of the model's forward pass."""
    with torch.no_grad():
        own = BeamGenerator([net], FEW, beam_size=5, max_len_b=30).generate([net], sample())
    found = engine.search(words_of(SENTENCES), SearchSettings(nbest=5, max_len_b=30))
    for expected, hypotheses in zip(own, found, strict=True):
        numbers = [[number for number in entry["tokens"].tolist() if number not in (0, 2)] for entry in expected]
        assert [hypothesis.tokens for hypothesis in hypotheses] == words_of(numbers)
        scores = [float(entry["score"]) for entry in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(scores, abs=TOLERANCE)
    targets = [list(reversed(sentence)) for sentence in SENTENCES]
    scored = engine.score(words_of(SENTENCES), words_of(targets))
    for one, other in zip(scored, log_probs(net, SENTENCES, targets), strict=True):
        assert one == pytest.approx(other, abs=TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind: str, tmp_path: Path) -> None:
    net = model(KINDS[kind])
    writer.write_model(net, options(KINDS[kind]), tmp_path, "float32")
    assert_same_as_torch(net, engine_of(tmp_path))


@pytest.mark.parametrize("kind", slow_but([*KINDS][::5], KINDS))
def test_a_broken_weight_shows(kind: str, tmp_path: Path) -> None:
    writer.write_model(model(KINDS[kind]), options(KINDS[kind]), tmp_path, "float32")
    engine = engine_of(tmp_path)
    # Another weight of the other graph for each kind.
    number = list(KINDS).index(kind)
    path = tmp_path / (STEP if number % 2 or "no_cross_attention" in KINDS[kind] else ENCODER)
    graph = onnx.load(path)
    names = [weight.name for weight in matrices(graph)]
    name = names[7 * number % len(names)]
    sides = [words_of(side) for side in (SENTENCES[:2], SENTENCES[1::-1])]
    expected = engine.score(*sides)
    with broken(graph, path, name, seed=number):
        assert difference(engine_of(tmp_path).score(*sides), expected) > LARGEST_DIFFERENCE, f"{path.name}: {name}"


@pytest.mark.parametrize("given", [{}, PRE_NORM])
def test_models_of_fairseq(given: dict[str, Any]) -> None:
    net = build_stock(given).eval()
    scramble(net)
    assert_same_as_torch(net, onnx_engine(net, given))


REFUSED: dict[str, Any] = {
    "adaptive_softmax_cutoff": "8,16",
    "cross_self_attention": True,
    "quant_noise_scalar": 0.5,
    "encoder_xformers_att_config": "{}",
    "decoder_xformers_att_config": "{}",
    "base_layers": 1,
    "two_sided": True,
    "decoder_lm_layers": 1,
    "encoder_embedding_cutoffs": "8,16",
    "fused_encoder": "masked.pt",
}


def test_every_option_of_a_model_is_computed_or_trains_or_is_refused() -> None:
    """A new option must be put in one of the lists: until it is computed here, the export refuses it."""
    silent = {name for name, row in OPTIONS.items() if not row.inference or row.part_of} | {"_name"}
    assert {option.name for option in fields(DLCLTransformerConfig)} <= {*SUPPORT.takes, *silent, *REFUSED}
    assert not SUPPORT.takes & {*REFUSED}
    assert not SUPPORT.takes - {name for given in KINDS.values() for name in given}, "a model above has it"


@pytest.mark.parametrize(("name", "value"), [*REFUSED.items(), ("activation_fn", "swish")])
def test_refused_options(name: str, value: Any, tmp_path: Path) -> None:
    shown = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
    message = re.escape(f"{shown}: use --engine torch")
    with pytest.raises(UserError, match=f"^{message}$"):
        writer.write_model(model({}), options({name: value}), tmp_path, "float32")
    assert not list(tmp_path.iterdir())


def test_refused_models(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^the model is not a Transformer of fairseq or of this package: use --engine "
    ):
        writer.write_model(torch.nn.Linear(2, 2), options({}), tmp_path, "float32")
    net = model({})
    net.encoder.layers[1].fc1 = torch.nn.Sequential(net.encoder.layers[1].fc1)
    with pytest.raises(UserError, match=r"^an encoder layer has other maps than linear ones: use --engine torch$"):
        writer.write_model(net, options({}), tmp_path, "float32")


def test_a_graph_that_is_too_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("deepnmt.engines.onnx.graph.LARGEST", 1000)
    with pytest.raises(UserError, match=r"must be smaller than 2 GB, but has 0\.0 GB; use --engine torch"):
        writer.write_model(model({}), options({}), tmp_path, "float32")


TWO_LAYERS = {"encoder_layers": 2, "decoder_layers": 2}
# One kind of everything that has a matrix or a vector of its own.
BREAKABLE = {
    "relative, DLCL": {**RELATIVE, **TWO_LAYERS, "encoder_layers": 1},
    "merged, sizes": {**TWO_LAYERS, "merged_attention": True, "decoder_input_dim": 12, "decoder_output_dim": 20},
}


@pytest.mark.parametrize("given", BREAKABLE.values(), ids=BREAKABLE)
def test_no_weight_can_be_wrong_without_being_seen(given: dict[str, Any], tmp_path: Path) -> None:
    net = model(given)
    writer.write_model(net, options(given), tmp_path, "float32")
    sources, targets = words_of(SENTENCES), words_of([list(reversed(sentence)) for sentence in SENTENCES])
    expected = engine_of(tmp_path).score(sources, targets)
    seen = 0
    for path in sorted(tmp_path.iterdir()):
        graph = onnx.load(path)
        for name in [weight.name for weight in matrices(graph)]:
            with broken(graph, path, name, seed=seen):
                found = engine_of(tmp_path).score(sources, targets)
            assert difference(found, expected) > LARGEST_DIFFERENCE, f"{path.name}: {name}"
            seen += 1
    assert seen > 20
