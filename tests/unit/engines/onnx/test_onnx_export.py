"""Exports for the onnx engine: checked, refused where a weight is wrong, and translating without torch and fairseq."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from support.checkpoints import load
from support.processes import SECONDS, started
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.onnx import writer
from deepnmt.engines.onnx.engine import ENCODER, STEP
from deepnmt.errors import UserError
from deepnmt.export.exporter import Export, export
from deepnmt.translator import Translator

SEARCH = SearchSettings(beam=3, max_len_b=12)
LINES = ["Der Hund schläft.", "", "Die Katze, „Mia“, frißt mehr."]
OPTIONS = {"encoder_norm": "b2t", "decoder_norm": "pre", "encoder_max_relative_length": 4, "merged_attention": True}
# A machine that only translates.
WITHOUT_TORCH = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "fairseq", "onnx", "omegaconf", "sacrebleu", "yaml", "matplotlib"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from deepnmt.translator import Translator
for line in Translator(sys.argv[1], threads=1).translate(sys.argv[2:]):
    print(line)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("onnx") / "data")


@pytest.fixture(scope="module")
def checkpoint(data: Path) -> Path:
    return write_checkpoint(data.parent / "checkpoint.pt", data, **OPTIONS)


def test_a_folder_that_needs_neither_torch_nor_fairseq(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    result = export(Export([checkpoint], data, "onnx", check=6, search=SEARCH), tmp_path / "model")
    assert result is not None
    assert result.difference < 1e-5
    assert result.differing == 0
    record = json.loads((tmp_path / "model" / "model.json").read_text())
    assert {ENCODER, STEP} < set(record["files"])
    assert record["longest"] == 1023
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "model"), *LINES],
        capture_output=True, encoding="utf-8", check=True, timeout=120,
    )  # fmt: skip
    expected = Translator.from_checkpoint(checkpoint, data).translate(LINES, beam=3, max_len_b=12)
    assert done.stdout.splitlines() == expected
    assert expected[0]
    assert expected[1] == ""


def test_ctrl_c_leaves_whole_lines(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    """The command's, here, since this engine starts in half a second."""
    export(Export([checkpoint], data, "onnx", check=0, search=SEARCH), tmp_path / "model")
    command = [sys.executable, "-m", "deepnmt", "translate", tmp_path / "model", "--max-len-b", 12, "--buffer", 2]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in [*LINES, LINES[0], LINES[2]]))
        process.stdin.flush()
        written = [process.stdout.readline() for _ in range(4)]
        # The fifth line waits for a sixth.
        os.killpg(process.pid, signal.SIGINT)
        process.stdin = None
        output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert written == [
        f"{line}\n" for line in Translator(tmp_path / "model").translate([*LINES, LINES[0]], max_len_b=12)
    ]
    assert output == ""
    assert "deepnmt translate: interrupted" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("engine", ["onnx", "ctranslate2", "torch"])
def test_a_checkpoint_that_lacks_options(engine: str, data: Path, tmp_path: Path) -> None:
    """Of an older version, say, or written by hand."""
    plain = {"encoder_groups": "none", "decoder_groups": "none", "max_target_positions": 12}
    path = write_checkpoint(tmp_path / "checkpoint.pt", data, **plain)
    state = load(path)
    for option in ("activation_fn", "merged_attention", "no_scale_embedding", "decoder_output_dim"):
        del state["cfg"]["model"][option]
    torch.save(state, path)
    result = export(Export([path], data, engine, check=200, search=SEARCH), tmp_path / "model")
    assert result is not None
    assert result.difference < 1e-5


def test_int8(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    task = Export([checkpoint], data, "onnx", "int8", check=6, allow_loss=True, search=SEARCH)
    result = export(task, tmp_path / "model")
    assert result is not None
    assert 1e-4 < result.difference < 0.5
    assert Translator(tmp_path / "model").translate(LINES[0])


def broken(name: str, element: Callable[[np.ndarray], bool]) -> Callable[..., None]:
    """A writer that changes one number of the first weight of a graph that `element` chooses."""
    whole = writer.write

    def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
        whole(checkpoints, data, folder, weights)
        graph = onnx.load(folder / name)
        for weight in graph.graph.initializer:
            values = numpy_helper.to_array(weight).copy()
            if element(values):
                values.flat[len(values.flat) // 2] += np.asarray(0.1 if values.dtype == np.float32 else 1, values.dtype)
                weight.CopyFrom(numpy_helper.from_array(values, weight.name))
                break
        else:
            raise AssertionError("no such weight")
        (folder / name).write_bytes(graph.SerializeToString())

    return write


@pytest.mark.parametrize("name", [ENCODER, STEP])
@pytest.mark.parametrize("shape", [(16,), (16, 24)], ids=["norm or bias", "feed-forward"])
def test_one_wrong_number_is_seen(
    name: str, shape: tuple[int, ...], checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = broken(name, lambda values: values.dtype == np.float32 and values.shape == shape)
    monkeypatch.setattr(writer, "write", write)
    with pytest.raises(UserError, match=r"^--engine onnx --weights float32: log-probabilities must agree with"):
        export(Export([checkpoint], data, "onnx", check=4, search=SEARCH), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("package", "extra"), [("onnx", "onnx-export"), ("onnxruntime", "onnx")])
def test_a_package_that_is_missing(
    package: str, extra: str, checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    importing = ("deepnmt.engines.onnx.",)
    for name in [name for name in sys.modules if name.startswith(importing)]:
        # Importing it again changes what the package calls by this name, for other tests too.
        room, _, module = name.rpartition(".")
        monkeypatch.setattr(sys.modules[room], module, sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=rf"^--engine onnx: needs {package}; pip install 'deepnmt\[{extra}\]'$"):
        export(Export([checkpoint], data, "onnx", check=0), tmp_path / "model")
