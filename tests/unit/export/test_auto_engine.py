"""--engine auto: the fastest engine that is installed and computes the model, said in one line."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.translation_models import write_checkpoint, write_data

from deepnmt.cli.export import parse
from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.engines.onnx import writer
from deepnmt.engines.registry import by_speed
from deepnmt.errors import UserError
from deepnmt.export import exporter
from deepnmt.export.exporter import Export, export
from deepnmt.translator import Translator

SEARCH = SearchSettings(beam=3, max_len_b=12)
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}
FOR_DLCL = "not ctranslate2: --encoder-groups 1: use --engine onnx"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("auto") / "data")


def chosen(paths: list[Path], data: Path, folder: Path, weights: str = "float32") -> list[str]:
    """Export, check that the folder translates as the checkpoints do, and return the lines that were said."""
    lines: list[str] = []
    result = export(Export(paths, data, "auto", weights, check=4, allow_loss=True, search=SEARCH), folder, lines.append)
    assert result is not None
    if weights == "float32":
        assert result.differing == 0
    assert (folder / "model.safetensors").is_file()
    (line,) = lines
    assert ModelFolder.open(folder).engine == line.removeprefix("--engine auto: ").partition(";")[0]
    assert Translator(folder).translate("Der Hund schläft.")
    return line.split("; ")


def test_it_is_the_default() -> None:
    assert parse(["checkpoint.pt", "data", "model"]).engine == "auto"


def test_wide_models_are_faster_in_onnx_runtime() -> None:
    """In float32, by the table of docs/translating.md."""
    narrow, wide = ("ctranslate2", "onnx", "torch"), ("onnx", "ctranslate2", "torch")
    assert by_speed(256, "float32") == by_speed(512, "int8") == narrow
    assert by_speed(512, "float32") == wide


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (PLAIN, ["--engine auto: ctranslate2"]),
        ({}, ["--engine auto: onnx", FOR_DLCL]),
        (
            {"two_sided": True},
            ["--engine auto: torch", FOR_DLCL, "not onnx: --two-sided: use --engine torch"],
        ),
    ],
)
def test_the_fastest_that_computes_the_model(
    options: dict[str, Any], expected: list[str], data: Path, tmp_path: Path
) -> None:
    path = write_checkpoint(tmp_path / "checkpoint.pt", data, **options)
    assert chosen([path], data, tmp_path / "model") == expected


def test_ensembles_and_weights(data: Path, tmp_path: Path) -> None:
    paths = [write_checkpoint(tmp_path / f"{seed}.pt", data, seed, **PLAIN) for seed in (1, 2)]
    many = "an ensemble of 2 checkpoints: use --engine torch"
    assert chosen(paths, data, tmp_path / "model") == [
        "--engine auto: torch", f"not ctranslate2: {many}", f"not onnx: {many}"
    ]  # fmt: skip
    assert chosen(paths[:1], data, tmp_path / "model", "int8") == ["--engine auto: ctranslate2"]


def test_engines_that_are_not_installed(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_checkpoint(tmp_path / "checkpoint.pt", data, **PLAIN)
    for library in ("ctranslate2", "onnxruntime"):
        monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if name.startswith(("deepnmt.engines.onnx.", "deepnmt.engines.ctrans"))]:
        monkeypatch.delitem(sys.modules, name)
    assert chosen([path], data, tmp_path / "model") == [
        "--engine auto: torch",
        "not ctranslate2: needs ctranslate2",
        "pip install 'deepnmt[ctranslate2]'",
        "not onnx: needs onnxruntime",
        "pip install 'deepnmt[onnx]'",
    ]


def test_an_engine_that_fails_the_check_is_passed_over(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, graph = write_checkpoint(tmp_path / "checkpoint.pt", data), writer.encoder_graph

    def other(model: Any, activation: str, *rest: Any) -> Any:
        return graph(model, "tanh", *rest)

    monkeypatch.setattr(writer, "encoder_graph", other)
    line = chosen([path], data, tmp_path / "model")
    assert line[:2] == ["--engine auto: torch", FOR_DLCL]
    assert line[2].startswith("not onnx: --engine onnx --weights float32: log-probabilities must agree")


def test_faults_of_the_data_are_raised(data: Path, tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "checkpoint.pt", data, **PLAIN)
    copy = shutil.copytree(data, tmp_path / "data")
    shutil.rmtree(copy / "text")
    with pytest.raises(UserError, match=r"valid\.bpe\.de: no such file, but --check needs it"):
        export(Export([path], copy, "auto"), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_gpu_takes_torch(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other engines are for the CPU."""
    path, lines, engines = write_checkpoint(tmp_path / "checkpoint.pt", data, **PLAIN), [], []
    monkeypatch.setattr(exporter, "_exported", lambda task, *_: engines.append(task.engine))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    export(Export([path], data, "auto"), tmp_path / "model", lines.append)
    assert (engines, lines) == (["torch"], ["--engine auto: torch"])
