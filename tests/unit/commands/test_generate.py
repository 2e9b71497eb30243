"""What generate.sh runs: checkpoints are checked before fairseq-generate gets its command line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from support.data_folders import data_folder

from deepnmt.commands import generate
from deepnmt.errors import UserError

OTHERS = ["--user-dir", "deepnmt", "--task", "deep_translation", "--gen-subset", "valid", "--cpu", "--beam=3"]


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


def given(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str, *options: str) -> list[str]:
    """The command line that fairseq-generate gets."""
    words = [str(folder / "data"), "--path", path, "--selected-on", str(folder / "selected-on"), *options, *OTHERS]
    monkeypatch.setattr(sys, "argv", ["", *words])
    generate.main()
    return sys.argv


@pytest.mark.parametrize("device", ["--cpu", "--fp16"])
def test_command_line_of_fairseq(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_folder(tmp_path / "data")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: device == "--fp16")
    path = checkpoint(tmp_path / "a.pt")
    expected = ["fairseq-generate", str(data), "--path", f"{path}:{path}", device, *OTHERS]
    assert given(monkeypatch, tmp_path, f"{path}:{path}") == expected
    assert capsys.readouterr().out == f"+ {' '.join(expected)}\n"
    assert not (tmp_path / "selected-on").exists()
    assert given(monkeypatch, tmp_path, str(checkpoint(tmp_path / "b.pt", "en", "de")), "--reverse")[4:] == [
        device,
        *OTHERS,
    ]


def test_what_pairs_were_chosen_by_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_folder(tmp_path / "data")
    paths = [
        checkpoint(tmp_path / f"{number}.pt", task_state={"selected_on": {"file": name}} if name else {})
        for number, name in enumerate(["news", "", "talks", "news"])
    ]
    given(monkeypatch, tmp_path, ":".join(map(str, paths)))
    assert (tmp_path / "selected-on").read_text() == '[{"file": "news"}, {"file": "talks"}]'
    both = checkpoint(tmp_path / "both.pt", task_state={"selected_on": [{"file": "talks"}, {"file": "web"}]})
    given(monkeypatch, tmp_path, f"{paths[0]}:{both}")
    assert (tmp_path / "selected-on").read_text() == '[{"file": "news"}, {"file": "talks"}, {"file": "web"}]'


def test_what_the_pairs_of_a_datastore_were_chosen_by_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_folder(tmp_path / "data")
    path = checkpoint(tmp_path / "a.pt", task_state={"selected_on": {"file": "news"}})
    store = tmp_path / "store"
    store.mkdir()
    (store / "datastore.json").write_text('{"selected_on": {"file": "talks"}}')
    command = given(monkeypatch, tmp_path, str(path), f"--datastore={store}")
    assert command[command.index("--datastore") + 1] == str(store)
    assert (tmp_path / "selected-on").read_text() == '[{"file": "news"}, {"file": "talks"}]'
    # What is no datastore is the search's to refuse.
    given(monkeypatch, tmp_path, str(path), "--datastore", str(tmp_path / "none"))
    assert (tmp_path / "selected-on").read_text() == '[{"file": "news"}]'


def test_each_checkpoint_of_an_ensemble_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_folder(tmp_path / "data")
    good, other = checkpoint(tmp_path / "good.pt"), checkpoint(tmp_path / "other.pt", "en", "de")
    with pytest.raises(UserError, match=r"other\.pt: must translate de to en, but translates en to de; --reverse tr"):
        given(monkeypatch, tmp_path, f"{good}:{other}")
    with pytest.raises(UserError, match=r"good\.pt: must translate en to de, but translates de to en$"):
        given(monkeypatch, tmp_path, str(good), "--reverse")
    with pytest.raises(UserError, match=r"absent\.pt: no such checkpoint"):
        given(monkeypatch, tmp_path, f"{good}:{tmp_path / 'absent.pt'}")
    assert sys.argv[0] == ""
