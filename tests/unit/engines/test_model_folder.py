"""Model folders: what is written is read, can be moved, and any missing or altered file is one line."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.model_folder import ModelFolder, is_model_folder
from deepnmt.errors import UserError
from deepnmt.text.settings import TextSettings
from deepnmt.translator import translator

TEXT = TextSettings("de", "en", lowercase=True)
SEARCH = SearchSettings(beam=4, lenpen=0.6, more={"length_penalty": "gnmt"})
CONTENTS = {
    "codes": b"#version: 0.2\na b\n",
    "dict.de.txt": b"ab 1\n",
    "dict.en.txt": b"ab 1\n",
    "model.safetensors": bytes(range(256)),
    "onnx/step.onnx": b"graph",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    for name, contents in CONTENTS.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(contents)
    ModelFolder(path, TEXT, "onnx", "int8", 511, SEARCH, {"pairs": 3}).write()
    return path


def change(folder: Path, **values: Any) -> None:
    record = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**record, **values}))


def test_what_is_written_is_read_wherever_the_folder_is(folder: Path, tmp_path: Path) -> None:
    moved = shutil.move(folder, tmp_path / "elsewhere")
    expected = ModelFolder(tmp_path / "elsewhere", TEXT, "onnx", "int8", 511, SEARCH, {"pairs": 3})
    assert ModelFolder.open(moved) == expected
    assert str(tmp_path) not in (moved / "model.json").read_text()


@pytest.mark.parametrize("name", CONTENTS)
def test_each_missing_or_altered_file_is_one_line(folder: Path, name: str) -> None:
    """The torch weights of another engine's folder only count once they are needed."""
    path, whole = folder / name, CONTENTS[name]

    def check() -> None:
        opened = ModelFolder.open(folder)
        assert name == "model.safetensors"
        opened.check_torch_weights()

    for altered in (whole[:-1], whole + b"\n", bytes([whole[0] ^ 1]) + whole[1:], b""):
        path.write_bytes(altered)
        with pytest.raises(UserError, match=rf"^{path}: was altered since the export; [^\n]*$"):
            check()
    path.unlink()
    with pytest.raises(UserError, match=rf"^{path}: not found, although {folder}/model\.json lists it$"):
        check()
    change(folder, engine="torch")
    with pytest.raises(UserError, match=rf"^{path}: not found, although {folder}/model\.json lists it$"):
        ModelFolder.open(folder)


def test_another_search_may_be_written_into_the_record(folder: Path) -> None:
    change(folder, search={"beam": 2})
    assert ModelFolder.open(folder).search == SearchSettings(beam=2)


def test_search_defaults_that_the_engine_does_not_know_name_the_record(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoSearch:
        def check(self, settings: SearchSettings) -> None:
            settings.without_more("onnx")

    monkeypatch.setattr(translator, "load_engine", lambda *_: NoSearch())
    message = rf"^{folder}/model\.json: 'search': --length-penalty cannot be combined with --engine onnx; [^\n]*$"
    with pytest.raises(UserError, match=message):
        translator.Translator(folder)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": 5}, r"'format' must be from 1 to 4, but is 5; it needs a later version of deepnmt"),
        ({"format": 0}, r"'format' must be from 1 to 4, but is 0$"),
        ({"version": 1}, r"'version' must be text, but is 1"),
        ({"truecase": 1}, r"'truecase' must be true or false, but is 1"),
        ({"normalise": "width,case"}, r"--normalise must have steps of width, nfkc, .*, but has 'case'"),
        ({"engine": "marian"}, r"'engine' must be one of torch, ctranslate2, onnx, transformers, but is 'marian'"),
        ({"weights": "int4"}, r"'weights' must be one of float32, float16, bfloat16, int8, but is 'int4'"),
        ({"longest": 0}, r"'longest' must be at least 1, but is 0"),
        ({"source_lang": "a/b"}, r"'source_lang' must be a language such as de, but is 'a/b'"),
        ({"files": []}, r"'files' must be an object, but is \[\]"),
        ({"search": {"beam": 0}}, r"'search': --beam must be from 1 to 256, but is 0"),
        ({"search": {"beam": True}}, r"'search.beam' must be a whole number, but is true"),
        ({"search": {"lenpen": float("nan")}}, r"'search': --lenpen must be from -100 to 100, but is nan"),
        ({"search": {"coverage": []}}, r"'search.coverage' must be a plain value, but is \[\]"),
        ({"architecture": []}, r"'architecture' must be an object, but is \[\]"),
        ({"architecture": {"models": [{}]}}, r"must have the key 'architecture.left_pad_source', but does not"),
        ({"architecture": {"left_pad_source": 1, "models": []}}, r"'architecture.left_pad_source' must be true or fal"),
        ({"architecture": {"left_pad_source": True, "models": 3}}, r"'architecture.models' must be a list, but is 3"),
        (
            {"architecture": {"left_pad_source": True, "models": [{}, 1]}},
            r"'architecture.models.1' must be an object, but is 1",
        ),
    ],
)
def test_faults_of_the_record(folder: Path, values: dict[str, Any], message: str) -> None:
    change(folder, **values)
    with pytest.raises(UserError, match=rf"^{folder}/model\.json: {message}[^\n]*$"):
        ModelFolder.open(folder)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 900), length=st.integers(0, 30), new=st.binary(max_size=20))
def test_any_damage_to_the_record_is_one_line_or_harmless(folder: Path, start: int, length: int, new: bytes) -> None:
    path = folder / "model.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:start] + new + whole[start + length :])
    # Whatever else is raised fails the test.
    with contextlib.suppress(UserError):
        ModelFolder.open(folder)
    path.write_bytes(whole)


def test_other_folders_are_none(folder: Path, tmp_path: Path) -> None:
    assert is_model_folder(folder)
    assert not is_model_folder(tmp_path)
    with pytest.raises(UserError, match=r"nowhere: no folder made by deepnmt export was found"):
        ModelFolder.open(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"model\.json: no such file; is .* a folder made by deepnmt export\?"):
        ModelFolder.open(tmp_path)
