"""For programs that import it too, fairseq's functions take what they took, and raise what they raised."""

from __future__ import annotations

import argparse
import logging
import pickle
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.data import data_utils
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.trainer import Trainer
from omegaconf import OmegaConf
from support.data_folders import data_folder
from support.fairseq_configurations import configuration
from support.language_models import save_language_model
from support.models import SIZE, dictionary
from support.translation_models import write_checkpoint, write_data

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks.training_checks import check_training
from deepnmt.model import validate
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.recipe.combinations import rule_faults

OPTIONS = {"save_dir": None, "optimizer_overrides": "{}", "finetune_from_model": None, "restore_file": "other.pt"}
RESETS = dict.fromkeys(("reset_dataloader", "reset_meters", "reset_optimizer", "reset_lr_scheduler"), False)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data") / "de-en")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data folder and a checkpoint."""
    folder = write_data(tmp_path_factory.mktemp("model") / "data")
    return folder, write_checkpoint(folder.parent / "model.pt", folder)


@pytest.mark.parametrize("restore_file", ["checkpoint_last.pt", "other.pt"])
def test_trainers_and_configurations_of_their_own(restore_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = MagicMock()
    position = {"epoch": 2, "iterations_in_epoch": 3, "shuffle": False}
    trainer.load_checkpoint.return_value = {"train_iterator": position}
    trainer.checkpoint_suffix = ""
    monkeypatch.setattr("os.path.join", lambda *parts: "joined")  # as fairseq's own test, whose folder is None
    cfg = OmegaConf.create({**OPTIONS, **RESETS, "restore_file": restore_file})
    extra_state, iterator = checkpoint_utils.load_checkpoint(cfg, trainer)
    assert extra_state == {"train_iterator": position}
    assert iterator is trainer.get_train_iterator.return_value
    iterator.load_state_dict.assert_called_once_with(position)
    assert trainer.load_checkpoint.call_args.args[0] == ("joined" if restore_file != "other.pt" else "other.pt")


def test_a_program_saves_with_its_own_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, epochs = MagicMock(checkpoint_suffix="", data_parallel_rank=1), MagicMock(epoch=2)
    epochs.end_of_epoch.return_value = False
    monkeypatch.setattr("os.path.join", lambda *parts: parts[-1])
    # fairseq reads no other option here.
    kept = {"keep_interval_updates": 0, "keep_last_epochs": 0, "keep_best_checkpoints": 0, "no_last_checkpoints": False}
    cfg = OmegaConf.create({"save_dir": None, "no_save": False, "save_interval_updates": 0, **kept})
    checkpoint_utils.save_checkpoint(cfg, trainer, epochs, None)
    assert trainer.save_checkpoint.call_args.args[0] == "checkpoint_last.pt"


def test_a_missing_restore_file_begins_a_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    missing = str(tmp_path / "no.pt")
    trainer = object.__new__(Trainer)
    trainer.cfg = OmegaConf.create({"checkpoint": {"restore_file": missing}, "ema": {"store_ema": False}})
    trainer.__dict__.update(_criterion=None, _model=None, is_fsdp=False, tpu=False)
    for name in ("data_parallel_world_size", "data_parallel_rank"):
        assert hasattr(Trainer, name)
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setattr(Trainer, "data_parallel_world_size", 1)
        patch.setattr(Trainer, "data_parallel_rank", 0)
        assert trainer.load_checkpoint(missing) is None
    assert f"No existing checkpoint found {missing}" in caplog.text


def test_a_model_may_have_cutoffs_that_its_loss_does_not_read(data: Path) -> None:
    check_training(configuration(data, "--arch=lstm", "--criterion=cross_entropy"))
    values = {"criterion": "cross_entropy", "adaptive_softmax_cutoff": "10000,50000"}
    for arch in ("lstm_luong_wmt_en_de", "lstm_lm", "fconv_lm_dauphin_gbw"):
        assert not list(rule_faults({"arch": arch, **values}, {}))
    for arch in ("transformer", "lightconv", "transformer_lm_baevski_gbw", "dlcl_transformer_tiny"):
        (fault,) = rule_faults({"arch": arch, **values}, {})
        assert fault == ("criterion", "must be adaptive_loss with adaptive-softmax-cutoff, but is cross_entropy")


def test_ensembles_with_another_data_folder(model: tuple[Path, Path], tmp_path: Path) -> None:
    folder, path = model
    other = tmp_path / "elsewhere"
    other.symlink_to(folder)
    found, cfg = checkpoint_utils.load_model_ensemble([str(path), str(path)], arg_overrides={"data": str(other)})
    assert len(found) == 2
    assert cfg.task.data == str(other)
    saved = torch.load(path, weights_only=True)["model"]
    torch.testing.assert_close(
        dict(found[1].state_dict())["encoder.embed_tokens.weight"], saved["encoder.embed_tokens.weight"]
    )


def test_numbers_that_are_not_finite_in_a_model_of_fairseqs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = save_language_model(tmp_path, dictionary())
    state = torch.load(path, weights_only=True)
    state["model"]["decoder.embed_tokens.weight"][0, 0] = float("nan")
    torch.save(state, path)
    assert checkpoint_utils.load_checkpoint_to_cpu(str(path))["cfg"].model._name == "transformer_lm"
    assert "must be finite numbers, but has NaN" in caplog.text


def test_language_models_beside_their_dictionary(tmp_path: Path) -> None:
    path = save_language_model(tmp_path, dictionary())
    found, cfg = checkpoint_utils.load_model_ensemble([str(path)], arg_overrides={"data": "nowhere"})
    assert cfg.task.data == str(tmp_path)
    assert len(found[0].decoder.dictionary) == len(dictionary())


def test_errors_of_the_package_are_of_fairseqs_types(model: tuple[Path, Path], data: Path, tmp_path: Path) -> None:
    folder, path = model
    (tmp_path / "short.pt").write_bytes(path.read_bytes()[:2000])
    (tmp_path / "other.pt").write_text("text", encoding="utf-8")
    torch.save({"model": MagicMock}, tmp_path / "class.pt")
    torch.save([1], tmp_path / "list.pt")
    torch.save({"model": {}}, tmp_path / "bare.pt")
    (tmp_path / "embeddings").write_bytes(b"a 1 2\n\xff 1 2\n")
    broken = data_folder(tmp_path / "broken")
    (broken / "preprocess.json").unlink()
    (broken / "train.de-en.de.bin").write_bytes(b"")
    (broken / "valid.de-en.de.idx").write_bytes(b"other content")
    (broken / "test.de-en.en.idx").unlink()
    # fairseq's own checks of a search come in this order.
    of_a_search = ({"temperature": 0.0, "nbest": 9}, {"sampling_topk": 3, "nbest": 9}, {"beam": "x"}, {"nbest": 9})
    ignored = configuration(data)
    ignored.task.data = str(tmp_path)
    for name in ("valid", "valid1"):
        (tmp_path / f"{name}.bin").touch()
    config = TranslationConfig(data=str(folder), source_lang="de", target_lang="en", dataset_impl="mmap")
    task = TranslationTask.setup_task(config)
    parser = options.get_validation_parser()
    (found,), _ = checkpoint_utils.load_model_ensemble([str(path)], arg_overrides={"data": str(folder)})

    def load(name: str) -> Any:
        return lambda: checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / name))

    def read(subset: str) -> Any:
        config = TranslationConfig(data=str(broken), source_lang="de", target_lang="en", dataset_impl="mmap")
        return lambda: TranslationTask.setup_task(config).load_dataset(subset)

    def config_of(**given: Any) -> DLCLTransformerConfig:
        return DLCLTransformerConfig(**{**SIZE, **given})

    def search(number: int) -> Any:
        return lambda: task.build_generator([found], argparse.Namespace(**{"beam": 5, **of_a_search[number]}))

    for raises, kind, message in (
        (load("no.pt"), FileNotFoundError, "no such checkpoint"),
        (load("short.pt"), RuntimeError, "truncated"),
        (load("list.pt"), TypeError, "must be a fairseq checkpoint, but is"),
        (load("bare.pt"), KeyError, "bare.pt: "),
        (load(""), IsADirectoryError, "is a folder"),
        (lambda: utils.parse_embedding(str(tmp_path / "embeddings")), UnicodeDecodeError, "must be UTF-8"),
        (read("train"), ValueError, "train.de-en.de.bin: must have the"),
        (read("valid"), AssertionError, "valid.de-en.de.idx: must be an index"),
        (read("test"), FileNotFoundError, "test.de-en.en.idx: no such file"),
        (search(0), AssertionError, "--temperature"),
        (search(1), AssertionError, "--nbest must be from 1 to --beam 5"),
        (search(2), TypeError, "--beam must be a whole number"),
        (search(3), ValueError, "--nbest must be from 1 to --beam 5"),
        (load("other.pt"), IndexError, "another file, truncated or damaged"),
        (load("class.pt"), pickle.UnpicklingError, "holds a unittest.mock.MagicMock"),
        (lambda: checkpoint_utils.load_model_ensemble([str(tmp_path / "no.pt")]), OSError, "no such checkpoint"),
        (lambda: data_utils.raise_if_valid_subsets_unintentionally_ignored(ignored), ValueError, "--valid-subset"),
        (lambda: task.load_dataset("nothing"), FileNotFoundError, "the subset must be one of"),
        (
            lambda: TranslationTask.setup_task(TranslationConfig(data="nowhere")),
            FileNotFoundError,
            "nowhere: data must be",
        ),
        (lambda: validate.check(config_of(encoder_attention_heads=3), False), AssertionError, "must be divisible by"),
        (lambda: validate.check(config_of(share_all_embeddings=True), False), ValueError, "needs one dictionary"),
        (lambda: validate.check(config_of(encoder_layers=-1), True), ValueError, "--encoder-layers must be"),
        (lambda: options.parse_args_and_arch(parser, ["DATA"]), KeyError, "--task must be given"),
        (lambda: data_utils.batch_by_size([0], lambda index: 9, max_tokens=3), AssertionError, "--max-tokens must"),
    ):
        with pytest.raises(kind, match=message) as error:
            raises()
        assert isinstance(error.value, UserError), message


def test_command_lines_of_other_programs_keep_their_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["program"])
    monkeypatch.delenv("DEEPNMT_REFERENCE", raising=False)
    parsed = options.parse_args_and_arch(options.get_generation_parser(), ["DATA", "--path=a.pt"])
    assert isinstance(parsed, argparse.Namespace)
    assert "reference_kernels" not in vars(parsed)
    assert FairseqTask.build_generator.__name__ == "build_generator"
