"""What fairseq-train refuses to resume, and fairseq-generate to translate with."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq_cli import generate
from support.checkpoints import load, with_model_options
from support.language_models import save_language_model
from support.trainings import DUMMY, binarised_text, fairseq_train
from support.translation_models import write_checkpoint, write_data

from deepnmt import console
from deepnmt.checkpoints import data_fit
from deepnmt.errors import UserError


def refused(monkeypatch: pytest.MonkeyPatch, save: Path, *more: str) -> str:
    """Return the lines that fairseq-train ends with."""
    with pytest.raises(UserError, match=r"checkpoint_last\.pt|--restore-file") as caught:
        fairseq_train(monkeypatch, DUMMY, save, "--max-update=4", *more)
    return str(caught.value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    save = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as monkeypatch:
        fairseq_train(monkeypatch, DUMMY, save, "--max-update=2")
    return save


def test_a_checkpoint_of_another_training(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = trained / "checkpoint_last.pt"
    before = last.read_bytes()
    assert refused(monkeypatch, trained, "--encoder-layers=4") == (
        f"{last}: model.encoder.layers.3.self_attn.relative_keys must be there, as in the model of this training, but "
        "is not (and 19 more); options that differ: encoder_layers 3, here 4"
    )
    assert re.fullmatch(
        rf"{last}: model\.encoder\.layers\.0\.fc1\.weight must have the shape 32 x 16, as in the model of this "
        r"training, but has 24 x 16 \(and \d+ more\); options that differ: encoder_ffn_embed_dim 24, here 32",
        refused(monkeypatch, trained, "--encoder-ffn-embed-dim=32"),
    )
    assert refused(monkeypatch, trained, "--criterion=label_smoothed_cross_entropy") == (
        f"{last}: optimizer_history[-1].criterion_name must be LabelSmoothedCrossEntropyCriterion, the --criterion of "
        "this training, but is CrossEntropyCriterion; give --reset-optimizer or another --save-dir"
    )
    assert last.read_bytes() == before


STOCK = ["--arch=transformer", "--encoder-normalize-before", "--decoder-normalize-before", "--max-update=1"]
OURS = ["--encoder-normalize-before", "--decoder-normalize-before", "--max-update=2"]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of fairseq's own Transformer."""
    save = tmp_path_factory.mktemp("stock")
    data = [option for option in DUMMY if "relative" not in option]
    with pytest.MonkeyPatch.context() as monkeypatch:
        fairseq_train(monkeypatch, data, save, *STOCK)
    assert load(save / "checkpoint_last.pt")["cfg"]["model"].arch == "transformer"
    return save / "checkpoint_last.pt"


def test_fairseqs_own_transformer_where_the_model_has_more(
    stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stock.read_bytes()
    message = refused(monkeypatch, tmp_path, f"--restore-file={stock}", *OURS)
    assert re.fullmatch(
        rf"{stock}: model\.encoder\.(history|layers)\.\S+ must be there, as in the model of this training, but is not "
        r"\(and \d+ more\)(; options that differ: .*)?",
        message,
    )
    assert stock.read_bytes() == before


def test_fairseqs_own_transformer_is_resumed_where_the_model_is_it(
    stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [option for option in DUMMY if "relative" not in option]
    plain = ["--encoder-groups=none", "--decoder-groups=none", f"--restore-file={stock}"]
    assert list(fairseq_train(monkeypatch, data, tmp_path, *OURS, *plain)) == [1]


def test_a_task_that_nobody_knows(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = load(trained / "checkpoint_last.pt")
    path = tmp_path / "in.pt"
    torch.save({**state, "cfg": {**state["cfg"], "task": {"_name": "no_such_task"}}}, path)
    with pytest.raises(
        UserError, match=f"^{path}: must be a checkpoint that can be used here, but is not: .*Could not infer"
    ):
        checkpoint_utils.load_model_ensemble_and_task([str(path)])
    monkeypatch.setattr(sys, "argv", ["fairseq-generate", str(tmp_path), f"--path={path}", "--task=no_such_task"])
    with pytest.raises(SystemExit, match="2"):
        generate.cli_main()
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("fairseq-generate: error: argument --task: invalid choice: 'no_such_task' (choose from ")


def test_files_that_are_not_there(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tmp_path / "no.pt"
    monkeypatch.setattr(console, "_runs", True)
    assert refused(monkeypatch, tmp_path, f"--restore-file={absent}") == (
        f"--restore-file: checkpoint {absent} not found"
    )
    link = tmp_path / "checkpoint_last.pt"
    link.symlink_to(link)
    assert refused(monkeypatch, tmp_path) == f"{link}: must be a checkpoint, but is no file"


def test_generate(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = binarised_text(tmp_path)
    state = load(trained / "checkpoint_last.pt")
    torch.save(with_model_options(state, encoder_layers=2), tmp_path / "depth.pt")
    for name, message in (
        ("no.pt", "no such checkpoint$"),
        ("depth.pt", "model must hold 2 encoder layers, as cfg.model says, but holds 3$"),
    ):
        monkeypatch.setattr(sys, "argv", ["generate", str(data), f"--path={tmp_path / name}", "--cpu"])
        with pytest.raises(UserError, match=f"^{tmp_path / name}: {message}"):
            generate.cli_main()


def test_a_language_model_does_not_translate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = binarised_text(tmp_path)
    path = save_language_model(tmp_path, Dictionary.load(str(data / "dict.b.txt")))
    monkeypatch.setattr(sys, "argv", ["generate", str(data), f"--path={path}", "--cpu"])
    with pytest.raises(UserError, match=rf"^{path}: cfg\.model\._name must be a model that translates"):
        generate.cli_main()


def test_a_model_of_the_other_direction_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # That a checkpoint has no checksums is said once in a process, by whichever test comes first.
    monkeypatch.setattr(data_fit, "_said", True)
    data = write_data(tmp_path / "data")
    path = write_checkpoint(tmp_path / "model.pt", data)
    for languages, warnings in (
        (("de", "en"), []),
        (("en", "de"), [f"{path}: was trained from de to en, but is used from en to de"]),
        ((None, None), []),
    ):
        cfg = TranslationConfig(data=str(data), source_lang="de", target_lang="en")
        task = TranslationTask.setup_task(cfg)
        task.cfg.source_lang, task.cfg.target_lang = languages
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            checkpoint_utils.load_model_ensemble([str(path)], task=task)
        assert caplog.messages == warnings
