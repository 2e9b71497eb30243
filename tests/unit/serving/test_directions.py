"""Several models of one server, and folders that were replaced."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepnmt.errors import UserError
from deepnmt.serving import directions
from deepnmt.serving.directions import Directions


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders opened so far; a record is the name of a direction."""
    found: list[str] = []

    def translator(folder: Path, threads: int | None) -> Any:
        found.append(folder.name)
        record = (folder / "model.json").read_text()
        if record == "broken":
            raise UserError(f"{folder}: broken")
        source, target = record.split()[0].split("-")
        settings = SimpleNamespace(source_lang=source, target_lang=target)
        return SimpleNamespace(pipeline=SimpleNamespace(settings=settings), record=record, threads=threads)

    monkeypatch.setattr(directions, "Translator", translator)
    return found


def folder(place: Path, record: str) -> Path:
    place.mkdir(exist_ok=True)
    (place / "model.json").write_text(record)
    return place


def test_replaced_folders_are_loaded_again(opened: list[str], tmp_path: Path) -> None:
    folders = [folder(tmp_path / "a", "de-en 1"), folder(tmp_path / "b", "en-de 1")]
    models = Directions(folders, 3)
    assert opened == ["a", "b"]
    assert [direction.name for direction in models.all] == ["de-en", "en-de"]
    old = models.find("de", "en")
    other: Any = models.find("en-GB", "de")
    assert (other.translator.threads, models.find("de", "fr")) == (3, None)
    assert models.reload() == []
    folder(folders[0], "de-en 2")
    assert models.reload() == [str(folders[0])]
    assert opened == ["a", "b", "a"]
    new: Any = models.find("de", "en")
    assert (new.translator.record, new is old) == ("de-en 2", False)
    assert models.find("en", "de") is other
    # The languages may change too.
    folder(folders[0], "fr-en 1")
    assert models.reload() == [str(folders[0])]
    assert (models.sources, models.targets("fr"), models.find("de", "en")) == (["fr", "en"], ["en"], None)


@pytest.mark.parametrize(("record", "message"), [("broken", "a: broken$"), ("en-de 2", "both translate en-de$")])
def test_a_faulty_folder_changes_nothing(record: str, message: str, opened: list[str], tmp_path: Path) -> None:
    folders = [folder(tmp_path / "a", "de-en 1"), folder(tmp_path / "b", "en-de 1")]
    models = Directions(folders)
    before = list(models.all)
    folder(folders[0], record)
    with pytest.raises(UserError, match=message):
        models.reload()
    assert list(models.all) == before
    folder(folders[0], "de-en 3")
    assert models.reload() == [str(folders[0])]


def test_two_models_of_one_direction(opened: list[str], tmp_path: Path) -> None:
    folders = [folder(tmp_path / "a", "de-en 1"), folder(tmp_path / "b", "de-en 2")]
    with pytest.raises(UserError, match=rf"^{folders[1]}: cannot be combined with {folders[0]}: both translate de-en$"):
        Directions(folders)
    with pytest.raises(UserError, match=r"both translate de-en$"):
        Directions([folders[0], folders[0], folders[1]])


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none: no folder made by deepnmt export was found$"):
        Directions([tmp_path / "none"])
