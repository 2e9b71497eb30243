"""Settings of the search are checked once; a missing library is one line that says what to install."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepnmt import engines
from deepnmt.engines import registry
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.registry import ENGINES, engine_module, load_engine
from deepnmt.errors import UserError
from deepnmt.text.settings import TextSettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam": 0}, r"--beam must be from 1 to 256, but is 0"),
        ({"beam": 257}, r"--beam must be from 1 to 256, but is 257"),
        ({"beam": 2, "nbest": 3}, r"--nbest must be from 1 to --beam, 2, but is 3"),
        ({"nbest": 0}, r"--nbest must be from 1 to 256, but is 0"),
        ({"lenpen": float("inf")}, r"--lenpen must be from -100 to 100, but is inf"),
        ({"max_len_a": -1.0}, r"--max-len-a must be a finite number of at least 0, but is -1\.0"),
        ({"max_len_b": 0}, r"--max-len-b must be at least 1, but is 0"),
        ({"beam": 2.5}, r"--beam must be a whole number, but is 2\.5"),
        ({"nbest": True}, r"--nbest must be a whole number, but is True"),
        ({"lenpen": None}, r"--lenpen must be a number, but is None"),
        (
            {"beam": "2", "max_len_b": 0.5},
            r"--beam must be a whole number, but is '2'\n--max-len-b must be a whole .* 0\.5",
        ),
        ({"max_len_a": "x"}, r"--max-len-a must be a number, but is 'x'"),
        ({"rerank": 1.0}, r"--rerank must be text, but is 1\.0"),
    ],
)
def test_numbers_out_of_range(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        SearchSettings(**values)


def test_numbers_of_numpy_are_numbers() -> None:
    assert SearchSettings(beam=np.int64(2), lenpen=np.float32(0.5)).beam == 2  # type: ignore[arg-type]


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(UserError, match=r"--beam .*\n--lenpen .*\n--max-len-b "):
        SearchSettings(beam=0, lenpen=1e9, max_len_b=0)


def test_options_of_the_torch_engine_are_refused_by_others() -> None:
    settings = SearchSettings(beam=2)
    assert settings.without_more("onnx") is settings
    message = r"^--length-penalty, --prune-gap cannot be combined with --engine onnx; use --engine torch$"
    with pytest.raises(UserError, match=message):
        SearchSettings(more={"length_penalty": "gnmt", "prune_gap": 1.0}).without_more("onnx")
    with pytest.raises(UserError, match=r"^lenpn: no such search option$"):
        SearchSettings(more={"lenpn": 0.6, "lm_path": "lm.pt"}).without_more("onnx")


@pytest.mark.parametrize(
    ("library", "extra"),
    [
        ("onnxruntime", "onnx"),
        ("onnx", "onnx-export"),
        ("ctranslate2", "ctranslate2"),
        ("ctranslate2.specs", "ctranslate2"),
        ("transformers", "transformers"),
    ],
)
def test_a_missing_library_names_its_extra(
    library: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that imports it stands for the ones that other tests have imported."""
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(tmp_path)])
    package = library.split(".")[0]
    monkeypatch.setitem(sys.modules, package, None)
    known = {name: extra for libraries in ENGINES.values() for name, extra in libraries.items()}
    monkeypatch.setattr(registry, "ENGINES", {"other": known})
    for part, needed in (("engine", library), ("writer", "no_such_library")):
        (tmp_path / "other" / f"{part}.py").write_text(f"import {needed}\n")
    with pytest.raises(UserError, match=rf"^--engine other: needs {package}; pip install 'deepnmt\[{extra}\]'$"):
        engine_module("other", "engine")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        engine_module("other", "writer")


def test_each_engine_has_its_modules() -> None:
    assert list(ENGINES) == ["torch", "ctranslate2", "onnx", "transformers"]
    for engine in ENGINES:
        for part in ("engine", "writer"):
            assert find_spec(f"deepnmt.engines.{engine}.{part}") is not None


def test_threads_are_a_number(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path, TextSettings("de", "en"), "torch", "float32")
    with pytest.raises(UserError, match=r"^--threads must be at least 1, but is 0$"):
        load_engine(folder, 0)
