"""The task beside its search: several training sets (fairseq issue 3644)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.data_folders import SENTENCES, data_folder

from deepnmt.errors import UserError
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask


def task(data: Path | str, **options: int) -> DeepTranslationTask:
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


def test_checkpoints_name_all_texts_that_the_pairs_of_several_folders_were_selected_on(tmp_path: Path) -> None:
    news, talks = {"file": "news"}, {"file": "talks"}
    folders = []
    for name, said in (("plain", None), ("one", news), ("two", [talks, news])):
        folders.append(data_folder(tmp_path / name))
        record = json.loads((tmp_path / name / "preprocess.json").read_text())
        record |= {"selected_on": said} if said else {}
        (tmp_path / name / "preprocess.json").write_text(json.dumps(record))
    for number, expected in ((1, None), (2, news), (3, [news, talks])):
        made = task(":".join(map(str, folders[:number])))
        made.load_dataset("train", epoch=number, combine=True)
        assert made.state_dict().get("selected_on") == expected


@pytest.mark.parametrize("copies", [0, -2])
def test_copies_below_one_are_refused(tmp_path: Path, copies: int) -> None:
    with pytest.raises(UserError, match=f"--upsample-primary must be at least 1, but is {copies}"):
        task(data_folder(tmp_path / "data"), upsample_primary=copies)
