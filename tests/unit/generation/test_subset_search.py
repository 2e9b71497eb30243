"""The search of a subset: checkpoints that fit, the translations that it finds, and what its failures say."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
import torch
from support.data_folders import data_folder

from deepnmt.errors import UserError
from deepnmt.generation.subset_search import SearchFailed, check_checkpoints, search


def checkpoint(path: Path, source: str = "de", target: str = "en", **state: object) -> Path:
    task = {"_name": "translation", "source_lang": source, "target_lang": target}
    types = len((path.parent / "data" / "dict.de.txt").read_text().splitlines()) + 4
    model = {f"{side}.embed_tokens.weight": torch.ones(types, 2) for side in ("encoder", "decoder")}
    torch.save(
        {
            "model": model,
            "cfg": {"task": task, "model": {"_name": "transformer"}},
            "extra_state": {},
            "optimizer_history": [{}],
            **state,
        },
        path,
    )
    return path


def test_what_pairs_were_chosen_by_is_kept_once(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    paths = [
        checkpoint(tmp_path / f"{number}.pt", task_state={"selected_on": {"file": name}} if name else {})
        for number, name in enumerate(["news", "", "talks", "news"])
    ]
    assert check_checkpoints(paths, data, False) == [{"file": "news"}, {"file": "talks"}]
    both = checkpoint(tmp_path / "both.pt", task_state={"selected_on": [{"file": "talks"}, {"file": "web"}]})
    assert check_checkpoints([paths[0], both], data, False) == [{"file": "news"}, {"file": "talks"}, {"file": "web"}]


def test_what_the_pairs_of_a_datastore_were_chosen_by_is_kept(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    path = checkpoint(tmp_path / "a.pt", task_state={"selected_on": {"file": "news"}})
    store = tmp_path / "store"
    store.mkdir()
    (store / "datastore.json").write_text('{"selected_on": {"file": "talks"}}')
    assert check_checkpoints([path], data, False, [store]) == [{"file": "news"}, {"file": "talks"}]
    # What is no datastore is the search's to refuse.
    assert check_checkpoints([path], data, False, [tmp_path / "none"]) == [{"file": "news"}]


def test_each_checkpoint_of_an_ensemble_is_checked(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    good, other = checkpoint(tmp_path / "good.pt"), checkpoint(tmp_path / "other.pt", "en", "de")
    with pytest.raises(UserError, match=r"other\.pt: must translate de to en, but translates en to de; --reverse tr"):
        check_checkpoints([good, other], data, False)
    with pytest.raises(UserError, match=r"good\.pt: must translate en to de, but translates de to en$"):
        check_checkpoints([good], data, True)
    with pytest.raises(UserError, match=r"absent\.pt: no such checkpoint"):
        check_checkpoints([good, tmp_path / "absent.pt"], data, False)


@pytest.mark.parametrize("device", ["--cpu", "--fp16"])
def test_command_line_of_fairseq(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: device == "--fp16")
    expected = f"+ fairseq-generate data --path x.pt {device} --no-such"
    before = sys.argv, list(logging.getLogger().handlers), sys.stdout
    with pytest.raises(SearchFailed, match=r"^fairseq-generate: error: .*--no-such$"):
        search(["data", "--path", "x.pt", "--no-such"], tmp_path / "log", 3)
    assert (tmp_path / "log").read_text().splitlines()[0] == expected
    # It is also shown.
    assert capsys.readouterr().err == f"{expected}\n"
    assert (sys.argv, list(logging.getLogger().handlers), sys.stdout) == before


def test_a_list_of_choices_is_shown_if_it_is_short(tmp_path: Path) -> None:
    with pytest.raises(SearchFailed, match=r"--task: invalid choice: 'x' \(see fairseq-generate --help\)$"):
        search(["data", "--path", "x.pt", "--task", "x"], tmp_path / "log", 3)
    with pytest.raises(SearchFailed, match=r"--log-format: invalid choice: 'x' \(choose from .*'json'.*\)$"):
        search(["data", "--path", "x.pt", "--log-format", "x"], tmp_path / "log", 3)


def test_faults_of_options_are_in_the_log(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    words = [str(data), "--path", str(tmp_path / "none.pt"), "--task", "deep_translation", "--beam", "3"]
    with pytest.raises(SearchFailed, match=r"none\.pt: no such checkpoint$"):
        search(words, tmp_path / "log", 3)
    assert (tmp_path / "log").read_text().splitlines()[-1] == f"deepnmt: error: {tmp_path}/none.pt: no such checkpoint"
