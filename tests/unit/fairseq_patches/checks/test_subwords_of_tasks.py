"""A checkpoint with other data than its own, and with those of another training, wherever fairseq loads it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from support.restarts import forget
from support.trainings import binarised_text, fairseq_train

from deepnmt.checkpoints import data_fit
from deepnmt.checkpoints.averaging import average_checkpoints
from deepnmt.checkpoints.file import read, write
from deepnmt.checkpoints.one_training import kept_checkpoints
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks import subwords_of_tasks
from deepnmt.text.dictionary import read_types
from deepnmt.text.subword_identity import checksum

OPTIONS = ["--max-tokens=100", "--encoder-layers=1", "--decoder-layers=1", "--disable-validation", "--seed=1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def other(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same data with a dictionary of as many types, two of which are exchanged."""
    folder = tmp_path_factory.mktemp("other") / "data"
    shutil.copytree(data, folder)
    first, second, *rest = (folder / "dict.b.txt").read_text().splitlines(keepends=True)
    (folder / "dict.b.txt").write_text("".join([second, first, *rest]))
    return folder


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training of two epochs."""
    save = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as monkeypatch:
        fairseq_train(monkeypatch, [str(data)], save, *OPTIONS, "--max-epoch=2")
    forget()
    return save


@pytest.fixture
def save(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "save"))


def train(data: Path, save: Path, *more: str) -> int:
    with pytest.MonkeyPatch.context() as monkeypatch:
        try:
            return len(fairseq_train(monkeypatch, [str(data)], save, *OPTIONS, *more))
        finally:
            forget()


def load(path: Path, data: Path) -> Any:
    return checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": str(data)})


def rewrite(path: Path, **extra: Any) -> None:
    """Give a checkpoint other extra state; None takes a part away, as an earlier version left it."""
    state = read(path)
    kept = {key: value for key, value in {**state["extra_state"], **extra}.items() if value is not None}
    write({**state, "extra_state": kept}, path)


def test_record_of_a_training(trained: Path, data: Path) -> None:
    state = CheckpointState.of(trained / "checkpoint_last.pt")
    types = read_types(data / "dict.b.txt")
    right = {"types": len(types), "sha256": checksum(types)}
    assert state.trained_on() == {"dictionaries": {"source": right, "target": right}}
    names = [path.name for path in kept_checkpoints(trained)]
    assert names == ["checkpoint1.pt", "checkpoint2.pt"]
    assert len({CheckpointState.of(trained / name).training() for name in [*names, "checkpoint_last.pt"]}) == 1


def test_loading(trained: Path, data: Path, other: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = trained / "checkpoint_last.pt"
    load(path, data)
    assert "no checksums" not in caplog.text
    with pytest.raises(UserError, match=rf"^{path} cannot be used with {other}: it was trained with another target di"):
        load(path, other)


@pytest.mark.parametrize("more", [[], ["--reset-optimizer"]], ids=["resume", "reset"])
def test_resuming(save: Path, other: Path, more: list[str]) -> None:
    with pytest.raises(UserError, match=r"checkpoint_last\.pt cannot be used with .*another target dictionary"):
        train(other, save, "--max-epoch=3", *more)


@pytest.mark.parametrize("option", ["--finetune-from-model", "--restore-file"])
def test_beginning_with_it(trained: Path, other: Path, tmp_path: Path, option: str) -> None:
    with pytest.raises(UserError, match=r"checkpoint2\.pt cannot be used with .*another target dictionary"):
        train(other, tmp_path / "new", "--max-epoch=3", f"{option}={trained / 'checkpoint2.pt'}")


def test_one_line_for_all_earlier_checkpoints(
    save: Path, data: Path, other: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_fit, "_said", False)
    for name in ("checkpoint1.pt", "checkpoint2.pt"):
        rewrite(save / name, trained_on=None)
        load(save / name, other)
    said = [record.message for record in caplog.records if "no checksums" in record.message]
    assert len(said) == 1
    assert said[0].startswith(f"{save / 'checkpoint1.pt'} has no checksums of dictionaries, codes and text settings")
    # In a model folder it is model.json that has them.
    caplog.clear()
    monkeypatch.setattr(data_fit, "_said", False)
    (save / "model.json").touch()
    load(save / "checkpoint1.pt", data)
    assert "no checksums" not in caplog.text


def test_a_language_model_has_a_target_alone(data: Path) -> None:
    dictionary = Dictionary.load(str(data / "dict.a.txt"))
    identity = subwords_of_tasks.identity_of(LanguageModelingTask(LanguageModelingConfig(), dictionary))
    assert identity is not None
    types = read_types(data / "dict.a.txt")
    assert identity.record() == {"dictionaries": {"target": {"types": len(types), "sha256": checksum(types)}}}


def test_a_malformed_record(save: Path, data: Path) -> None:
    rewrite(save / "checkpoint1.pt", trained_on={"dictionaries": {"source": 5}})
    message = r"extra_state\.trained_on must be checksums of dictionaries and codes, but is a dictionary$"
    with pytest.raises(UserError, match=message):
        load(save / "checkpoint1.pt", data)


def test_the_training_keeps_its_name_when_it_is_resumed(save: Path, data: Path) -> None:
    before = CheckpointState.of(save / "checkpoint1.pt").training()
    assert train(data, save, "--max-epoch=3") > 0
    assert CheckpointState.of(save / "checkpoint3.pt").training() == before
    # Back to an earlier checkpoint: with the same options the same training.
    (save / "checkpoint_last.pt").unlink()
    assert train(data, save, "--max-epoch=3", f"--restore-file={save / 'checkpoint2.pt'}") > 0
    assert CheckpointState.of(save / "checkpoint3.pt").training() == before


@pytest.mark.slow
def test_other_options_make_a_branch(save: Path, data: Path, tmp_path: Path) -> None:
    begin, end = (CheckpointState.of(save / f"checkpoint{epoch}.pt") for epoch in (1, 2))
    assert train(data, save, "--max-epoch=3", "--lr=0.002") > 0
    *before, updates, own = str(CheckpointState.of(save / "checkpoint3.pt").training()).split()
    assert (before, int(updates)) == ([begin.training()], end.updates())
    average_checkpoints([save / f"checkpoint{epoch}.pt" for epoch in (1, 2, 3)])
    assert train(data, save, "--max-epoch=4", "--lr=0.002") > 0
    assert str(CheckpointState.of(save / "checkpoint4.pt").training()).split()[-1] == own
    # Two branches from the first checkpoint, beside what followed it and in a folder of their own.
    restore = f"--restore-file={shutil.copy(save / 'checkpoint1.pt', tmp_path)}"
    with pytest.raises(UserError, match=r"save has checkpoint2\.pt of another training; remove its checkpoints"):
        train(data, save, "--max-epoch=3", "--lr=0.003", restore)
    assert train(data, tmp_path / "branch", "--max-epoch=3", "--lr=0.003", restore) > 0
    (tmp_path / "branch" / "checkpoint_last.pt").unlink()
    for more in ("--lr=0.004", "--reset-dataloader"):
        with pytest.raises(UserError, match=r"branch has checkpoint2\.pt of another training; remove its checkpoints"):
            train(data, tmp_path / "branch", "--max-epoch=3", "--lr=0.003", more, restore)
    assert train(data, tmp_path / "branch", "--max-epoch=2", "--lr=0.003", restore) > 0


def test_another_training_in_its_folder(save: Path, data: Path) -> None:
    for name in ("checkpoint_last.pt", "checkpoint2.pt"):
        (save / name).unlink()
    message = rf"^--save-dir {save} has checkpoint1\.pt of another training; remove its checkpoints or choose another f"
    for more in ("--seed=2", "--lr=0.5"):
        with pytest.raises(UserError, match=message):
            train(data, save, more, "--max-epoch=3")
    with pytest.raises(UserError, match=message):
        train(data, save, f"--finetune-from-model={save / 'checkpoint1.pt'}", "--max-epoch=3")
    assert train(data, save, "--seed=2", "--max-epoch=1", "--no-save") > 0
    # The same one, which was killed before it left a checkpoint_last.pt.
    assert train(data, save, "--max-epoch=1") > 0
    # One of an earlier version, which has no name.
    rewrite(save / "checkpoint1.pt", training=None)
    (save / "checkpoint_last.pt").unlink()
    with pytest.raises(UserError, match=message):
        train(data, save, "--max-epoch=1")


def test_a_training_of_an_earlier_version_is_resumed(save: Path, data: Path) -> None:
    for path in save.glob("*.pt"):
        rewrite(path, training=None)
    assert train(data, save, "--max-epoch=3") > 0
    assert CheckpointState.of(save / "checkpoint3.pt").training() is not None
    last = read(save / "checkpoint1.pt")
    seed = {**last["cfg"], "common": {**last["cfg"]["common"], "seed": 9}}
    write({**last, "cfg": seed}, save / "checkpoint1.pt")
    with pytest.raises(UserError, match=r"has checkpoint1\.pt of another training"):
        train(data, save, "--max-epoch=4")


def test_the_best_of_another_metric(save: Path, data: Path) -> None:
    rewrite(save / "checkpoint_last.pt", best=0.5, best_by="largest bleu", patience={"best": 0.5, "runs": 1})
    validated = [word for word in OPTIONS if word != "--disable-validation"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        fairseq_train(monkeypatch, [str(data)], save, *validated, "--max-epoch=3")
    forget()
    state = CheckpointState.of(save / "checkpoint_last.pt")
    assert state.best() == CheckpointState.of(save / "checkpoint_best.pt").extra("val_loss") > 1
    assert state.extra("best_by") == "smallest loss"
