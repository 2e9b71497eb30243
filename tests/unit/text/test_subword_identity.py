"""The record of dictionaries, codes and text settings, against files that differ in one of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support.data_folders import TYPES, change_record, data_folder

from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_same_types
from deepnmt.text.subword_identity import SubwordIdentity, is_record

LANGUAGES = ("de", "en")
# sha256sum of what data_folder writes, the special symbols before it: <s>, <pad>, </s>, <unk>, w0 ... w7, a line each.
WORDS = hashlib.sha256(("<s>\n<pad>\n</s>\n<unk>\n" + "".join(f"w{n}\n" for n in range(8))).encode()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = data_folder(tmp_path / "data")
    (data / "codes").write_text("#version: 0.2\na b\n")
    return data


def test_record(folder: Path) -> None:
    record = SubwordIdentity.of_folder(folder, LANGUAGES).record()
    assert record == {
        "dictionaries": {side: {"types": TYPES, "sha256": WORDS} for side in ("source", "target")},
        "files": {"codes": hashlib.sha256(b"#version: 0.2\na b\n").hexdigest()},
        "settings": {"lowercase": True, "reversible": False},
    }
    assert is_record(record)
    for part, value in (
        ("dictionaries", {"source": {"types": "12", "sha256": WORDS}}),
        ("dictionaries", {"source": {"types": 12, "sha256": "0"}}),
        ("files", {"codes": 5}),
        ("settings", []),
    ):
        assert not is_record({**record, part: value})


def rename_a_type(folder: Path) -> None:
    path = folder / "dict.en.txt"
    path.write_text(path.read_text().replace("w3 1", "w9 1"))


def drop_a_type(folder: Path) -> None:
    path = folder / "dict.de.txt"
    path.write_text(path.read_text().removesuffix("w7 1\n"))


def swap_types(folder: Path) -> None:
    path = folder / "dict.de.txt"
    path.write_text(path.read_text().replace("w3 1\nw4 1\n", "w4 1\nw3 1\n"))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (rename_a_type, "it was trained with another target dictionary"),
        (drop_a_type, "it was trained with another source dictionary"),
        (swap_types, "it was trained with another source dictionary"),
        (lambda folder: (folder / "codes").write_text("#version: 0.2\nb a\n"), "it was trained with other codes"),
        (
            lambda folder: change_record(folder, lowercase=False),
            "its text was prepared with lowercase, and that of the folder without lowercase",
        ),
        (
            lambda folder: change_record(folder, normalise="nfkc"),
            "its text was prepared without normalise, and that of the folder with normalise nfkc",
        ),
        (
            lambda folder: change_record(folder, protect=["x+"]),
            "its text was prepared without protect, and that of the folder with protect ['x+']",
        ),
    ],
)
def test_a_difference(folder: Path, change: object, difference: str) -> None:
    record = SubwordIdentity.of_folder(folder, LANGUAGES).record()
    change(folder)  # type: ignore[operator]
    assert SubwordIdentity.of_folder(folder, LANGUAGES).difference(record) == difference


def test_no_difference(folder: Path) -> None:
    record = SubwordIdentity.of_folder(folder, LANGUAGES).record()
    with (folder / "dict.de.txt").open("a") as file:
        file.write("<appended> 0\n")
    # Counts are not what a model knows, and other text in the same subwords is what fine-tuning is for.
    path = folder / "dict.en.txt"
    path.write_text(path.read_text().replace(" 1\n", " 2\n"))
    change_record(folder, files={}, train=["other.de", "other.en"])
    assert SubwordIdentity.of_folder(folder, LANGUAGES).difference(record) is None
    # The other direction has its sides exchanged, which differ here by the type that was appended.
    both = {"source": record["dictionaries"]["target"], "target": record["dictionaries"]["source"]}
    assert SubwordIdentity.of_folder(folder, ("en", "de")).difference({**record, "dictionaries": both}) is None
    # Without a record of the text, dictionaries alone are compared.
    (folder / "preprocess.json").unlink()
    plain = SubwordIdentity.of_folder(folder, LANGUAGES)
    assert plain.difference(record) is None
    assert plain.record().keys() == {"dictionaries"}


def test_several_folders_have_one_dictionary(tmp_path: Path) -> None:
    first, second = data_folder(tmp_path / "first"), data_folder(tmp_path / "second")
    copy = tmp_path / "copy"
    copy.mkdir()
    check_same_types([first, copy, second], LANGUAGES)
    swap_types(second)
    message = r"second/dict\.de\.txt: must be a dictionary like .*first/dict\.de\.txt, where type 7 is 'w3', but is of"
    with pytest.raises(UserError, match=message):
        check_same_types([first, copy, second], LANGUAGES)
