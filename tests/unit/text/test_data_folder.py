"""Faulty data folders are one line each, and what passes is what fairseq reads."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.tasks.translation import load_langpair_dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.data_folders import LANGUAGES, SENTENCES, TYPES, data_folder, write_side

from deepnmt.errors import UserError
from deepnmt.text import check_data_folder, language_model_data, languages_of
from deepnmt.text.data_folder import check_texts, check_training_data, subsets_of
from deepnmt.text.index_file import OTHER_MAGICS
from deepnmt.text.like_folder import held_out_lines
from deepnmt.text.training_data import check_named_data

SUBSETS = ("train", "valid", "test")


def change(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda data: (data / name).write_bytes(content)


def append(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda data: (data / name).write_bytes((data / name).read_bytes() + content)


def cut(name: str, end: int) -> Callable[[Path], object]:
    return lambda data: (data / name).write_bytes((data / name).read_bytes()[:end])


def remove(name: str) -> Callable[[Path], object]:
    return lambda data: (data / name).unlink()


def folder_instead(name: str) -> Callable[[Path], object]:
    def apply(data: Path) -> None:
        (data / name).unlink()
        (data / name).mkdir()

    return apply


def raw_text(data: Path) -> None:
    for language in LANGUAGES:
        for end in ("idx", "bin"):
            (data / f"train.de-en.{language}.{end}").unlink()
        (data / f"train.de-en.{language}").write_text("ein Hund\n")


def record(**changed: object) -> Callable[[Path], object]:
    """Change keys of the record; None takes one away."""

    def apply(data: Path) -> None:
        path = data / "preprocess.json"
        merged = {**json.loads(path.read_text()), **changed}
        path.write_text(json.dumps({key: value for key, value in merged.items() if value is not None}))

    return apply


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "dictionary missing": (remove("dict.en.txt"), r"dict\.en\.txt: no such dictionary"),
    "dictionary a folder": (folder_instead("dict.en.txt"), r"dict\.en\.txt: must be a file, but is a folder or pipe"),
    "dictionary empty": (change("dict.de.txt", b""), r"dict\.de\.txt: must have types, but is empty"),
    "no UTF-8": (append("dict.de.txt", b"\xff 1\n"), r"dict\.de\.txt:9: invalid UTF-8 \(byte 0xff"),
    "type twice": (
        append("dict.de.txt", b"w3 5\n"),
        r"dict\.de\.txt:9: must be a type that has no line yet, but 'w3' has line 4",
    ),
    "fairseq's own": (append("dict.de.txt", b"<pad> 1\n"), r"dict\.de\.txt:9: .*, but '<pad>' is fairseq's own"),
    "no count": (append("dict.de.txt", b"new\n"), r"dict\.de\.txt:9: must be a type and its count, but is 'new'"),
    "count is a word": (append("dict.de.txt", b"new one\n"), r"dict\.de\.txt:9: must be a type and its count, but is"),
    "dictionary short": (
        cut("dict.en.txt", 15),
        r"train\.de-en\.en\.bin: token numbers must be below the 7 types of .*dict\.en\.txt, but sentence 2 has 7",
    ),
    "index missing": (remove("train.de-en.de.idx"), r"train\.de-en\.de\.idx: no such file"),
    "data missing": (remove("train.de-en.en.bin"), r"train\.de-en\.en\.bin: no such file"),
    "index cut": (cut("valid.de-en.de.idx", -1), r"valid\.de-en\.de\.idx: must have 62 bytes for its 3 .* has 61"),
    "header cut": (cut("valid.de-en.de.idx", 20), r"valid\.de-en\.de\.idx is truncated: it ends within its header"),
    "index empty": (change("valid.de-en.de.idx", b""), r"valid\.de-en\.de\.idx: must be an index of fairseq-pre"),
    "other index": (change("valid.de-en.de.idx", b"PK\x03\x04" * 9), r"de\.idx: must be an index of .* other content"),
    "other version": (
        change("valid.de-en.de.idx", b"MMIDIDX\0\0" + bytes([2] + 7 * [0] + [8] + 8 * [0])),
        r"idx: must be version 1 with numbers of type 1, .*, but is version 2 with type 8",
    ),
    "endless index": (
        change("valid.de-en.de.idx", b"MMIDIDX\0\0" + bytes([1] + 7 * [0] + [8] + 8 * [255])),
        r"idx: must have \d+ bytes for its 18446744073709551615 sentences, but has 26",
    ),
    "data cut": (cut("test.de-en.de.bin", -2), r"test\.de-en\.de\.bin: must have the 24 bytes that .*idx says, .* 22"),
    "data empty": (change("test.de-en.de.bin", b""), r"test\.de-en\.de\.bin: must have the 24 bytes .*, but has 0"),
    "other data": (change("test.de-en.de.bin", b"PK" * 12), r"de\.bin: token numbers must be .* sentence 1 has 19280"),
    "no end": (
        change("test.de-en.de.bin", bytes([5, 0] * 12)),
        r"de\.bin: sentences must end with </s> \(number 2\), but sentence 1 ends with 5",
    ),
    "sides differ": (
        lambda data: write_side(data / "test.de-en.en", SENTENCES[:2]),
        r"de\.idx must have as many sentences as .*en\.idx, 2, but has 3",
    ),
    "no sentences": (lambda data: write_side(data / "test.de-en.en", []), r"en\.idx: contains no sentences"),
    "raw text": (raw_text, r"train\.de-en\.de\.idx: no such file; .*train\.de-en\.de is raw text"),
}
FAULTS_OF_RECORDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no source": (record(source_lang=None), r"preprocess\.json: must have the key 'source_lang', but does not"),
    "no settings": (record(lowercase=None), r"preprocess\.json: must have the key 'lowercase', but does not"),
    "a text": (record(lowercase="no"), r"preprocess\.json: 'lowercase' must be true or false, but is \"no\""),
    "a number": (record(target_lang=3), r"preprocess\.json: 'target_lang' must be text, but is 3"),
    "a dot": (record(source_lang="de.x"), r"preprocess\.json: 'source_lang' must be a language such as de, but is"),
    "a path": (record(target_lang="../x"), r"preprocess\.json: 'target_lang' must be a language such as de, but is"),
    "punctuation": (
        record(keep_punctuation=1),
        r"preprocess\.json: 'keep_punctuation' must be true or false, but is 1",
    ),
    "types": (record(types=[1]), r"preprocess\.json: 'types' must be an object, but is \[1\]"),
    "other types": (record(types={"de": 99}), r"dict\.de\.txt: must have the 99 types that .* records, but has 12"),
    "a list": (change("preprocess.json", b"[]"), r"preprocess\.json must be a JSON object, but is a list"),
    "no JSON": (change("preprocess.json", b"{"), r"preprocess\.json cannot be read: Expecting"),
    "deep": (
        change("preprocess.json", b"[" * 200_000),
        r"preprocess\.json must be .*, but is nested without end$",
    ),
    "not UTF-8": (change("preprocess.json", b"\xff"), r"preprocess\.json cannot be read: .*utf-8"),
    "length": (append("text/test.tok.de", b"more"), r"test\.tok\.de: must have the 21 bytes that .*, but has 25"),
    "gone": (remove("text/test.tok.de"), r"test\.tok\.de: must have the 21 bytes .*, but there is no such file"),
}


def error_of(data: Path, subsets: tuple[str, ...] = SUBSETS) -> str:
    with pytest.raises(UserError, match=re.escape(str(data))) as caught:
        check_data_folder(data, subsets)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(tmp_path: Path, fault: str) -> None:
    spoil, message = FAULTS[fault]
    data = data_folder(tmp_path / "data")
    check_data_folder(data, SUBSETS)
    # What fairseq reads is checked by itself; a folder may come from fairseq-preprocess.
    (data / "preprocess.json").unlink()
    check_data_folder(data, SUBSETS)
    spoil(data)
    assert re.search(message, error_of(data))


@pytest.mark.parametrize("fault", FAULTS_OF_RECORDS)
def test_faults_of_records(tmp_path: Path, fault: str) -> None:
    spoil, message = FAULTS_OF_RECORDS[fault]
    data = data_folder(tmp_path / "data")
    spoil(data)
    assert re.search(message, error_of(data))


def test_record_without_what_was_recorded_later(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    record(files=None, types=None)(data)
    check_data_folder(data, SUBSETS)


def test_missing_subsets_and_folders(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data", ["train", "test"])
    assert f"the subset must be one of test, train ({data}), but is valid" in error_of(data, ("train", "valid"))
    (tmp_path / "empty").mkdir()
    assert "must be a data folder, but has no files such as train.de-en.de.idx" in error_of(tmp_path / "empty")
    assert "not found; DATA must be a folder made by deepnmt preprocess" in error_of(tmp_path / "none")
    (data / "preprocess.json").unlink()
    assert languages_of(data) == LANGUAGES


def test_files_may_name_the_languages_in_the_other_order(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    check_data_folder(data, SUBSETS, ("en", "de"))


@pytest.mark.parametrize(("source", "target"), [("zh-CN", "en"), ("zh-CN", "pt-BR"), ("de", "zh-Hant-TW")])
def test_languages_may_have_hyphens(source: str, target: str, tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    names = {"de-en": f"{source}-{target}", ".de": f".{source}", ".en": f".{target}"}
    for path in [path for path in data.rglob("*") if path.is_file() and path.name != "preprocess.json"]:
        name = path.name
        for old, new in names.items():
            name = name.replace(old, new)
        path.rename(path.with_name(name))
    (data / "preprocess.json").unlink()
    assert languages_of(data) == (source, target)
    check_data_folder(data, SUBSETS)
    assert sorted(subsets_of(data)) == sorted(SUBSETS)
    for language in (source, target):
        assert language_model_data.side(data, "valid", language) == data / f"valid.{source}-{target}.{language}"
        # What must not be trained on is found.
        (data / "text" / f"valid.tok.{language}").write_text("a b\nc\nd\n")
        assert {"a b", "c", "d"} <= set(held_out_lines(data, language))


def test_texts_have_a_line_for_each_sentence(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    check_texts(data, "test", ["tok.de", "tok.en"], 3)
    (data / "text" / "test.tok.en").write_bytes("a\u2028b\x0cc\x85d\n".encode())
    with pytest.raises(UserError, match=r"test\.tok\.en must have a line for each of the 3 sentences, but has 1"):
        check_texts(data, "test", ["tok.de", "tok.en"], 3)
    (data / "text" / "test.tok.en").unlink()
    with pytest.raises(UserError, match=r"test\.tok\.en: no such file"):
        check_texts(data, "test", ["tok.en"], 3)


def fault_of(data: Path) -> str | None:
    try:
        check_data_folder(data, ["train"])
    except UserError as error:
        return str(error)
    return None


FILES = [f"dict.{language}.txt" for language in LANGUAGES] + [
    f"train.de-en.{language}.{end}" for language in LANGUAGES for end in ("idx", "bin")
]


@st.composite
def damage(draw: st.DrawFn) -> tuple[str, Callable[[bytes], bytes | None]]:
    """A file, and what becomes of its content; None: the file goes."""
    name = draw(st.sampled_from(FILES))
    start, noise = draw(st.integers(0, 70)), draw(st.binary(max_size=12))
    changes: list[Callable[[bytes], bytes | None]] = [
        lambda old: None,
        lambda old: old[:start],
        lambda old: old[:start] + noise + old[start + len(noise) :],
        lambda old: old[:start] + noise + old[start:],
        lambda old: noise,
        lambda old: old + old,
    ]
    return name, draw(st.sampled_from(changes))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(damage(), min_size=1, max_size=2))
def test_any_damage_is_one_line_or_harmless(
    tmp_path: Path, damages: list[tuple[str, Callable[[bytes], bytes | None]]]
) -> None:
    data = tmp_path / "data"
    if data.exists():
        shutil.rmtree(data)
    data_folder(data, ["train"])
    (data / "preprocess.json").unlink()
    for name, changed in damages:
        path = data / name
        content = changed(path.read_bytes()) if path.exists() else None
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)
    if any(path.read_bytes().startswith(OTHER_MAGICS) for path in data.glob("*.idx")):
        return  # an older format, which is left to fairseq
    if (fault := fault_of(data)) is not None:
        assert str(data) in fault
        assert "\n" not in fault
        return
    dictionaries = [Dictionary.load(str(data / f"dict.{language}.txt")) for language in LANGUAGES]
    pairs = load_langpair_dataset(
        str(data), "train", "de", dictionaries[0], "en", dictionaries[1], False, None, 1, True, False, 99, 99
    )
    for number in range(len(pairs)):
        for side, dictionary in zip(("source", "target"), dictionaries):
            tokens = pairs[number][side]
            assert tokens[-1] == dictionary.eos()
            assert 0 <= tokens.min() <= tokens.max() < len(dictionary)


def test_the_folder_of_these_tests_is_as_fairseq_writes_it(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    dictionary = Dictionary.load(str(data / "dict.de.txt"))
    assert len(dictionary) == TYPES
    pairs = load_langpair_dataset(
        str(data), "train", "de", dictionary, "en", dictionary, False, None, 1, True, False, 9, 9
    )
    assert [pairs[number]["source"].tolist() for number in range(len(pairs))] == SENTENCES_AS_LISTS


SENTENCES_AS_LISTS = [list(sentence) for sentence in SENTENCES]


def test_training_on_several_folders(tmp_path: Path) -> None:
    folders = [data_folder(tmp_path / name) for name in ("a", "b")]
    check_training_data(folders, "train", ["valid", "test"])
    # Only the first one's dictionaries and validation text are used.
    (folders[1] / "dict.de.txt").unlink()
    (folders[1] / "valid.de-en.de.bin").unlink()
    check_training_data(folders, "train", ["valid"])
    write_side(folders[1] / "train.de-en.de", [[4, 2], [5, TYPES, 2], [2]])
    with pytest.raises(UserError, match=r"b/train\.de-en\.de\.bin: .* of .*a/dict\.de\.txt, but sentence 2 has 12"):
        check_training_data(folders, "train", ["valid"])
    with pytest.raises(UserError, match=r"none: not found; DATA must be a folder made by deepnmt preprocess"):
        check_training_data([folders[0], tmp_path / "none"], "train", ["valid"])


def test_data_as_a_training_names_it(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data", ["train", "test"])

    def check(*options: str) -> None:
        check_named_data(str(data), options)

    with pytest.raises(UserError, match=r"the subset must be one of test, train \(.*\), but is valid"):
        check("--arch", "x", "--lr=1")
    check("--lr", "-1", "--valid-subset", "test", "-s", "de", "-t", "en")
    check("--valid-subset", "none", "--dataset-impl", "lazy")
    check("--valid-subset", "none", "--task", "language_modeling")
    with pytest.raises(UserError, match="but is none"):
        check("--valid-subset", "none", "--task", "deep_translation")
    with pytest.raises(UserError, match=r"dict\.fr\.txt: no such dictionary"):
        check("--source-lang=de", "--target-lang", "fr")
