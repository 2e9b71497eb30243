"""Faulty data folders, met by fairseq's own task: one line, before anything is built, and only what is needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import pytest
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from support.data_folders import SENTENCES, data_folder, write_side

from deepnmt.errors import UserError


def task_of(*folders: Path | str, **options: Any) -> TranslationTask:
    # What a whole configuration fills in.
    rest = {"train_subset": "train", "dataset_impl": None, "required_seq_len_multiple": 1}
    return TranslationTask.setup_task(TranslationConfig(data=":".join(map(str, folders)), **{**rest, **options}))


def refused(message: str, *folders: Path, split: str = "train", **options: Any) -> None:
    with pytest.raises(UserError, match=message):
        task_of(*folders).load_dataset(split, **options)


def test_whole_folder_is_loaded(tmp_path: Path) -> None:
    task = task_of(data_folder(tmp_path / "data"))
    task.load_dataset("train", combine=True)
    assert len(task.dataset("train")) == len(SENTENCES)
    assert (task.cfg.source_lang, task.cfg.target_lang) == ("de", "en")


def test_folder_and_dictionaries_are_checked_when_the_task_is_set_up(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    with pytest.raises(UserError, match=r"none: data must be a folder made by fairseq-preprocess, but there is none$"):
        task_of(tmp_path / "none")
    with pytest.raises(UserError, match=r"/a: data must be a folder .*, but there is none; a colon separates folders"):
        task_of(tmp_path / "a:b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: contains no files such as train\.de-en\.de\.idx"):
        task_of(tmp_path / "empty")
    (data / "dict.en.txt").write_text("new\n")
    with pytest.raises(UserError, match=r"dict\.en\.txt:1: must be a type and its count, but is 'new'"):
        task_of(data)


def test_a_language_that_the_folder_does_not_have_is_not_ignored(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    assert task_of(data, source_lang="de").cfg.target_lang == "en"
    for side, language in (("source", "de"), ("target", "en")):
        with pytest.raises(UserError, match=rf"^--{side}-lang must be {language}, as in {data}, but is xx$"):
            task_of(data, **{f"{side}_lang": "xx"})


def test_buckets_need_another_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_folder(tmp_path / "data")
    with pytest.raises(UserError, match=r"^--num-batch-buckets must be 0 with numpy 2\..*, in which .* but is 3$"):
        task_of(data, num_batch_buckets=3)
    monkeypatch.setattr(numpy, "__version__", "1.26.4")
    task_of(data, num_batch_buckets=3)


def test_subsets_are_checked_when_they_are_loaded(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data", ["train", "test"])
    refused(rf"the subset must be one of test, train \({data}\), but is valid", data, split="valid")
    write_side(data / "train1.de-en.de", [[4, 99, 2]])
    write_side(data / "train1.de-en.en", [[4, 5, 2]])
    task_of(data).load_dataset("train")
    refused(r"train1\.de-en\.de\.bin: token numbers must be below .* but sentence 1 has 99", data, combine=True)


def test_folders_of_later_epochs_are_checked_at_once(tmp_path: Path) -> None:
    folders = [data_folder(tmp_path / name) for name in ("a", "b")]
    task = task_of(*folders)
    task.load_dataset("train", combine=True)
    (folders[1] / "train.de-en.en.bin").write_bytes(b"")
    refused(r"b/train\.de-en\.en\.bin: must have the 24 bytes", *folders)
    # Validation text is the first folder's.
    (folders[1] / "valid.de-en.en.bin").unlink()
    task_of(*folders).load_dataset("valid")


def test_only_translating_can_do_without_a_reference(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    for end in ("idx", "bin"):
        (data / f"test.de-en.en.{end}").unlink()
    refused(r"test\.de-en\.en\.idx: no such file", data, split="test")
    task = task_of(data)
    task.load_dataset("test", task_cfg=task.cfg)
    assert task.dataset("test").tgt is None
    (data / "test.de-en.en.idx").write_bytes(b"")
    refused(re.escape(str(data)), data, split="test", task_cfg=task.cfg)


def test_other_formats_and_places_are_left_to_fairseq(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    (data / "train.de-en.de.bin").write_bytes(b"")
    with pytest.raises(Exception, match=r"^(?!.*must have the)"):
        task_of(data, dataset_impl="lazy").load_dataset("train")
    with pytest.raises(FileNotFoundError, match=r"dict\.de\.txt"):
        task_of("s3://bucket/data", source_lang="de", target_lang="en")
