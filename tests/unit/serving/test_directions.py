"""Several models of one server, and folders that were replaced."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepnmt.errors import UserError
from deepnmt.serving import directions, server
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


def test_the_last_of_two_reloads_wins(opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = Directions([folder(tmp_path / "a", "de-en 1")])
    load, begun, goes_on = directions.Translator, threading.Event(), threading.Event()

    def slowly(path: Path, threads: int | None) -> Any:
        found = load(path, threads)
        if found.record == "de-en 2":  # type: ignore[attr-defined]
            begun.set()
            assert goes_on.wait(60)
        return found

    monkeypatch.setattr(directions, "Translator", slowly)
    with ThreadPoolExecutor() as pool:
        folder(tmp_path / "a", "de-en 2")
        first = pool.submit(models.reload)
        assert begun.wait(60)
        folder(tmp_path / "a", "de-en 3")
        second = pool.submit(models.reload)
        # Without an order, the second would end now, and the first would undo it.
        wait([second], timeout=0.1)
        goes_on.set()
        assert first.result() == second.result() == [str(tmp_path / "a")]
    now: Any = models.find("de", "en")
    assert now.translator.record == "de-en 3"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("a: broken", "b: broken"), "a: broken\nmodels are not loaded again: b: broken"),
        (FileNotFoundError(2, "No such file", "a/model.json"), "a/model.json: No such file"),
        (
            ModuleNotFoundError("no onnxruntime", name="starlette"),
            "starlette is not installed: pip install 'deepnmt[serve]'",
        ),
        (RuntimeError("secret"), r"RuntimeError at test_directions\.py:\d+"),
    ],
)
def test_no_fault_of_a_reload_is_silent(error: Exception, line: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise error

    endpoints: Any = SimpleNamespace(directions=SimpleNamespace(reload=fail))
    with caplog.at_level(logging.INFO):
        asyncio.run(server._reload(endpoints))
    said = "\n".join(record.getMessage() for record in caplog.records if record.name == server.__name__)
    assert re.fullmatch(f"models are not loaded again: {line if 'secret' in str(error) else re.escape(line)}", said)


def test_two_models_of_one_direction(opened: list[str], tmp_path: Path) -> None:
    folders = [folder(tmp_path / "a", "de-en 1"), folder(tmp_path / "b", "de-en 2")]
    with pytest.raises(UserError, match=rf"^{folders[1]}: cannot be combined with {folders[0]}: both translate de-en$"):
        Directions(folders)
    with pytest.raises(UserError, match=r"both translate de-en$"):
        Directions([folders[0], folders[0], folders[1]])


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none: no folder made by deepnmt export was found$"):
        Directions([tmp_path / "none"])
