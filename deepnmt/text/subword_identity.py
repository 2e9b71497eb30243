"""The identity of the files that turn text into a model's type numbers: dictionaries, codes and text settings.

A checkpoint keeps their record, plain values that are compared with the files at hand:

    {"dictionaries": {"source": {"types": 2004, "sha256": ...}, "target": {...}},
     "files": {"codes": SHA-256, ...}, "settings": {"lowercase": True, ...}}

A language model has a target alone. `files` and `settings` are missing where a data folder has no preprocess.json.
A language model's data folder has the record of the folder that its text is from in subwords.json.
Settings with default values are left out: records keep their meaning when a setting is added.
"""

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional

from deepnmt.text.dictionary import read_types
from deepnmt.text.pipeline import text_files
from deepnmt.text.record import MODEL_FOLDER, read_record, sha256
from deepnmt.text.settings import RECORD, TextSettings

SOURCE, TARGET = "source", "target"
ORIGIN = "subwords.json"
DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class SubwordIdentity:
    """The identity of a data folder.

    Attributes:
        place: the folder, for messages
        types: types of the dictionaries, by side
        files: checksums of codes, vocabularies and true-casing models by name; None: unknown
        settings: `TextSettings` that change tokens and differ from the defaults; None: unknown
    """

    place: str
    types: Mapping[str, Sequence[str]]
    files: Optional[Mapping[str, str]] = None
    settings: Optional[Mapping[str, Any]] = None

    @classmethod
    def of(cls, types: Mapping[str, Sequence[str]], folder: Path, language: str = "") -> "SubwordIdentity":
        """Return the identity of dictionaries and of the folder that they are from; if given, of one language alone.

        Raises `UserError` if the record of the folder is faulty.
        """
        if (folder / ORIGIN).is_file():
            origin = read_record(folder / ORIGIN, files=dict, settings=dict)
            return cls(str(folder), types, origin["files"], origin["settings"])
        name = next((name for name in (RECORD, MODEL_FOLDER) if (folder / name).is_file()), None)
        if name is None:
            return cls(str(folder), types)
        settings = TextSettings.read(folder, name)
        own = replace(settings, source_lang=language, target_lang=language) if language else settings
        paths = [folder / name for name in text_files(own)]
        files = {path.name: sha256(path) for path in paths if path.is_file()}
        # An exported model knows glossaries only if its checkpoints do, whatever their data.
        return cls(str(folder), types, files, _changed(settings) if name == RECORD else None)

    @classmethod
    def of_folder(cls, folder: Path, languages: tuple[str, str]) -> "SubwordIdentity":
        """Return the identity of a data folder for models from one of its languages to the other.

        Raises `UserError` if a dictionary is missing or faulty, or the record of the folder is.
        """
        sides = zip((SOURCE, TARGET), languages)
        return cls.of({side: read_types(folder / f"dict.{language}.txt") for side, language in sides}, folder)

    @classmethod
    def of_language(cls, folder: Path, language: str) -> "SubwordIdentity":
        """Return the identity of a data folder for language models of one of its languages.

        Raises `UserError` as `of_folder`.
        """
        return cls.of({TARGET: read_types(folder / f"dict.{language}.txt")}, folder, language)

    def record(self) -> dict[str, Any]:
        """Return the record for a checkpoint."""
        found: dict[str, Any] = {
            "dictionaries": {
                side: {"types": len(types), "sha256": checksum(types)} for side, types in self.types.items()
            }
        }
        if self.settings is not None:
            found |= {"files": dict(self.files or {}), "settings": dict(self.settings)}
        return found

    def difference(self, record: Mapping[str, Any]) -> Optional[str]:
        """Return in words the difference of a checkpoint's record; None: no difference, such as appended types."""
        return next(self._differences(record), None)

    def _differences(self, record: Mapping[str, Any]) -> Iterator[str]:
        for side, known in record["dictionaries"].items():
            number = known["types"]
            types = self.types.get(side)
            if types is not None and (len(types) < number or checksum(types[:number]) != known["sha256"]):
                yield f"it was trained with another {side} dictionary"
        for name, digest in record.get("files", {}).items():
            if (self.files or {}).get(name, digest) != digest:
                yield f"it was trained with other {name}"
        if self.settings is not None and "settings" in record:
            then, now = record["settings"], self.settings
            for name in sorted(then.keys() | now.keys()):
                if then.get(name) != now.get(name):
                    yield f"its text was prepared {_with(name, then)}, and that of the folder {_with(name, now)}"


def checksum(types: Sequence[str]) -> str:
    """Return the SHA-256 of the types of a dictionary, the special symbols included, a line each."""
    return hashlib.sha256("".join(f"{each}\n" for each in types).encode("utf-8", "surrogatepass")).hexdigest()


def is_record(value: Any) -> bool:
    """Return whether a value is a record as `SubwordIdentity.record` returns it."""
    return (
        isinstance(value, Mapping)
        and _is_mapping_of(value.get("dictionaries"), _is_dictionary)
        and _is_mapping_of(value.get("files", {}), _is_digest)
        and isinstance(value.get("settings", {}), Mapping)
    )


def _changed(settings: TextSettings) -> dict[str, Any]:
    found = {}
    for each in dataclasses.fields(settings):
        value = getattr(settings, each.name)
        # Languages have no default, and a checkpoint knows them anyway.
        if each.default is not dataclasses.MISSING and value != each.default:
            found[each.name] = list(value) if isinstance(value, tuple) else value
    return found


def _with(name: str, settings: Mapping[str, Any]) -> str:
    if name not in settings:
        return f"without {name}"
    return f"with {name}" if settings[name] is True else f"with {name} {str(settings[name])[:60]}"


def _is_mapping_of(value: Any, is_right: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) and is_right(each) for name, each in value.items())


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None


def _is_dictionary(value: Any) -> bool:
    return isinstance(value, Mapping) and type(value.get("types")) is int and _is_digest(value.get("sha256"))
