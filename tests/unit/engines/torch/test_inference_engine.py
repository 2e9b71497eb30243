"""The torch engine without fairseq: translations and scores as with fairseq, for every option that it takes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import load as load_file
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.torch import engine as engine_module
from deepnmt.engines.torch.engine import InferenceEngine, load
from deepnmt.engines.torch.fairseq_engine import TorchEngine, load_checkpoints
from deepnmt.engines.torch.options import SUPPORT, describe
from deepnmt.errors import UserError
from deepnmt.export.exporter import Export, export
from deepnmt.kernels import products, threads
from deepnmt.reference import REFERENCE
from deepnmt.translator import Translator

SETTINGS = SearchSettings(beam=3, nbest=3, lenpen=0.7, max_len_a=0.5, max_len_b=9)
SOURCES = [["D@@", "er", "nie", "da"], ["M"], ["Hund", "und", "D@@", "ie", "Katze", "und", "mehr", "n", "e", "r"]]
PRE: dict[str, Any] = {"encoder_norm": "pre", "decoder_norm": "pre"}
PLAIN: dict[str, Any] = {"encoder_groups": "none", "decoder_groups": "none"}
# Each option of `SUPPORT` that changes what a model computes, at another value than its default.
KINDS: dict[str, dict[str, Any]] = {
    "dlcl": PRE,
    "plain": {**PLAIN, "encoder_normalize_before": True, "activation_fn": "gelu"},
    "post": {**PLAIN, "decoder_attention_heads": 1, "decoder_ffn_embed_dim": 24, "layernorm_embedding": True},
    "groups": {**PRE, "encoder_groups": "0,1,3", "dlcl_granularity": "2", "dlcl_embedding_norm": True},
    "transparent": {**PRE, "encoder_groups": "transparent", "merged_attention": True},
    "top": {"encoder_groups": "top"},
    "window": {"dlcl_window": 1, "dlcl_softmax": True, "dlcl_granularity": "vector", "no_scale_embedding": True},
    "no norm": {"encoder_norm": "none", "decoder_norm": "none", "activation_fn": "tanh"},
    "b2t": {**PLAIN, "encoder_norm": "b2t", "decoder_norm": "b2t", "residual_scale": "deepnorm"},
    "relative": {
        **PRE, "encoder_max_relative_length": 2, "decoder_max_relative_length": 3, "relative_positions": "keys",
        "no_token_positional_embeddings": True,
    },
    "relative values": {**PRE, "encoder_max_relative_length": 4, "decoder_max_relative_length": 1},
    "merged": {**PRE, "merged_attention": True, "no_decoder_final_norm": True},
    "shared layers": {**PRE, "decoder_share_layers": "0,0,0", "encoder_share_layers": "0,1,1"},
    "shared attention": {
        **PRE, "decoder_self_attention": "shared", "shared_attention_blocks": "3", "shared_cross_attention": True,
    },
    "average": {**PRE, "decoder_self_attention": "average"},
    "average, FFN": {"decoder_self_attention": "average", "average_attention_ffn": True},
    "ssru": {**PRE, "decoder_self_attention": "ssru"},
    "skipping": {"encoder_skip": 0.4, "decoder_skip": 0.3, "skip_scale": "inference", "skip_schedule": "constant"},
    "admin": {**PLAIN, "residual_scale": "admin", "encoder_learned_pos": True, "decoder_learned_pos": True},
    "no source": {**PRE, "no_cross_attention": True, "activation_fn": "linear"},
    "output": {**PRE, "decoder_output_dim": 16, "share_decoder_input_output_embed": False},
    "shared": {"share_all_embeddings": True, "encoder_layers": 1, "decoder_layers": 3},
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("inference") / "data")


def exported(checkpoints: list[Path], data: Path, folder: Path, weights: str = "float32") -> InferenceEngine:
    export(Export(checkpoints, data, "torch", weights, check=0), folder)
    engine = load(ModelFolder.open(folder), threads=1)
    assert isinstance(engine, InferenceEngine)
    return engine


def whole(paths: list[Path], data: Path, weights: str = "float32") -> TorchEngine:
    return load_checkpoints(paths, data, ("de", "en"), threads=1, device="cpu", weights=weights)


def assert_same(engine: InferenceEngine, expected: TorchEngine) -> None:
    assert (engine.longest, engine.longest_target) == (expected.longest, expected.longest_target)
    found, wanted = engine.search(SOURCES, SETTINGS), expected.search(SOURCES, SETTINGS)
    targets = [hypotheses[0].tokens for hypotheses in wanted]
    assert any(targets)
    for one, other in zip(found, wanted, strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        for name in ("score", "log_prob"):
            assert [getattr(each, name) for each in one] == pytest.approx([getattr(each, name) for each in other], 1e-5)
    for row, right in zip(engine.score(SOURCES, targets), expected.score(SOURCES, targets), strict=True):
        assert row == pytest.approx(right, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_same_translations_and_scores(kind: str, data: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "model.pt", data, **KINDS[kind])
    assert_same(exported([checkpoint], data, tmp_path / "model"), whole([checkpoint], data))


def test_each_option_has_a_kind() -> None:
    """Apart from sizes, of which `SIZE` and the kinds have several, and options that name tensors only."""
    named = {name for kind in KINDS.values() for name in kind}
    sizes = {f"{stack}_{name}" for stack in ("encoder", "decoder") for name in ("embed_dim", "groups", "layers")}
    sizes |= {"encoder_attention_heads", "encoder_ffn_embed_dim", "max_source_positions", "max_target_positions"}
    tables = {"merge_src_tgt_embed", "decoder_input_dim"}
    assert SUPPORT.takes - named - sizes - tables == {"decoder_normalize_before"}


def test_ensembles_and_padding_on_the_right(data: Path, tmp_path: Path) -> None:
    paths = [write_checkpoint(tmp_path / f"{seed}.pt", data, seed, **KINDS["dlcl"]) for seed in (1, 2)]
    for path in paths:
        state = load_file(path)
        state["cfg"]["task"]["left_pad_source"] = False
        torch.save(state, path)
    engine = exported(paths, data, tmp_path / "model")
    assert not engine.left_pad
    assert_same(engine, whole(paths, data))


@pytest.mark.parametrize("weights", ["float16", "bfloat16", "int8"])
def test_fewer_bits(weights: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if products.obstacle(weights, torch.device("cpu")):
        pytest.skip("the processor has no such products")
    for module in ("reduced", "packed"):
        path = {"reduced": "deepnmt.search.reduced", "packed": "deepnmt.checkpoints.packed"}[module]
        monkeypatch.setattr(f"{path}.FEW_WEIGHTS", 1)
    checkpoint = write_checkpoint(tmp_path / "model.pt", data, **KINDS["plain"])
    engine = exported([checkpoint], data, tmp_path / "model", weights)
    assert_same(engine, whole([tmp_path / "model" / "model.safetensors"], data, weights))


@pytest.mark.parametrize("reference", [False, True])
def test_long_sentences_and_plain_kernels(
    reference: bool, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REFERENCE, str(int(reference)))
    checkpoint = write_checkpoint(tmp_path / "model.pt", data, **KINDS["plain"])
    engine, expected = exported([checkpoint], data, tmp_path / "model"), whole([checkpoint], data)
    long = [["und", "M"] * (10 if reference else 80), ["D@@"]]
    for one, other in zip(engine.search(long, SETTINGS), expected.search(long, SETTINGS), strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], 1e-5)


@pytest.mark.parametrize("fairseq", [False, True])
def test_few_hypotheses_of_a_narrow_model_have_one_thread(
    fairseq: bool, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = write_checkpoint(tmp_path / "model.pt", data, **PRE)
    engine = whole([checkpoint], data) if fairseq else exported([checkpoint], data, tmp_path / "model")
    seen: list[int] = []
    sources = engine._sources
    monkeypatch.setattr(engine, "_sources", lambda given: seen.append(torch.get_num_threads()) or sources(given))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for narrow in (16, 15):  # the model has 16 channels
            monkeypatch.setattr(threads, "NARROW", narrow)
            for sentences in (85, 86):
                engine.search([["M"]] * sentences, SETTINGS)
        monkeypatch.setattr(threads, "NARROW", 16)
        for pairs in () if fairseq else (255, 256):
            engine.score([["M"]] * pairs, [["M"]] * pairs)
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 2, 2, 2, *([] if fairseq else [1, 2])]


def test_other_models_and_options_need_fairseq(data: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "model.pt", data, activation_fn="gelu_accurate")
    assert describe(whole([checkpoint], data)) == {}
    export(Export([checkpoint], data, "torch", check=0), tmp_path / "model")
    engine = load(ModelFolder.open(tmp_path / "model"), threads=1)
    assert isinstance(engine, TorchEngine)
    plain = write_checkpoint(tmp_path / "plain.pt", data)
    own, expected = exported([plain], data, tmp_path / "plain"), whole([plain], data)
    settings = dataclasses.replace(SETTINGS, more={"length_penalty": "gnmt"})
    own.check(settings)
    assert own.search(SOURCES, settings) == expected.search(SOURCES, settings) != own.search(SOURCES, SETTINGS)
    with pytest.raises(UserError, match=r"^--coverage needs --coverage-weight$"):
        own.check(dataclasses.replace(SETTINGS, more={"coverage": "gnmt"}))


def test_numbers_that_are_none_are_left_to_fairseq(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = write_checkpoint(tmp_path / "model.pt", data, **KINDS["plain"])
    engine, expected = exported([checkpoint], data, tmp_path / "model"), whole([checkpoint], data)
    engine._make_whole = lambda: expected
    monkeypatch.setattr(engine_module, "beam_search", lambda *_: False)
    assert engine.search(SOURCES, SETTINGS) == expected.search(SOURCES, SETTINGS)


def test_a_record_of_another_model_is_refused(data: Path, tmp_path: Path) -> None:
    export(Export([write_checkpoint(tmp_path / "model.pt", data)], data, "torch", check=0), tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    record = json.loads(path.read_text())
    for change, message in (
        ({"encoder_layers": 5}, r"encoder\.layers\.3"),
        ({"encoder_norm": "sideways"}, "sideways"),
        ({"encoder_embed_dim": "wide"}, "wide"),
        ({"encoder_attention_heads": 0}, "encoder-attention-heads must be at least 1"),
        ({"encoder_attention_heads": 3}, "16 channels cannot be divided among 3 heads"),
        ({"decoder_attention_heads": -2}, "decoder-attention-heads must be at least 1"),
        ({"max_target_positions": 1.5}, "float"),
        ({"max_source_positions": 0}, "max-source-positions must be from 1"),
        ({"dlcl_window": -1}, "dlcl-window must be at least 0"),
        ({"encoder_groups": "0,9"}, "9"),
    ):
        options = {**record["architecture"]["models"][0], **change}
        altered = {**record, "architecture": {**record["architecture"], "models": [options]}}
        path.write_text(json.dumps(altered))
        with pytest.raises(UserError, match=rf"model\.json: 'architecture' must describe .*{message}"):
            Translator(path.parent)
    path.write_text(json.dumps({**record, "architecture": 3}))
    with pytest.raises(UserError, match=r"'architecture' must be an object, but is 3"):
        Translator(path.parent)


@pytest.mark.parametrize("kind", ["plain", "shared"])
def test_a_file_that_is_overwritten_changes_no_translation(kind: str, data: Path, tmp_path: Path) -> None:
    """Weights that were mapped from the file would become others, or end the process."""
    engine = exported([write_checkpoint(tmp_path / "model.pt", data, **KINDS[kind])], data, tmp_path / "model")
    expected = engine.search(SOURCES, SETTINGS)
    path = tmp_path / "model" / "model.safetensors"
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    assert engine.search(SOURCES, SETTINGS) == expected
    # Tables that are one in the file are one in memory.
    tables = engine.models[0].encoder.embed_tokens.weight, engine.models[0].decoder.embed_tokens.weight
    assert (tables[0].data_ptr() == tables[1].data_ptr()) == (kind == "shared")


def test_a_folder_without_a_description_is_opened_with_fairseq(data: Path, tmp_path: Path) -> None:
    """Earlier versions wrote none."""
    export(Export([write_checkpoint(tmp_path / "model.pt", data)], data, "torch", check=0), tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    record = json.loads(path.read_text())
    del record["architecture"]
    path.write_text(json.dumps(record))
    assert isinstance(Translator(path.parent).engine, TorchEngine)


SCRIPT = """
import sys
from deepnmt.cli import main
sys.argv = ["deepnmt", "translate", sys.argv[1], sys.argv[2], "--output", sys.argv[3]]
main()
print(*sorted({name.split(".")[0] for name in sys.modules} & {"fairseq", "omegaconf", "hydra", "joblib", "sympy"}),
      "torch._dynamo" in sys.modules)
"""


def test_a_translation_imports_no_fairseq(data: Path, tmp_path: Path) -> None:
    export(Export([write_checkpoint(tmp_path / "model.pt", data)], data, "torch", check=0), tmp_path / "model")
    (tmp_path / "raw").write_text("Der Hund schläft.\n", "utf-8")
    words = [tmp_path / "model", tmp_path / "raw", tmp_path / "out"]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    assert (tmp_path / "out").read_text("utf-8") == Translator(tmp_path / "model").translate("Der Hund schläft.") + "\n"
