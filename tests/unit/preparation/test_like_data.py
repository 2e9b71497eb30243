"""More text for an existing data folder: `deepnmt binarise` (that it is fairseq's: test_preprocess.py)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from support.flow import Result, contents, errors, in_process
from support.substitution import sentences, substituted, substitution_data, write_lines

from deepnmt.errors import UserError
from deepnmt.text.like_folder import check_like

LINES = sentences(20, seed=7)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return substitution_data(tmp_path_factory.mktemp("like") / "data")


def binarise(data: Path, dest: Path, *options: object) -> Result:
    return in_process("binarise", "--like", data, "--dest", dest, "--workers", 1, *options)


def test_monolingual_text_without_held_out_lines(data: Path, tmp_path: Path) -> None:
    held = (data / "text" / "valid.tok.en").read_text("utf-8").splitlines()
    write_lines(tmp_path / "news.en", [*LINES, held[0], "", "a ZOO", held[3]])
    options = ("--mono", tmp_path / "news", "--lang", "en", "--drop-overlap", "--symbols", "<BT>", "--symbols", "<X>")
    result = binarise(data, tmp_path / "mono", *options)
    assert result.returncode == 0, result.stderr
    assert f"2 lines left out that {data} validates or tests on" in result.stderr
    made = tmp_path / "mono"
    assert {path.name for path in made.iterdir()} == {
        "codes", "dict.de.txt", "dict.en.txt", "mono.de-en.en.bin", "mono.de-en.en.idx", "preprocess.json", "text",
    }  # fmt: skip
    assert (made / "text" / "mono.tok.en").read_text("utf-8").splitlines() == [*LINES, "a ZOO"]
    record = json.loads((made / "preprocess.json").read_text())
    counts = record["counts"]["mono"]
    assert (counts["read"], counts["kept"], counts["empty"], counts["overlap"]) == (24, 21, 1, 2)
    assert counts["en"]["sentences"] == 21
    assert counts["en"]["unknown"] > 0  # its letters
    assert (record["mono"], record["symbols"], record["drop_overlap"]) == ("en", ["<BT>", "<X>"], True)
    for language in ("de", "en"):
        new, old = (Dictionary.load(str(folder / f"dict.{language}.txt")) for folder in (made, data))
        assert new.symbols == [*old.symbols, "<BT>", "<X>"]
    sentence = MMapIndexedDataset(str(made / "mono.de-en.en"))[0]
    assert new.string(sentence, bpe_symbol="subword_nmt") == LINES[0]

    before = contents(made)
    assert "is up to date" in binarise(data, made, *options).stdout
    assert contents(made) == before
    assert errors(binarise(data, made, *options[:-2])) == [
        f"binarise.sh: error: {made} was made with symbols <BT>, <X>, not <BT>; remove it or choose another --dest"
    ]


def test_pairs_and_the_rest_of_the_folder(data: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "news.en", LINES)
    write_lines(tmp_path / "news.de", [substituted(line) for line in LINES])
    result = binarise(data, tmp_path / "data", "--train", tmp_path / "news")
    assert result.returncode == 0, result.stderr
    made, before = contents(tmp_path / "data"), contents(data)
    assert made.keys() == before.keys()
    same = {name for name in made if made[name] == before[name]}
    assert made.keys() - same == {"preprocess.json"} | {
        name for name in made if name.removeprefix("text/")[:5] == "train"
    }


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("--mono news --lang fr", "--lang must be de or en, as DATA is, but is 'fr'"),
        ("--mono news", "--mono needs --lang"),
        ("--train news --lang en", "--lang needs --mono"),
        ("--train news --mono news --lang en", "--train cannot be combined with --mono"),
        ("--train news --drop-overlap", "--drop-overlap needs --mono"),
        ("", "--train or --mono must be given"),
        ("--mono news --lang en --symbols a@@", "--symbols must be a word without white space such as <BT>"),
        ("--mono news --lang en --symbols <unk>", "and none of fairseq's, but is '<unk>'"),
        ("--mono none --lang en", "none.en: No such file or directory"),
        ("--mono news --lang en --symbols b", "text/mono.tok.en:2: must not have the symbol b, but does"),
    ],
)
def test_refused(data: Path, tmp_path: Path, options: str, fault: str) -> None:
    write_lines(tmp_path / "news.en", ["a", "a b"])
    words = [word.replace("news", str(tmp_path / "news")) for word in options.split()]
    (line,) = errors(binarise(data, tmp_path / "made", *words))
    assert fault.replace("DATA", str(data)) in line
    assert {path.name for path in tmp_path.iterdir()} == {"news.en"}


@pytest.mark.parametrize(
    ("key", "value", "must"),
    [
        ("max_len", '"x"', "a whole number of at least 0"),
        ("max_len", "1.5", "a whole number of at least 0"),
        ("max_len", "true", "a whole number of at least 0"),
        ("max_ratio", "null", "a number of at least 0"),
        ("max_ratio", "-1", "a number of at least 0"),
        ("max_ratio", "NaN", "a number of at least 0"),
    ],
)
def test_a_limit_of_another_kind_is_refused(data: Path, tmp_path: Path, key: str, value: str, must: str) -> None:
    record = shutil.copytree(data, tmp_path / "data") / "preprocess.json"
    contents = json.loads(record.read_text("utf-8"))
    record.write_text(json.dumps({**contents, key: json.loads(value)}), encoding="utf-8")
    with pytest.raises(UserError, match=rf"^{record}: '{key}' must be {must}, but is {value}$"):
        check_like(record.parent)


def test_a_damaged_folder_is_refused(data: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "news.en", LINES)
    broken = shutil.copytree(data, tmp_path / "data")
    with (broken / "dict.en.txt").open("a", encoding="utf-8") as file:
        file.write("more 1\n")
    (line,) = errors(binarise(broken, tmp_path / "made", "--mono", tmp_path / "news", "--lang", "en"))
    assert f"{broken}/dict.en.txt: must have the" in line
