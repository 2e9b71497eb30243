"""Checkpoints of an ensemble against the data folder that they are to translate with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.data_folders import TYPES, data_folder

from deepnmt.checkpoints.data_fit import check_model, trained_settings
from deepnmt.errors import UserError


def save(path: Path, source: str, target: str, table: tuple[int, ...] = (TYPES, 2)) -> Path:
    model = {"encoder.embed_tokens.weight": torch.ones(table), "decoder.embed_tokens.weight": torch.ones(TYPES, 2)}
    task = {"source_lang": source, "target_lang": target}
    state = {"model": model, "cfg": {"task": task, "model": {"_name": "transformer"}}}
    torch.save({**state, "extra_state": {}, "optimizer_history": [{}]}, path)
    return path


def test_the_first_one_tells_the_direction_of_an_ensemble(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    there, back = save(tmp_path / "there.pt", "de", "en"), save(tmp_path / "back.pt", "en", "de")
    assert trained_settings([there, there], data).languages == ("de", "en")
    assert trained_settings([back, back], data).languages == ("en", "de")
    for first, second, message in (
        (there, back, r"back\.pt: must translate de to en, but translates en to de$"),
        (back, there, r"there\.pt: must translate en to de, but translates de to en$"),
    ):
        with pytest.raises(UserError, match=message):
            trained_settings([first, second], data)


def test_a_table_that_is_a_number(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    message = rf"in\.pt: must have the {TYPES} types of .*dict\.de\.txt in its encoder, but has 1: it was trained on"
    with pytest.raises(UserError, match=message):
        check_model(save(tmp_path / "in.pt", "de", "en", table=()), data, ("de", "en"))
