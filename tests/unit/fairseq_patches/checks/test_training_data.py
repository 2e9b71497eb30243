"""Sentences, subsets and languages of a training's data folders are looked at before it begins."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from support.data_folders import data_folder, write_side
from support.fairseq_configurations import configuration

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks import training_checks
from deepnmt.fairseq_patches.checks.training_checks import check_training


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data") / "de-en")


def batches_of(tokens: int, valid: int | None = None) -> dict[str, int]:
    return {"dataset__max_tokens": tokens, "dataset__max_tokens_valid": tokens if valid is None else valid}


def warnings_of(caplog: pytest.LogCaptureFixture, cfg: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, training_checks.logger.name):
        check_training(cfg)
    return [record.getMessage() for record in caplog.records]


def test_training_sentences_that_are_left_out_are_said(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, configuration(data, **batches_of(4, valid=9))) == [
        f"--max-tokens is 4: 1 of the 3 sentences of train in {data} have more, up to 6, and are left out"
    ]
    assert not warnings_of(caplog, configuration(data, **batches_of(6)))
    # Left out in any case
    short = {"model__max_source_positions": 5, "dataset__skip_invalid_size_inputs_valid_test": True}
    assert not warnings_of(caplog, configuration(data, **batches_of(4, 9), **short))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (batches_of(5), "--max-tokens must be at least the tokens of a sentence, but is 5: 1 of the 3 .* of valid"),
        (
            batches_of(9, 5),
            "--max-tokens-valid must be at least the tokens of a sentence, but is 5: 1 of the 3 .* of v",
        ),
        (
            {**batches_of(1), "dataset__disable_validation": True},
            "--max-tokens must be at least .*, but is 1: 3 of the 3 sentences of train in",
        ),
    ],
)
def test_no_batch_for_a_sentence_that_is_needed(changes: dict[str, Any], message: str, data: Path) -> None:
    with pytest.raises(UserError, match=message) as error:
        check_training(configuration(data, **changes))
    assert len(str(error.value).splitlines()) == 1


def test_later_folders_and_formats_that_are_not_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folders = [data_folder(tmp_path / name) for name in ("a", "b")]
    for language in ("de", "en"):
        write_side(folders[1] / f"train.de-en.{language}", [[4, 2], [4, 5, 6, 7, 8, 9, 10, 2]])
    both = f"{folders[0]}:{folders[1]}"
    assert warnings_of(caplog, configuration(both, **batches_of(7))) == [
        f"--max-tokens is 7: 1 of the 2 sentences of train in {folders[1]} have more, up to 8, and are left out"
    ]
    # The longer side counts, whichever it is.
    for short, long in (("de", "en"), ("en", "de")):
        write_side(folders[1] / f"train.de-en.{short}", [[4, 2], [4, 2]])
        write_side(folders[1] / f"train.de-en.{long}", [[4, 2], [4, 5, 6, 7, 8, 9, 10, 2]])
        assert len(warnings_of(caplog, configuration(both, **batches_of(7)))) == 1
    assert not warnings_of(caplog, configuration(both, **batches_of(1), task__dataset_impl="raw"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model__max_source_positions": 5},
            "5 and 1024. 1 of the 3 sentences of valid in .* have more, up to 6; --skip-",
        ),
        (
            {"task__max_target_positions": 3},
            "1024 and 3. 2 of the 3 sentences of valid in .* have more, up to 6; --skip-",
        ),
    ],
    ids=str,
)
def test_validation_sentences_beyond_the_positions(changes: dict[str, Any], message: str, data: Path) -> None:
    line = f"^--max-source-positions and --max-target-positions must be at least .* a sentence, but are {message}"
    for tokens in (100, None):
        cfg = configuration(data, **changes, dataset__max_tokens_valid=tokens)
        with pytest.raises(UserError, match=line):
            check_training(cfg)
        for other in ("skip_invalid_size_inputs_valid_test", "disable_validation"):
            check_training(configuration(data, **changes, **{f"dataset__{other}": True}))


def test_subsets_that_fairseq_joins_are_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = data_folder(tmp_path / "data", ["train", "train1", "valid", "valid1"])
    for subset in ("train1", "valid1"):
        for language in ("de", "en"):
            write_side(folder / f"{subset}.de-en.{language}", [[4, 2], [4, 5, 6, 7, 8, 9, 10, 2]])
    joined = {"dataset__combine_valid_subsets": True}
    with pytest.raises(UserError, match=r"but is 7: 1 of the 5 sentences of valid in .* have more, up to 8$"):
        check_training(configuration(folder, **batches_of(7), **joined))
    alone = {"dataset__ignore_unused_valid_subsets": True}
    assert warnings_of(caplog, configuration(folder, **batches_of(7), **alone)) == [
        f"--max-tokens is 7: 1 of the 5 sentences of train in {folder} have more, up to 8, and are left out"
    ]


def test_validation_sets_that_would_be_ignored(tmp_path: Path) -> None:
    folder = data_folder(tmp_path / "data", ["train", "valid", "valid1"])
    with pytest.raises(UserError, match=r"^--valid-subset must name valid1 too, or --combine-v.*, but is valid$"):
        check_training(configuration(folder))
    check_training(configuration(folder, dataset__ignore_unused_valid_subsets=True))
    check_training(configuration(folder, dataset__valid_subset="valid,valid1"))


# Languages that the folder tells


@pytest.mark.parametrize("task", ["translation", "deep_translation"])
@pytest.mark.parametrize("implementation", [None, "lazy", "mmap"])
def test_languages_of_the_folder_are_options_of_the_training(task: str, implementation: str | None, data: Path) -> None:
    cfg = configuration(data, f"--task={task}", task__dataset_impl=implementation)
    assert cfg.task.source_lang is cfg.task.target_lang is None
    check_training(cfg)
    assert (cfg.task.source_lang, cfg.task.target_lang) == ("de", "en")
    other = configuration(data, f"--task={task}", task__source_lang="en")
    other.task.target_lang = "de"
    check_training(other)
    assert (other.task.source_lang, other.task.target_lang) == ("en", "de")


def test_languages_are_those_of_the_record_where_fairseq_finds_none(tmp_path: Path) -> None:
    folder = data_folder(tmp_path / "data")
    for path in [*folder.iterdir()]:
        if path.is_file():
            name = path.name.replace("de-en.de", "zh-CN-en.zh-CN").replace("de-en.en", "zh-CN-en.en")
            path.rename(folder / name.replace("dict.de", "dict.zh-CN"))
    cfg = TranslationConfig(data=str(folder), train_subset="train", dataset_impl=None, required_seq_len_multiple=1)
    with pytest.raises(UserError, match=r"dict\.de\.txt: no such dictionary"):
        TranslationTask.setup_task(cfg)
    record = folder / "preprocess.json"
    record.write_text(record.read_text().replace('"source_lang": "de"', '"source_lang": "zh-CN"'))
    cfg.source_lang = cfg.target_lang = None
    loaded = TranslationTask.setup_task(cfg)
    loaded.load_dataset("train")
    assert (cfg.source_lang, cfg.target_lang) == ("zh-CN", "en")
    assert len(loaded.dataset("train")) == 3
