"""A model with ever fewer layers: what a folder of scores is of. The rest: tests/integration/test_shrink_bleu.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support import data_folders
from support.checkpoints import checkpoint
from support.data_folders import data_folder

from deepnmt.checkpoints import data_fit
from deepnmt.errors import UserError
from deepnmt.generation.depths import Depths

TWO_GROUPS = {"state": {}, "param_groups": [{"params": [0]}, {"params": [1]}]}


def test_files_that_were_replaced_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """See test_search_inputs.py for what they are."""
    monkeypatch.setattr(data_fit, "check_checkpoint", lambda *_: None)
    torch.save(checkpoint(), tmp_path / "model.pt")
    data, terms, output = data_folder(tmp_path / "data"), tmp_path / "terms.txt", tmp_path / "out"

    def plan() -> None:
        every = {"encoder": "2", "decoder": ""}
        with Depths(tmp_path / "model.pt", data, output, "valid", every, ["--terms", str(terms)]).job().begun():
            pass

    terms.write_text("old")
    plan()
    noted = json.loads((output / "models.json").read_text(encoding="utf-8"))
    assert {"contents of DATA", f"contents of {terms}"} <= noted.keys()
    terms.write_text("other")
    with pytest.raises(UserError, match=rf"out was begun with other contents of {terms}; remove it or"):
        plan()
    # As an earlier version has noted it.
    earlier = {key: value for key, value in noted.items() if not key.startswith("contents of ")}
    (output / "models.json").write_text(json.dumps(earlier), encoding="utf-8")
    plan()


def test_a_model_of_the_other_direction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = checkpoint()
    state["cfg"]["task"].update(source_lang="en", target_lang="de")
    torch.save(state, tmp_path / "back.pt")
    monkeypatch.setattr(data_folders, "TYPES", len(state["model"]["encoder.embed_tokens.weight"]))
    data, every = data_folder(tmp_path / "data"), {"encoder": "2", "decoder": ""}
    with pytest.raises(UserError, match="must translate de to en, but translates en to de; --reverse translates"):
        Depths(tmp_path / "back.pt", data, tmp_path / "out", "valid", every, ["--beam", "1"]).job()
    found = Depths(tmp_path / "back.pt", data, tmp_path / "out", "valid", every, ["--reverse", "--beam", "1"]).job()
    assert [model["option"] for model in found.told["models"]] == ["", "--encoder-every=2"]


@pytest.mark.parametrize(
    ("options", "rest", "message"),
    [
        ({"_name": "transformer"}, {}, r"cfg\.model\._name must be dlcl_transformer or one of its"),
        ({"encoder_layers_to_keep": "0,1"}, {}, r"cfg\.model\.encoder_layers_to_keep must not be set, but is"),
        ({"two_sided": True}, {}, r"cfg\.model\.two_sided must be false, but is true"),
        ({"encoder_layers": 9}, {}, "model must hold 9 encoder layers, as cfg.model says, but holds"),
        ({}, {"last_optimizer_state": TWO_GROUPS}, "param_groups must have one group, but has 2"),
    ],
)
def test_a_model_that_cannot_be_shrunk_is_refused_before_it_is_translated(
    options: dict[str, Any], rest: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_fit, "check_checkpoint", lambda *_: None)
    state = {**checkpoint(encoder_groups="none", decoder_groups="none"), **rest}
    state["cfg"]["model"].update(options)
    torch.save(state, tmp_path / "model.pt")
    every = {"encoder": "2", "decoder": ""}
    with pytest.raises(UserError, match=message):
        Depths(tmp_path / "model.pt", data_folder(tmp_path / "data"), tmp_path / "out", "valid", every, []).job()
    assert not (tmp_path / "out").exists()
