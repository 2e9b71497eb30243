"""Read and write the JSON records that commands leave in their folders: preprocess.json and generate.json."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deepnmt.console import write_whole
from deepnmt.errors import UserError
from deepnmt.text.lines import open_file, whole_text

MAKERS = {"preprocess.json": "deepnmt preprocess", "generate.json": "deepnmt generate", "model.json": "deepnmt export"}
# In a data folder's record, a checkpoint's `task_state`, and the record of translations: the text that
# `deepnmt select` has chosen the training pairs to be like, or a list of several.
SELECTED_ON = "selected_on"
# In a flat record: prefixes of the keys for an input's checksum, and for the contents that a path leads to.
INPUT, CONTENTS = "input: ", "content"
NOTHING: tuple[object, ...] = (None, [])
# The records of a folder of deepnmt datastore, and of one of deepnmt export.
DATASTORE, MODEL_FOLDER = "datastore.json", "model.json"
# The shortlists in a folder of deepnmt export.
SHORTLIST = "shortlist.npz"
KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def read_record(path: Path, **keys: type) -> dict[str, Any]:
    """Return the record in a file; `keys` are the names that it must have, and the types of their values.

    Raises `UserError` if there is no such file, it is no JSON object, or a key is missing or of another type.
    """
    try:
        record = json.loads(whole_text(path))
    except (FileNotFoundError, NotADirectoryError):
        maker = MAKERS.get(path.name, "deepnmt")
        raise UserError(f"{path}: no such file; is {path.parent} a folder made by {maker}?") from None
    except RecursionError:
        raise UserError(f"{path} must be a JSON object, but is nested without end") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not isinstance(record, dict):
        raise UserError(f"{path} must be a JSON object, but is a {type(record).__name__}")
    check_kinds(path, record, keys)
    return record


def check_kinds(path: Path, record: dict[str, Any], keys: Mapping[str, type], within: str = "") -> None:
    """Raise `UserError` if a key is missing in a record read from `path`, or its value is of another type.

    `within` precedes the keys of a record that is part of another one.
    """
    for key, kind in keys.items():
        if key not in record:
            raise UserError(f"{path}: must have the key '{within}{key}', but does not")
        value = record[key]
        # JSON may write a float without its point; a bool is an int to Python.
        right = isinstance(value, (int, float) if kind is float else kind)
        if not right or (kind in (int, float) and isinstance(value, bool)):
            raise UserError(f"{path}: '{within}{key}' must be {KINDS[kind]}, but is {json.dumps(value)[:60]}")


def read_scores(path: Path) -> dict[str, dict[str, Any]]:
    """Return the scores in a file of deepnmt score. Raises `UserError` if no score is found, or one is faulty."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    scores = read_record(path)
    if not scores:
        raise UserError(f"{path}: no scores found")
    check_kinds(path, scores, dict.fromkeys(scores, dict))
    for name, entry in scores.items():
        check_kinds(path, entry, {"score": float, "signature": str}, f"{name}.")
    return scores


def selection_texts(records: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return all texts that the pairs of some records were chosen to be like, each once."""
    texts: list[Any] = []
    for said in (record.get(SELECTED_ON) for record in records):
        for text in said if isinstance(said, list) else [said]:
            if text is not None and text not in texts:
                texts.append(text)
    return texts


def selected_on(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a record's entry on the selection of its pairs, which come from other records' pairs; perhaps empty.

    One text is unchanged, which earlier versions read; several are a list.
    """
    texts = selection_texts(records)
    return {SELECTED_ON: texts if len(texts) > 1 else texts[0]} if texts else {}


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record whole, one key a line."""
    write_whole(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def difference(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    late: tuple[str, ...] = (CONTENTS,),
    called: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return in words the first difference in the inputs and settings of two flat records; empty if they are equal.

    Earlier versions did not record keys with the prefixes in `late`. `called` names keys with values that mean nothing
    to a reader.
    """
    before, after = ({_named(key): value for key, value in each.items()} for each in (before, after))
    for key in sorted(before.keys() | after.keys(), key=lambda key: (key.startswith(INPUT), key)):
        old, new = (_shown(each.get(key)) for each in (before, after))
        if before.get(key) == after.get(key) or (key not in before and key.startswith(late)):
            continue
        if key.startswith((INPUT, CONTENTS)):
            return f"with {'another' if key.startswith(INPUT) else 'other'} {key}"
        if before.get(key) in NOTHING:
            return f"without {key} {'' if key in called else new}".rstrip()
        if after.get(key) in NOTHING:
            return f"with {key} {'' if key in called else old}".rstrip() + ", not without"
        return f"with {called[key]}" if key in called else f"with {key} {old}, not {new}"
    return ""


def _named(key: str) -> str:
    return key.replace("_", "-") if key.isidentifier() else key


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def size_and_time(path: Path) -> str:
    """Return the facts that tell a large file from a later one of the same name: its size and its time."""
    file = path.stat()
    return f"{file.st_size} bytes of {datetime.fromtimestamp(file.st_mtime, UTC)}"


def sha256(path: Path) -> str:
    """Return the checksum of a file, as sha256sum prints it."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
