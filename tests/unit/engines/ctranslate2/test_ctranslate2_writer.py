"""Models as CTranslate2 computes them, beside the package's own forward pass in float64."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import EXAMPLE, PLAIN, PRE_NORM, build, build_stock, dictionary, logits, scramble
from support.translation_models import VALID, write_checkpoint, write_data

from deepnmt.engines.ctranslate2 import writer
from deepnmt.engines.ctranslate2.engine import CTranslate2Engine
from deepnmt.engines.ctranslate2.writer import save, specification
from deepnmt.engines.engine import SearchSettings
from deepnmt.errors import UserError
from deepnmt.export.exporter import Export, export
from deepnmt.translator import Translator

EOS = 2
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12]]
TARGETS = [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8]]
POST_NORM = {"encoder_norm": "post", "decoder_norm": "post"}
RELATIVE = {"encoder_max_relative_length": 2, "decoder_max_relative_length": 3, "no_token_positional_embeddings": True}
SKIPPING = {"encoder_skip": 0.3, "decoder_skip": 0.6, "skip_scale": "inference"}
KINDS: dict[str, dict[str, Any]] = {
    "post-norm": POST_NORM,
    "pre-norm": PRE_NORM,
    "pre-norm over post-norm": {"encoder_norm": "pre", "decoder_norm": "post"},
    "post-norm over pre-norm": {"encoder_norm": "post", "decoder_norm": "pre"},
    "no final norm": {**PRE_NORM, "no_decoder_final_norm": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "learned positions of the source": {"encoder_learned_pos": True},
    "no positions": {"no_token_positional_embeddings": True},
    "gelu": {"activation_fn": "gelu"},
    "gelu by tanh": {"activation_fn": "gelu_accurate"},
    "tanh": {"activation_fn": "tanh"},
    "heads": {"encoder_attention_heads": 2, "decoder_attention_heads": 8},
    "widths": {"decoder_embed_dim": 32, "decoder_ffn_embed_dim": 20, "encoder_layers": 2},
    "norm of the embedding": {"layernorm_embedding": True},
    "output tied": {"share_decoder_input_output_embed": True},
    "all embeddings one": {"share_all_embeddings": True},
    "embeddings as they are": {"no_scale_embedding": True},
    "DS-Init": {**POST_NORM, "initializer": "ds-init"},
    "Lipschitz": {**POST_NORM, "initializer": "lipschitz"},
    "Xavier": {**PRE_NORM, "initializer": "xavier"},
    "skipping, scaled in training": {**PRE_NORM, "encoder_skip": 0.3, "decoder_skip": 0.6},
    "skipping, scaled in inference": {**PRE_NORM, **SKIPPING},
    "skipping and Admin": {**POST_NORM, **SKIPPING, "residual_scale": "admin"},
    "DeepNorm": {**POST_NORM, "residual_scale": "deepnorm", "initializer": "deepnorm"},
    "DeepNorm, one table, learned positions": {
        **POST_NORM,
        "residual_scale": "deepnorm",
        "share_all_embeddings": True,
        "encoder_learned_pos": True,
    },
    "Admin": {**POST_NORM, "residual_scale": "admin"},
    "Admin over the norm of the embedding": {**POST_NORM, "residual_scale": "admin", "layernorm_embedding": True},
    "relative positions": RELATIVE,
    "relative keys": {**RELATIVE, "relative_positions": "keys"},
    "relative positions of the source": {"encoder_max_relative_length": 2, "no_token_positional_embeddings": True},
    "relative positions and Admin": {**RELATIVE, "residual_scale": "admin"},
    "layers left out": {"encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": "1,2"},
}


def difference(spec: Any, model: Any, folder: Path, weights: str = "float32") -> float:
    """The largest difference of a log-probability, targets given."""
    save(spec, folder, weights)
    types = dictionary()
    sentences = [[[types[number] for number in sentence] for sentence in side] for side in (SOURCES, TARGETS)]
    scores = CTranslate2Engine(folder, weights, threads=1).score(*sentences)
    expected = torch.log_softmax(logits(model, EXAMPLE), -1)
    found = []
    for row, (sentence, values) in enumerate(zip(TARGETS, scores, strict=True)):
        for place, (number, value) in enumerate(zip([*sentence, EOS], values, strict=True)):
            found.append(abs(value - float(expected[row, place, number])))
    return max(found)


def exported(model: Any) -> Any:
    types = dictionary()
    return specification(model, types, types)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_the_same_and_a_broken_weight_shows(kind: str, tmp_path: Path) -> None:
    model = build({**PLAIN, **KINDS[kind]})
    assert difference(exported(model), model, tmp_path / "model") < 1e-5
    broken = exported(model)
    broken.encoder.layer[-1].self_attention.linear[-1].weight[0, 0] += 0.1
    assert difference(broken, model, tmp_path / "broken") > 1e-4


@pytest.mark.parametrize("options", [{}, PRE_NORM, {"layernorm_embedding": True, "share_all_embeddings": True}])
def test_the_model_may_be_one_of_fairseq(options: dict[str, Any], tmp_path: Path) -> None:
    model = build_stock(options)
    scramble(model)
    assert difference(exported(model), model.double().eval(), tmp_path / "model") < 1e-5


def test_a_forgotten_factor_shows(tmp_path: Path) -> None:
    model = build({**PLAIN, **PRE_NORM, **SKIPPING})
    spec = exported(model)
    for stack in (model.encoder, model.decoder):
        stack.skipping = None
    assert difference(spec, model, tmp_path / "model") > 1e-2


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("scale", ["deepnorm", "admin"])
def test_a_forgotten_residual_shows(stack: str, scale: str, tmp_path: Path) -> None:
    model = build({**PLAIN, **POST_NORM, "residual_scale": scale})
    spec = exported(model)
    residual: Any = getattr(model, stack).layers[1].final_residual
    residual.scale = 1.0
    if residual.weight is not None:
        residual.weight.data.fill_(1.0)
    assert difference(spec, model, tmp_path / "model") > 1e-3


def test_int8_is_smaller_and_near(tmp_path: Path) -> None:
    model = build({**PLAIN, "encoder_embed_dim": 64, "decoder_embed_dim": 64})
    exact, near = (
        difference(exported(model), model, tmp_path / "a"),
        difference(exported(model), model, tmp_path / "b", "int8"),
    )
    assert exact < 1e-5 < near < 0.2
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in "ab"]
    assert sizes[1] < 0.5 * sizes[0]


def test_the_export_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = build({**PLAIN, **POST_NORM, "residual_scale": "admin", "share_all_embeddings": True}).float()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save(exported(model), tmp_path / "model", "int8")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_what_no_table_of_options_knows_is_found_among_the_tensors() -> None:
    model = build(PLAIN)
    model.decoder.layers[0].c_attn = torch.nn.Parameter(torch.ones(4))
    model.decoder.layers[1].c_attn = torch.nn.Parameter(torch.ones(4))
    with pytest.raises(UserError, match=r"^decoder.layers.0.c_attn \(and 1 more\): use --engine torch$"):
        exported(model)


def test_zeros_in_a_residual_are_refused() -> None:
    model = build({**PLAIN, **POST_NORM, "residual_scale": "admin"})
    model.encoder.layers[2].final_residual.weight.data[3] = 0.0
    match = r"^encoder\.layers\.2\.final_residual\.weight: must have no zeros with --engine ctranslate2"
    with pytest.raises(UserError, match=match):
        exported(model)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(
        UserError, match=r"^--encoder-groups 1: use --engine onnx\n--decoder-groups 2: use --engine onnx$"
    ):
        exported(build({"decoder_groups": "2"}))


def test_other_models_are_refused() -> None:
    with pytest.raises(UserError, match=r"^a Namespace: use --engine torch$"):
        exported(Namespace())


def test_an_export_translates_as_its_checkpoint_and_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_data(tmp_path / "data")
    checkpoint = write_checkpoint(tmp_path / "1.pt", data, **PLAIN, **POST_NORM, **SKIPPING, residual_scale="admin")
    task = Export([checkpoint], data, "ctranslate2", search=SearchSettings(beam=3, max_len_b=12))
    result = export(task, tmp_path / "model")
    assert result is not None
    assert (result.pairs, result.differing) == (VALID, 0)
    lines = ["Der Hund schläft.", "", "Die Katze, „Mia“, frißt mehr."]
    expected = Translator.from_checkpoint(checkpoint, data).translate(lines, beam=3, max_len_b=12)
    assert Translator(tmp_path / "model", threads=1).translate(lines) == expected
    assert len(set(expected)) == 3

    def broken(*arguments: Any) -> Any:
        spec = specification(*arguments)
        spec.encoder.layer[0].ffn.linear_1.bias[0] += 0.1
        return spec

    monkeypatch.setattr(writer, "specification", broken)
    with pytest.raises(
        UserError, match=r"^--engine ctranslate2 --weights float32: log-probabilities must agree .* differ by"
    ):
        export(task, tmp_path / "broken")
    assert not (tmp_path / "broken").exists()
