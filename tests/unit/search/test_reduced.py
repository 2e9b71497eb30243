"""Every kind of model with every kind of product; weights that are kept between batches are those of the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from support.models import PLAIN, PRE_NORM, SIZE, batch, build_stock, dictionary, scramble, task
from support.slow import slow_but
from torch import nn

from deepnmt.errors import UserError
from deepnmt.kernels import products
from deepnmt.kernels.products import KINDS, Int8Product, obstacle
from deepnmt.kernels.short_attention import SHORT
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.search import reduced
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.incremental import maps
from deepnmt.search.reduced import kind_of, reduce_products

WORDS = dictionary(100)
COMPUTED = [kind for kind in KINDS if kind != "float16"]
SENTENCES = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 5], [6], [21, 22, 5, 5, 6]]
MODELS: dict[str, dict[str, Any]] = {
    "dlcl": PRE_NORM,
    "plain": PLAIN,
    "groups": {**PRE_NORM, "decoder_groups": "2"},
    "no norm": {"encoder_norm": "none", "decoder_norm": "none"},
    "b2t": {"encoder_norm": "b2t", "decoder_norm": "b2t", **PLAIN},
    "relative positions": {**PRE_NORM, "encoder_max_relative_length": 2, "decoder_max_relative_length": 3},
    "merged attention": {**PRE_NORM, "merged_attention": True},
    "admin": {**PLAIN, "residual_scale": "admin"},
    "adaptive softmax": {"adaptive_softmax_cutoff": "8,16"},
    "other widths": {"decoder_input_dim": 12, "decoder_output_dim": 20},
    "fairseq's": {},
}
WIDE = {key: 64 if key.endswith("embed_dim") else value for key, value in SIZE.items()}


# Products of float32 are the same whatever the model is.
USUAL = [(name, kind) for name in MODELS for kind in COMPUTED if kind != "float32" or name in ("dlcl", "fairseq's")]


@pytest.fixture(autouse=True)
def all_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduced, "FEW_WEIGHTS", 0)


def model(name: str = "dlcl", **more: Any) -> Any:
    torch.manual_seed(1)
    if name == "fairseq's":
        built: Any = build_stock({})
    else:
        options = {**WIDE, "dropout": 0.0, **MODELS[name], **more}
        built = DLCLTransformerModel.build_model(DLCLTransformerConfig(**options), task(WORDS))
    scramble(built)
    built.make_generation_fast_(need_attn=False)
    return built


def search(built: Any, sentences: list[list[int]] = SENTENCES) -> list[list[tuple[list[int], float]]]:
    words = WORDS if len(built.decoder.dictionary) == len(WORDS) else dictionary()
    generator = BeamGenerator([built], words, beam_size=3, max_len_b=8)
    found = generator.generate([built], {"net_input": batch(sentences, sentences)})
    return [[(each["tokens"].tolist(), float(each["score"])) for each in hypotheses] for hypotheses in found]


@pytest.fixture
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **more: Any) -> Any:
        raise AssertionError("the search was left to fairseq")

    monkeypatch.setattr(SequenceGenerator, "_generate", fail)


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize(("name", "kind"), slow_but(USUAL, ((name, kind) for name in MODELS for kind in COMPUTED)))
def test_scores_are_nearly_those_of_float32(name: str, kind: str) -> None:
    if obstacle(kind, torch.device("cpu")) is not None:
        pytest.skip(f"this processor has no products of {kind}")
    built = model(name)
    source = batch(SENTENCES, SENTENCES)
    before, expected = built(**source)[0].detach(), search(built)
    reduce_products(built, kind)
    found = search(built)
    error = float((built(**source)[0] - before).norm() / before.norm())
    if kind == "float32":
        assert found == expected
        assert error == 0
        return
    # Something has changed, in the encoder too, and not much.
    encoded = built.encoder(source["src_tokens"], src_lengths=source["src_lengths"])["encoder_out"][0]
    assert all(kind_of(linear) == kind for linear in built.modules() if type(linear) is nn.Linear)
    assert 1e-5 < error < 0.1, (error, encoded.shape)
    for one, other in zip(found, expected):
        assert abs(one[0][1] - other[0][1]) < 0.3


@pytest.mark.parametrize("name", ["dlcl", "relative positions", "fairseq's"])
def test_all_maps_are_computed_in_int8(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if obstacle("int8", torch.device("cpu")) is not None:
        pytest.skip("this processor has no products of int8")
    built = model(name)
    reduce_products(built, "int8")
    made: list[tuple[int, ...]] = []
    create = Int8Product.__init__
    monkeypatch.setattr(
        Int8Product,
        "__init__",
        lambda self, weight, bias: made.append(tuple(weight.shape)) or create(self, weight, bias),
    )
    search(built)
    in_encoder = 6 * len(built.encoder.layers)
    # Queries, keys and values of the target are one map, keys and values of the source another.
    in_decoder = 7 * len(built.decoder.layers) + 1
    assert len(made) == in_encoder + in_decoder
    search(built)
    assert len(made) == in_encoder + in_decoder, "kept between batches"


def test_a_translation_does_not_depend_on_its_neighbours() -> None:
    if obstacle("int8", torch.device("cpu")) is not None:
        pytest.skip("this processor has no products of int8")
    built = model()
    reduce_products(built, "int8")
    together = search(built)
    for sentence, found in zip(SENTENCES, together):
        alone = search(built, [sentence])[0]
        assert [tokens for tokens, _ in alone] == [tokens for tokens, _ in found]
        assert [score for _, score in alone] == pytest.approx([score for _, score in found], abs=1e-3)


@pytest.mark.parametrize("kind", COMPUTED)
def test_a_long_sentence_in_the_batch_changes_no_other(kind: str) -> None:
    if obstacle(kind, torch.device("cpu")) is not None:
        pytest.skip(f"this processor has no products of {kind}")
    # Attention over so many positions takes another path.
    short, long = [5 + number % 90 for number in range(20)], [5 + number % 90 for number in range(SHORT + 1)]
    built = model(max_source_positions=2 * SHORT)
    reduce_products(built, kind)
    with torch.no_grad():
        alone, together = (
            built.encoder(**{name: batch(lines, lines)[name] for name in ("src_tokens", "src_lengths")})
            for lines in ([short], [short, long])
        )
    own = alone["encoder_out"][0][:, 0]
    assert (together["encoder_padding_mask"][0].sum(1) == 0).any()
    padded = together["encoder_padding_mask"][0][0]
    found = together["encoder_out"][0][~padded, 0]
    torch.testing.assert_close(found, own, rtol=1e-4, atol=1e-4)


def test_small_maps_stay_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_capabilities", lambda: {"avx512_vnni": True})
    monkeypatch.setattr(reduced, "FEW_WEIGHTS", 64 * 64 + 1)
    built = model()
    reduce_products(built, "int8")
    layer = built.decoder.layers[0]
    kinds = [kind_of(linear) for linear in (layer.self_attn.q_proj, layer.fc1, built.decoder.output_projection)]
    assert kinds == ["float32", "float32", "int8"]


def test_a_processor_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_capabilities", dict)
    with pytest.raises(UserError, match=r"^--weights bfloat16: needs a processor with avx512_bf16 or amx_bf16"):
        reduce_products(model(), "bfloat16")
    reduce_products(model(), "int8")


@pytest.mark.parametrize("onednn", [False, True])
def test_changed_parameters_are_seen(onednn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_is_faster", lambda: onednn)
    built = model()
    before = search(built)
    assert search(built) == before
    other = model()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.3)
    built.load_state_dict(other.state_dict())
    assert search(built) == search(other)
    assert search(built) != before


def test_nothing_is_kept_of_a_model_that_is_trained() -> None:
    built = model()
    built._is_generation_fast = False
    before = search(built)
    for parameter in built.decoder.parameters():
        # As fairseq's optimizers do, which no version counter notices.
        parameter.data.mul_(1.3)
    after = search(built)
    assert after != before
    assert maps.maps_of(built) is not maps.maps_of(built)
    built._is_generation_fast = True
    assert maps.maps_of(built) is maps.maps_of(built)
    assert search(built) == after
