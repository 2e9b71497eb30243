"""A folder of another engine translates by its torch weights where the engine or one of its options is missing."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines import fallback, registry
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.fallback import WithFallback
from deepnmt.engines.registry import MissingLibraryError
from deepnmt.engines.torch.engine import InferenceEngine
from deepnmt.errors import UserError
from deepnmt.export.exporter import Export, export
from deepnmt.kernels import products
from deepnmt.translator import Translator

SEARCH = SearchSettings(beam=3, max_len_b=12)
LINES = ["Der Hund schläft.", "Die Katze, „Mia“, frißt mehr."]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("fallback") / "data")


@pytest.fixture(scope="module")
def checkpoint(data: Path) -> Path:
    return write_checkpoint(data.parent / "checkpoint.pt", data)


def without(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a library seem not to be installed, after its engine has been imported, too."""
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if name.startswith("deepnmt.engines.onnx.")]:
        monkeypatch.delitem(sys.modules, name)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == fallback.__name__]


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_an_engine_that_is_not_installed(
    weights: str,
    checkpoint: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    export(Export([checkpoint], data, "onnx", weights, check=0, search=SEARCH), tmp_path / "model")
    expected = Translator.from_checkpoint(checkpoint, data).translate(LINES, beam=3, max_len_b=12)
    without("onnxruntime", monkeypatch)
    # A machine without instructions for int8.
    monkeypatch.setattr(products, "_capabilities", dict)
    with caplog.at_level(logging.WARNING):
        translator = Translator(tmp_path / "model")
    assert isinstance(translator.engine, InferenceEngine)
    reason = r"--engine onnx: needs onnxruntime; pip install 'deepnmt[onnx]'"
    assert said(caplog) == [f"{tmp_path / 'model'}: uses its torch weights ({reason})"]
    if weights == "float32":
        assert translator.translate(LINES) == expected
    (tmp_path / "model" / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match=r"model\.safetensors: was altered since the export"):
        Translator(tmp_path / "model")


def test_without_torch_weights_or_torch_the_library_is_asked_for(
    checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(Export([checkpoint], data, "onnx", check=0, search=SEARCH), tmp_path / "model")
    without("onnxruntime", monkeypatch)
    message = r"^--engine onnx: needs onnxruntime; pip install 'deepnmt\[onnx\]'$"
    with monkeypatch.context() as patch:
        patch.setattr(registry, "find_spec", lambda name: None)
        with pytest.raises(MissingLibraryError, match=message):
            Translator(tmp_path / "model")
    # As earlier versions wrote it.
    record = json.loads((tmp_path / "model" / "model.json").read_text())
    del record["files"]["model.safetensors"]
    (tmp_path / "model" / "model.json").write_text(json.dumps(record))
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(MissingLibraryError, match=message):
        Translator(tmp_path / "model")


def test_options_of_the_torch_engine_alone(
    checkpoint: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    export(Export([checkpoint], data, "onnx", check=0, search=SEARCH), tmp_path / "model")
    translator = Translator(tmp_path / "model")
    assert isinstance(translator.engine, WithFallback)
    expected = Translator.from_checkpoint(checkpoint, data)
    with caplog.at_level(logging.WARNING):
        assert translator.translate(LINES) == expected.translate(LINES, beam=3, max_len_b=12)
        assert said(caplog) == []
        for penalty in ("log", "gnmt"):
            more = {"length_penalty": penalty, "lenpen": 2.5}
            found = translator.nbest(LINES, 2, **more)
            assert found == expected.nbest(LINES, 2, beam=3, max_len_b=12, **more)
    assert said(caplog) == [f"{tmp_path / 'model'}: uses its torch weights for --length-penalty"]
    with pytest.raises(UserError, match=r"^--coverage needs --coverage-weight$"):
        translator.translate(LINES, coverage="gnmt")


def test_missing_libraries_of_the_torch_weights_are_one_line(
    checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(Export([checkpoint], data, "onnx", check=0, search=SEARCH), tmp_path / "model")
    translator = Translator(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("deepnmt.engines.torch")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=rf"^{tmp_path / 'model'}: its torch weights need torch$"):
        translator.translate(LINES, length_penalty="gnmt")
