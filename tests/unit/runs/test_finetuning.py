"""Training a model further: the recipe of a checkpoint, two validation sets, and what translations say of it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.restarts import train_until
from support.substitution import SOURCE, TARGET, substitution_data, write_lines

from deepnmt import cli
from deepnmt.cli.select import main as select
from deepnmt.errors import UserError
from deepnmt.generation.subset_search import check_checkpoints
from deepnmt.jobs import job
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.own_keys import to_arguments
from deepnmt.recipe.parser import parse, training_parser
from deepnmt.recipe.recipe_file import read_recipe
from deepnmt.runs import finetuning
from deepnmt.text.data_folder import check_data_folder
from deepnmt.text.lines import read_text
from deepnmt.text.translated_folder import lines_of, write_translations

MODEL = {"encoder_norm": "pre", "encoder_groups": "2", "decoder_groups": "none", "share_all_embeddings": True}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data, pairs chosen from them, and a model trained on these for an update."""
    folder = tmp_path_factory.mktemp("finetune")
    data, chosen = substitution_data(folder / "data"), folder / "chosen"
    like = write_lines(folder / "like it", read_text(data / "text" / f"test.tok.{SOURCE}"))
    select([str(data), str(chosen), "--like", str(like), "--number", "20"])
    options = ["--task=deep_translation", "--criterion=label_smoothed_cross_entropy", "--label-smoothing=0.2"]
    options += ["--max-tokens=200", "--max-update=1", "--disable-validation", "--no-epoch-checkpoints"]
    for name, value in MODEL.items():
        options.append(f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        train_until(monkeypatch, [str(chosen), *options], folder / "save")
    return {"data": data, "chosen": chosen, "model": folder / "save" / "checkpoint_last.pt"}


def contents(folders: dict[str, Path]) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(folders["model"], weights_only=False)
    return state


def test_the_recipe_builds_the_model_of_the_checkpoint(folders: dict[str, Path], tmp_path: Path) -> None:
    finetuning.write_recipe(folders["model"], folders["data"], tmp_path / "recipe.yaml")
    arguments = to_arguments(read_recipe(tmp_path / "recipe.yaml"))
    parsed = vars(parse(training_parser(), arguments))
    model = contents(folders)["cfg"]["model"]
    for name, value in model.items():
        if name != "_name" and name in parsed and value not in (None, ""):
            assert parsed[name] == value, name
    assert {name: parsed[name] for name in MODEL} == MODEL
    assert parsed["label_smoothing"] == 0.2
    assert (parsed["arch"], parsed["criterion"]) == ("dlcl_transformer", "label_smoothed_cross_entropy_fused")
    assert (parsed["source_lang"], parsed["target_lang"]) == (SOURCE, TARGET)
    assert (parsed["lr"], parsed["lr_scheduler"], parsed["max_tokens"]) == ([0.0001], "fixed", 1024)


def test_options_of_fairseqs_models_are_found_among_all(folders: dict[str, Path], tmp_path: Path) -> None:
    # fairseq keeps the options of the whole training as those of the model.
    state = contents(folders)
    options = {"arch": "transformer", "encoder_layers": 3, "max_tokens": 99, "lr": [0.5], "dropout": 0.25}
    state["cfg"]["model"] = Namespace(**options, no_cross_attention=False, share_all_embeddings=True)
    torch.save(state, tmp_path / "model.pt")
    finetuning.write_recipe(tmp_path / "model.pt", folders["data"], tmp_path / "recipe.yaml")
    found = {name: option.value for name, option in read_recipe(tmp_path / "recipe.yaml").items()}
    assert found.items() >= {"arch": "transformer", "encoder-layers": "3", "dropout": "0.25"}.items()
    assert found["share-all-embeddings"] == "true"
    assert (found["max-tokens"], found["lr"]) == ("1024", "0.0001")
    assert "no-cross-attention" not in found


def test_files_of_embeddings_are_not_read_again(folders: dict[str, Path], tmp_path: Path) -> None:
    state = contents(folders)
    state["cfg"]["model"] |= {"encoder_embed_path": "gone.vec", "decoder_embed_path": "gone.vec"}
    torch.save(state, tmp_path / "model.pt")
    finetuning.write_recipe(tmp_path / "model.pt", folders["data"], tmp_path / "recipe.yaml")
    assert not [name for name in read_recipe(tmp_path / "recipe.yaml") if "embed-path" in name]


def test_a_right_to_left_model_stays_one_and_other_criterions_become_plain(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    state = contents(folders)
    state["task_state"]["right_to_left"] = True
    state["cfg"]["criterion"]["_name"] = "cross_entropy"
    torch.save(state, tmp_path / "model.pt")
    finetuning.write_recipe(tmp_path / "model.pt", folders["data"], tmp_path / "recipe.yaml")
    found = {name: option.value for name, option in read_recipe(tmp_path / "recipe.yaml").items()}
    assert (found["right-to-left"], found["criterion"]) == ("true", "cross_entropy")
    assert "label-smoothing" not in found


def test_a_training_that_began_with_another_checkpoint_is_not_resumed(folders: dict[str, Path], tmp_path: Path) -> None:
    model, save = tmp_path / "model.pt", tmp_path / "save"
    save.mkdir()
    shutil.copy(folders["model"], model)
    finetuning.write_recipe(model, folders["data"], save / "recipe.yaml")
    expected = hashlib.sha256(model.read_bytes()).hexdigest()
    start = (save / "finetune.json").read_text()
    assert json.loads(start) == {"checkpoint": str(model), "sha256": expected}
    (save / "checkpoint_last.pt").touch()
    finetuning.write_recipe(folders["model"], folders["data"], save / "recipe.yaml")
    assert (save / "finetune.json").read_text() == start
    recipe = (save / "recipe.yaml").read_text()

    state = contents(folders)
    state["model"]["encoder.embed_tokens.weight"] += 1
    torch.save(state, model)
    message = rf"^{save} was begun with another CHECKPOINT; remove it or choose another SAVE$"
    with pytest.raises(UserError, match=message):
        finetuning.write_recipe(model, folders["data"], save / "recipe.yaml")
    assert (save / "recipe.yaml").read_text() == recipe

    # Where nothing was trained, it begins with this one; and an earlier version did not note it.
    (save / "checkpoint_last.pt").unlink()
    finetuning.write_recipe(model, folders["data"], save / "recipe.yaml")
    expected = hashlib.sha256(model.read_bytes()).hexdigest()
    assert json.loads((save / "finetune.json").read_text())["sha256"] == expected
    state["cfg"]["checkpoint"]["finetune_from_model"] = str(model)
    torch.save(state, save / "checkpoint_last.pt")
    (save / "finetune.json").unlink()
    finetuning.write_recipe(folders["model"], folders["data"], save / "recipe.yaml")
    assert not (save / "finetune.json").exists()


def test_a_training_that_began_with_no_checkpoint_is_not_resumed(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copy(folders["model"], tmp_path / "checkpoint_last.pt")
    message = rf"^{tmp_path} exists, and was not made by deepnmt finetune: .*checkpoint_last\.pt is of .* another SAVE$"
    with pytest.raises(UserError, match=message):
        finetuning.write_recipe(folders["model"], folders["data"], tmp_path / "recipe.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint_last.pt"]


@pytest.mark.parametrize(("kept", "weight"), [({"two_sided_weight": 0.25}, 0.25), ({}, 0.5)])
def test_a_two_sided_model_is_trained_by_its_own_criterion(
    kept: dict[str, float], weight: float, folders: dict[str, Path], tmp_path: Path
) -> None:
    state = contents(folders)
    state["cfg"]["model"]["two_sided"] = True
    name = "label_smoothed_cross_entropy_two_sided"
    state["cfg"]["criterion"] = {"_name": name, "label_smoothing": 0.2, **kept}
    torch.save(state, tmp_path / "model.pt")
    finetuning.write_recipe(tmp_path / "model.pt", folders["data"], tmp_path / "recipe.yaml")
    # As train.sh does.
    parsed = vars(check_recipe(tmp_path / "recipe.yaml", read_recipe(tmp_path / "recipe.yaml"), []))
    assert (parsed["criterion"], parsed["label_smoothing"], parsed["two_sided_weight"]) == (name, 0.2, weight)


def test_a_model_of_other_data_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    state = contents(folders)
    state["model"]["encoder.embed_tokens.weight"] = torch.zeros(7, 16)
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(
        UserError, match=r"must have the \d+ types of .* in its encoder, but has 7: it was trained on other"
    ):
        finetuning.write_recipe(tmp_path / "model.pt", folders["data"], tmp_path / "recipe.yaml")
    assert not (tmp_path / "recipe.yaml").exists()


def test_the_old_validation_set_stands_beside_the_new_one(folders: dict[str, Path], tmp_path: Path) -> None:
    finetuning.link_data(folders["chosen"], folders["data"], tmp_path / "joint")
    check_data_folder(tmp_path / "joint", ["train", "valid", "old", "test"], (SOURCE, TARGET))
    for language in (SOURCE, TARGET):
        name = f"de-en.{language}.bin"
        assert (tmp_path / "joint" / f"old.{name}").read_bytes() == (folders["data"] / f"valid.{name}").read_bytes()
        assert (tmp_path / "joint" / f"train.{name}").read_bytes() == (folders["chosen"] / f"train.{name}").read_bytes()
    other = tmp_path / "other"
    shutil.copytree(folders["data"], other)
    (other / "codes").write_text("#version: 0.2\na b\n")
    with pytest.raises(UserError, match=r"other.codes: must be the codes of .*chosen, but are others; make .* with "):
        finetuning.link_data(folders["chosen"], other, tmp_path / "joint")


def test_translations_say_which_text_the_training_pairs_were_like(folders: dict[str, Path], tmp_path: Path) -> None:
    selected = json.loads((folders["chosen"] / "preprocess.json").read_text())["selected_on"]
    texts = check_checkpoints([folders["model"]] * 2, folders["data"], False)
    assert texts == [selected]
    lines = ["a b"] * len(lines_of(folders["data"] / "text" / "test.tok.en"))
    for chosen, expected in ((texts, [selected]), ([], None)):
        write_translations(tmp_path, lines, folders["data"], "test", 0, selected_on=chosen)
        assert json.loads((tmp_path / "generate.json").read_text()).get("selected_on") == expected


def test_a_further_training_keeps_what_the_pairs_of_the_first_were_like(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected = json.loads((folders["chosen"] / "preprocess.json").read_text())["selected_on"]
    model, save = tmp_path / "model.pt", tmp_path / "save"
    shutil.copy(folders["model"], model)
    options = [str(folders["data"]), "--task=deep_translation", "--criterion=cross_entropy", "--max-tokens=200"]
    options += ["--disable-validation", "--no-epoch-checkpoints", f"--finetune-from-model={model}"]
    for name, value in MODEL.items():
        options.append(f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}"))
    for updates in (1, 2):  # the second training resumes the first
        train_until(monkeypatch, [*options, f"--max-update={updates}"], save)
        state = torch.load(save / "checkpoint_last.pt", weights_only=False)
        assert state["task_state"] == {"selected_on": selected}, updates
        model.unlink(missing_ok=True)


def test_another_start_leaves_what_one_trains_by(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe and what the training began with, which it would be resumed by."""
    monkeypatch.setattr(job, "WAIT", 0.2)
    recipe = tmp_path / "recipe.yaml"
    finetuning.write_recipe(folders["model"], folders["chosen"], recipe)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        message = "^SAVE must not be in use, but a command of an earlier run is still running in "
        with pytest.raises(UserError, match=message):
            finetuning.begin(folders["model"], folders["data"], tmp_path, None, [])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "lock"} == before


def test_the_training_that_is_begun(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[Any, ...]] = []
    monkeypatch.setattr(finetuning.training, "begin", lambda *given: begun.append(given))
    words = [str(folders["model"]), str(folders["chosen"]), str(tmp_path), str(folders["data"]), "--lr", "2"]
    monkeypatch.setattr(sys, "argv", ["finetuning.py", *words])
    finetuning.main()
    start = ["--finetune-from-model", str(folders["model"])]
    old = ["--valid-subset", "valid,old"]
    assert begun == [(tmp_path / "recipe.yaml", str(tmp_path / "data"), tmp_path, [*start, *old, "--lr", "2"])]
    assert (tmp_path / "data" / "old.de-en.de.bin").exists()
    # It is held as long as the process lives, here of all tests.
    with (
        finetuning.training.HELD,
        (tmp_path / "lock").open("w") as lock,
        pytest.raises(BlockingIOError, match="Resource"),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.pt", "data", "save"], r"^none\.pt: CHECKPOINT not found$"),
        (["a", "b"], r"^CHECKPOINT, DATA and SAVE must be given, before any option of fairseq-train \(see --help\)$"),
        (["a", "b", "c", "--finetune-from-model=x"], "^--finetune-from-model cannot be used here: CHECKPOINT rep"),
        (["a", "b", "c", "--old"], r"^option --old needs a value \(see --help\)$"),
    ],
)
def test_faulty_command_lines(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cli.call("finetune", words)
