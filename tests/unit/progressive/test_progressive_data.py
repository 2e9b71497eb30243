"""The data of progressive training is checked before anything is made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.data_folders import data_folder

from deepnmt.errors import UserError
from deepnmt.progressive import stage_runs

RECIPE = """
arch: dlcl_transformer_tiny
optimizer: adam
lr: 0.001
lr-scheduler: inverse_sqrt_reset
max-tokens: 100
train-subset: train1
stages:
  - {encoder-layers: 2, max-update: 4}
"""


def test_faults_of_the_data_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, save = tmp_path / "recipe.yaml", tmp_path / "save"
    recipe.write_text(RECIPE, encoding="utf-8")
    first, second = (data_folder(tmp_path / name, ["train1", "valid"]) for name in "ab")

    def start(data: str, *words: str) -> None:
        stage_runs.run(recipe, data, save, words)

    def refused(message: str, data: str, *words: str) -> None:
        with pytest.raises(UserError, match=message):
            start(data, *words)
        assert not save.exists()

    both = f"{first}:{second}"
    refused(r"the subset must be one of train1, valid \(.*\), but is train$", both, "--train-subset=train")
    refused(r"c: not found; DATA must be a folder made by deepnmt preprocess", f"{both}:{tmp_path / 'c'}")
    data, text = second / "train1.de-en.en.bin", first / "text" / "valid.tok.de"
    kept = data.read_bytes()
    data.write_bytes(b"")
    refused(r"b/train1\.de-en\.en\.bin: must have the 24 bytes", both)
    data.write_bytes(kept)
    # Each stage's translations are scored.
    text.unlink()
    (first / "preprocess.json").write_text(
        '{"source_lang": "de", "target_lang": "en", "lowercase": true, "pretokenized": false}'
    )
    refused(r"text/valid\.tok\.de: no such file", both)
    text.write_text("1\n2\n3\n", encoding="utf-8")
    (first / "preprocess.json").rename(first / "kept.json")
    refused(r"preprocess\.json: no such file; is .* a folder made by deepnmt preprocess", both)
    (first / "kept.json").rename(first / "preprocess.json")
    steps: list[str] = []
    monkeypatch.setattr(stage_runs, "run_step", lambda *words: steps.append(words[0]) or sys.exit(7))
    with pytest.raises(SystemExit, match=r"^7$"):
        start(both)
    assert steps == ["train"]
    assert (save / "stage-1-2" / "recipe.yaml").is_file()
