"""The task beside its search: several training sets (fairseq issue 3644)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.data_folders import SENTENCES, data_folder

from deepnmt.errors import UserError
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask


def task(data: Path, **options: int) -> DeepTranslationTask:
    config = DeepTranslationConfig(data=str(data), source_lang="de", target_lang="en", dataset_impl="mmap", **options)
    return DeepTranslationTask.setup_task(config)


@pytest.mark.parametrize(("options", "copies"), [({}, 1), ({"upsample_primary": 1}, 1), ({"upsample_primary": 3}, 3)])
def test_training_sets_are_joined_once_each_by_default(tmp_path: Path, options: dict[str, int], copies: int) -> None:
    data = data_folder(tmp_path / "data")
    for path in data.glob("train.*"):
        shutil.copy(path, data / path.name.replace("train", "train1"))
    made = task(data, **options)
    made.load_dataset("train", combine=True)
    dataset = made.dataset("train")
    assert len(dataset) == (copies + 1) * len(SENTENCES)
    assert [dataset[number]["source"].tolist() for number in range(len(dataset))] == [*SENTENCES] * (copies + 1)


@pytest.mark.parametrize("copies", [0, -2])
def test_copies_below_one_are_refused(tmp_path: Path, copies: int) -> None:
    with pytest.raises(UserError, match=f"--upsample-primary must be at least 1, but is {copies}"):
        task(data_folder(tmp_path / "data"), upsample_primary=copies)
