"""The models of a server by their languages, and their renewal when a folder was replaced."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepnmt.engines.model_folder import RECORD
from deepnmt.errors import UserError
from deepnmt.text.languages import main_language
from deepnmt.translator.translator import Translator


@dataclass(frozen=True, eq=False)
class Direction:
    """A model that is served.

    Attributes:
        folder: made by deepnmt export
        record: content of its model.json, which holds the checksums of all files
        translator: that loaded it
    """

    folder: Path
    record: bytes
    translator: Translator

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        settings = self.translator.pipeline.settings
        return settings.source_lang, settings.target_lang

    @property
    def name(self) -> str:
        """Such as de-en."""
        return "-".join(self.languages)


class Directions:
    """All models of a server.

    Args:
        folders: made by deepnmt export, one for each pair of languages
        threads: of each engine; None: no limit

    Raises:
        UserError: a folder cannot be loaded, or two have the same languages
    """

    def __init__(self, folders: Sequence[Path], threads: int | None = None) -> None:
        self._folders, self._threads = folders, threads
        self._all: dict[tuple[str, str], Direction] = {}
        self._loading = threading.Lock()
        self.reload()

    def reload(self) -> list[str]:
        """Load the folders that were replaced since they were loaded, and return their paths.

        All requests from now on use the new models. Raises `UserError` as above; the models then stay as they are.
        A second call waits for the first, whose older models would replace its own otherwise.
        """
        with self._loading:
            return self._reload()

    def _reload(self) -> list[str]:
        known = {direction.folder: direction for direction in self._all.values()}
        found: dict[tuple[str, str], Direction] = {}
        renewed = []
        for folder in self._folders:
            record = _record(folder)
            direction = known.get(folder)
            if direction is None or direction.record != record:
                direction = Direction(folder, record, Translator(folder, self._threads))
                renewed.append(str(folder))
            other = found.setdefault(direction.languages, direction)
            if other is not direction:
                raise UserError(f"{folder}: cannot be combined with {other.folder}: both translate {direction.name}")
        # One assignment, since another thread reads it.
        self._all = found
        return renewed

    @property
    def all(self) -> Collection[Direction]:
        """In the order of the folders."""
        return self._all.values()

    @property
    def sources(self) -> list[str]:
        """Languages that can be translated, in the order of the folders."""
        return list(dict.fromkeys(source for source, _ in self._all))

    def targets(self, source: str) -> list[str]:
        """Return the languages into which one can be translated."""
        return [target for other, target in self._all if other == source]

    def find(self, source: str, target: str) -> Direction | None:
        """Return the model for two languages; de-AT finds the model of de, unless there is one of its own."""
        tables = self._all
        names = ((source, target), (main_language(source), main_language(target)))
        return next((tables[name] for name in names if name in tables), None)


def _record(folder: Path) -> bytes:
    file = folder / RECORD
    # The translator names the fault of a missing one.
    return file.read_bytes() if file.is_file() else b""
