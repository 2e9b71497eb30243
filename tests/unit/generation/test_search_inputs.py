"""By what sweep.sh and bleu_per_depth.sh know files that were replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.data_folders import change_record, data_folder

from deepnmt.generation.search_inputs import contents


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [name for name, value in now.items() if before[name] != value]


@pytest.mark.parametrize(
    ("said", "other"),
    # The size of a log says nothing of the text.
    [({"inputs": {"train.de": "another"}}, ["contents of DATA"]), ({"files": {"preprocess.log": 1}}, [])],
)
def test_data_is_known_by_what_its_record_says(said: dict[str, Any], other: list[str], tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    before = contents(data, [])
    assert list(before) == ["contents of DATA"]
    change_record(data, **said)
    assert changed(before, contents(data, [])) == other


@pytest.mark.parametrize("joined", [True, False])
def test_files_of_options_are_known_by_size_and_time(joined: bool, tmp_path: Path) -> None:
    data, terms = data_folder(tmp_path / "data"), tmp_path / "terms.txt"
    terms.write_text("old")
    options = ["--beam-stop", "first", *([f"--terms={terms}"] if joined else ["--terms", str(terms)])]
    before = contents(data, options)
    assert before.keys() == {"contents of DATA", f"contents of {terms}"}
    assert before[f"contents of {terms}"].startswith("3 bytes of ")
    assert changed(before, contents(data, options)) == []
    terms.write_text("other")
    assert changed(before, contents(data, options)) == [f"contents of {terms}"]


def test_datastores_are_known_by_their_records(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "datastore.json").write_text("{}")
    options = ["--datastore", ":".join(map(str, folders))]
    before = contents(data, options)
    assert list(before) == ["contents of DATA", *(f"contents of {folder}" for folder in folders)]
    (folders[1] / "datastore.json").write_text('{"subset": "train1"}')
    assert changed(before, contents(data, options)) == [f"contents of {folders[1]}"]
