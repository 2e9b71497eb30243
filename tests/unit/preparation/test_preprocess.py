"""Raw text to binarised data: `deepnmt preprocess`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.flow import (
    ENGLISH,
    GERMAN,
    SCRIPTS,
    contents,
    corpus,
    errors,
    in_process,
    options_of,
    preprocess,
    refused,
    write,
)
from support.processes import hear_interruptions, ignore_interruptions, started, wait_until

from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_training_data
from deepnmt.text.data_record import check_same, checksums
from deepnmt.text.record import read_record


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], Path]:
    """A corpus with pairs to be skipped, and the data made from it."""
    folder = tmp_path_factory.mktemp("flow")
    files = corpus(folder / "raw")
    train = [("", "No German."), ("Kein Englisch.", " \t"), ("eins " * 9, "one two"), ("ja " * 30, "yes " * 30)]
    write(folder / "raw", "train", GERMAN * 7 + [de for de, _ in train], ENGLISH * 7 + [en for _, en in train])
    write(folder / "raw", "test", [GERMAN[0], "", "ja " * 30], [ENGLISH[0], "Nothing.", "yes " * 30])
    result = preprocess(files, folder / "data", "--max-len", "20", "--max-ratio", "4", "--lowercase")
    assert result.returncode == 0, result.stderr
    return files, folder / "data"


def test_data_is_complete(made: tuple[dict[str, Path], Path]) -> None:
    data = made[1]
    names = set(contents(data))
    splits, languages = ("train", "valid", "test"), ("de", "en")
    assert names == (
        {"codes", "preprocess.json", "preprocess.log", "dict.de.txt", "dict.en.txt"}
        | {f"{split}.de-en.{language}.{end}" for split in splits for language in languages for end in ("bin", "idx")}
        | {f"text/{s}.{kind}.{lang}" for s in splits for kind in ("raw", "tok", "bpe") for lang in languages}
    )
    assert (data / "dict.de.txt").read_bytes() == (data / "dict.en.txt").read_bytes()
    assert list(data.parent.glob("data.*")) == []


def test_text_is_normalised_tokenised_and_segmented(made: tuple[dict[str, Path], Path]) -> None:
    text = made[1] / "text"
    lines = (text / "valid.tok.de").read_text().split("\n")
    assert lines == [
        "der hund schläft .",
        "die katze , „ mia “ , frißt 3 ␣ % mehr .",
        "das ist z. b. ein haus !",
        "",
    ]
    assert (text / "valid.raw.de").read_text().split("\n")[:-1] == GERMAN
    segmented = (text / "valid.bpe.de").read_text()
    assert "@@ " in segmented
    assert segmented.replace("@@ ", "") == "\n".join(lines)
    assert len((made[1] / "codes").read_text().splitlines()) == 1 + 20


def test_record_counts_what_was_skipped(made: tuple[dict[str, Path], Path]) -> None:
    files, data = made
    record = json.loads((data / "preprocess.json").read_text())
    assert record["counts"]["train"] == {"read": 25, "kept": 21, "empty": 2, "too_long": 1, "ratio": 1}
    assert record["counts"]["test"] == {"read": 3, "kept": 2, "empty": 1, "too_long": 0, "ratio": 0}
    assert (record["source_lang"], record["target_lang"], record["lowercase"]) == ("de", "en", True)
    output = subprocess.run(["sha256sum", f"{files['test']}.en"], capture_output=True, text=True, check=True).stdout
    assert record["inputs"]["test.en"] == output.split()[0]
    types = len((data / "dict.en.txt").read_text().splitlines()) + 4
    assert record["types"] == {"de": types, "en": types}


def test_the_same_text_binarised_like_it_is_byte_for_byte_the_same(
    made: tuple[dict[str, Path], Path], tmp_path: Path
) -> None:
    files, data = made
    done = in_process("binarise", "--like", data, "--train", files["train"], "--dest", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    again, before = contents(tmp_path / "data"), contents(data)
    assert {name for name in before if again.get(name) != before[name]} == {"preprocess.json", "preprocess.log"}
    assert again.keys() == before.keys() - {"preprocess.log"}
    record = json.loads(again["preprocess.json"])
    assert record["counts"]["train"]["ratio"] == 1
    assert record["inputs"] == {
        name: json.loads(before["preprocess.json"])["inputs"][name] for name in record["inputs"]
    }


def test_copies_with_dropout(made: tuple[dict[str, Path], Path], tmp_path: Path) -> None:
    files, plain = made
    data = tmp_path / "data"
    options = ("--max-len", "20", "--max-ratio", "4", "--lowercase", "--bpe-dropout", "0.2", "--copies", "2")
    result = preprocess(files, data, *options)
    assert result.returncode == 0, result.stderr
    assert f"deepnmt train RECIPE {data}:{data}/copy1 SAVE\n" in result.stdout
    names = {f"train.de-en.{language}.{end}" for language in ("de", "en") for end in ("bin", "idx")}
    assert set(contents(data / "copy1")) == names | {"dict.de.txt", "dict.en.txt"}
    assert set(contents(data)) == set(contents(plain)) | {f"copy1/{name}" for name in contents(data / "copy1")}
    check_training_data([data, data / "copy1"], "train", ["valid", "test"])
    copies = [(folder / "train.de-en.de.bin").read_bytes() for folder in (data, data / "copy1")]
    assert copies[0] != copies[1]
    assert contents(data / "text") == contents(plain / "text")
    # No token is unknown, whose number is 3.
    assert all(3 not in memoryview(copy).cast("H") for copy in copies)


def test_same_command_does_nothing(made: tuple[dict[str, Path], Path]) -> None:
    files, data = made
    before = contents(data)
    result = preprocess(files, data, "--max-len", "20", "--max-ratio", "4", "--lowercase")
    assert (result.returncode, result.stdout) == (0, f"{data} is up to date\n")
    assert contents(data) == before


@pytest.mark.parametrize("name", ["train.de-en.de.bin", "codes", "text/test.raw.en"])
def test_folder_that_lost_a_file_is_not_up_to_date(
    made: tuple[dict[str, Path], Path], tmp_path: Path, name: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(made[1], data)
    record = read_record(made[1] / "preprocess.json")
    check_same(data / "preprocess.json", record)
    content = (data / name).read_bytes()
    (data / name).write_bytes(content[:-1])
    size = len(content)
    with pytest.raises(
        UserError, match=f"{name}: must have the {size} bytes .*, but has {size - 1}; remove .*/data to"
    ):
        check_same(data / "preprocess.json", record)
    (data / name).unlink()
    with pytest.raises(UserError, match=f"{name}: must have the {size} bytes .*, but there is no such file; remove"):
        check_same(data / "preprocess.json", record)


def test_same_text_in_two_splits_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = corpus(tmp_path)
    names = {f"{split}.{lang}": Path(f"{prefix}.{lang}") for split, prefix in files.items() for lang in ("de", "en")}
    assert checksums(names).keys() == names.keys()
    assert capsys.readouterr().err == ""
    checksums({**names, "test1.de": Path(f"{files['train']}.de"), "test.raw.de": Path(f"{files['test']}.de")})
    assert capsys.readouterr().err == "warning: test1.de has the same text as train.de\n"


def test_other_settings_or_input_never_overwrite(made: tuple[dict[str, Path], Path]) -> None:
    files, data = made
    before = contents(data)
    same = ("--max-len", "20", "--max-ratio", "4", "--lowercase")
    (line,) = errors(preprocess(files, data, *same, "--bpe-merges", "30"))
    assert f"{data} was made with bpe-merges 20, not 30; remove it or choose another --dest" in line
    (line,) = errors(preprocess({**files, "valid": files["test"]}, data, *same))
    assert f"{data} was made with another input: valid.de" in line
    assert contents(data) == before


def test_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").write_text("mine")
    assert "data exists, and was not made by preprocess.sh" in refused(tmp_path, files)
    assert contents(tmp_path / "data") == {"thesis.tex": b"mine"}


def test_different_line_counts(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    write(tmp_path / "raw", "train", GERMAN, ENGLISH[:2])
    assert f"{files['train']}.de has 3 lines, but {files['train']}.en has 2" in refused(tmp_path, files)


def test_empty_file(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    write(tmp_path / "raw", "valid", [], [])
    assert f"{files['valid']}.de is empty" in refused(tmp_path, files)


def test_nothing_left_of_a_split(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    line = refused(tmp_path, files, "--max-len", "2")
    assert "no pair of" in line
    assert "0 of 21 pairs kept; skipped 0 with an empty side, 21 too long" in line


def test_invalid_utf8(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    Path(f"{files['train']}.en").write_bytes(b"good\n" * 19 + b"caf\xe9\n" + b"good\n")
    assert f"{files['train']}.en:20: invalid UTF-8 (byte 0xe9 at position 4" in refused(tmp_path, files)


def test_missing_file(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    Path(f"{files['test']}.en").unlink()
    assert f"{files['test']}.en: No such file or directory" in refused(tmp_path, files)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--copies", "2"], "--bpe-dropout and --copies must be given together"),
        (
            ["--subwords", "unigram", "--unigram-sampling", "1"],
            "--unigram-sampling and --copies must be given together",
        ),
        (
            ["--subwords", "unigram", "--unigram-sampling", "0", "--copies", "2"],
            "--unigram-sampling must be above 0, but is '0'",
        ),
        (
            ["--unigram-sampling", "1", "--copies", "2"],
            "--unigram-sampling is for --subwords unigram, but KIND is bpe",
        ),
        (
            ["--unigram-sampling", "1", "--bpe-dropout", "0.1", "--copies", "2"],
            "--unigram-sampling cannot be combined with --bpe-dropout",
        ),
        (["--bpe-dropout", "1.5", "--copies", "2"], "--bpe-dropout must be between 0 and 1, but is '1.5'"),
        (["--bpe-dropout", "0.1", "--copies", "0"], "--copies must be a whole number from 1 to 1000, but is '0'"),
        (["--bpe-merges", "0"], "--bpe-merges must be a whole number from 1 to 2147483647, but is '0'"),
        (["--dest", "a:b"], "--dest must not contain a colon, but is 'a:b'"),
        (["--source-lang", "d e"], "--source-lang must be a language such as de, but is 'd e'"),
        (["--target-lang", "en.x"], "--target-lang must be a language such as de, but is 'en.x'"),
        (["--bpe-merges", "many"], "--bpe-merges must be a whole number from 1 to 2147483647, but is 'many'"),
        (["--max-len", "-1"], "--max-len must be a whole number from 0 to 2147483647, but is '-1'"),
        (["--max-ratio", "x"], "--max-ratio must be a number in the form of 12 or 0.5, but is 'x'"),
        (["--max-ratio", "01.5"], "--max-ratio must be a number in the form of 12 or 0.5, but is '01.5'"),
        (
            ["--bpe-dropout", ".1", "--copies", "2"],
            "--bpe-dropout must be a number in the form of 12 or 0.5, but is '.1'",
        ),
        (["--bpe-dropout", "0.0", "--copies", "2"], "--bpe-dropout must be between 0 and 1, but is '0.0'"),
        (["--workers", "00"], "--workers must be a whole number from 1 to 1024, but is '00'"),
        (["--workers", "1" + "0" * 20], "--workers must be a whole number from 1 to 1024, but is '1" + "0" * 20),
        (["--target-lang", "de"], "--source-lang and --target-lang must differ, but both are 'de'"),
        (["--raw-test", "x"], "--raw-valid and --raw-test are for --pretokenized text alone"),
        (["--pretokenized", "--raw-test", "x", "--raw-test", "y"], "must be given once for each --test (1), but is"),
        (["--train", ""], "option --train needs a value"),
        (["--lowercased"], "unrecognized arguments: --lowercased (see --help)"),
        (["--dest"], "argument --dest: expected one argument (see --help)"),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], message: str) -> None:
    assert message in refused(tmp_path, corpus(tmp_path / "raw"), *options)


def test_a_comma_in_the_place_that_a_link_leads_to_is_refused(tmp_path: Path) -> None:
    files = corpus(tmp_path / "raw")
    (tmp_path / "a,b").mkdir()
    (tmp_path / "link").symlink_to("a,b")
    result = preprocess(files, tmp_path / "link")
    assert errors(result) == [f"preprocess.sh: error: --dest must not contain a comma, but is '{tmp_path}/a,b'"]


def test_missing_tools_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    environment = {"PATH": "/usr/bin:/bin", "DEEPNMT_PYTHON_BIN": str(tmp_path / "bin")}
    arguments = [str(SCRIPTS / "preprocess.sh"), *options_of(corpus(tmp_path / "raw"), tmp_path / "data")]
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)
    (line,) = errors(result)
    assert re.search(r"error: (the package \w+|python3) is not installed.*; run 'make setup' in ", line)


def test_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    files, place = corpus(tmp_path / "raw"), tmp_path / "place"
    place.mkdir()
    words = [str(SCRIPTS / "preprocess.sh"), *options_of(files, place / "data", "--workers", "1")]
    # A larger file fails as on a full disk: the log, which is written last, for example.
    for blocks in (0, 1):
        limited = ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", *words]
        (line,) = errors(subprocess.run(limited, capture_output=True, text=True, timeout=100, check=False))
        assert re.match(rf"preprocess.sh: error: cannot write {place}/data\S*: File too large$", line)
        assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("sent", "status", "start"),
    [
        (signal.SIGINT, 130, hear_interruptions),
        # In the background of a script, a shell has commands ignore SIGINT.
        pytest.param(signal.SIGINT, 130, ignore_interruptions, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, hear_interruptions, marks=pytest.mark.slow),
    ],
    ids=["interrupted", "interrupted-in-background", "ended"],
)
def test_interruption_leaves_nothing(
    tmp_path: Path, sent: signal.Signals, status: int, start: Callable[[], None]
) -> None:
    files = corpus(tmp_path / "raw")
    # Long enough to learn from that the signal arrives in the middle of it.
    words = [" ".join(f"{word * line:x}" for word in range(1, 30)) for line in range(1, 3000)]
    write(tmp_path / "raw", "train", words, words)
    options = options_of(files, tmp_path / "data", "--bpe-merges", "20000")
    with (
        (tmp_path / "log").open("wb+") as log,
        started([str(SCRIPTS / "preprocess.sh"), *options], stdout=log, stderr=log, preexec_fn=start) as process,
    ):
        wait_until(lambda: b"learning subwords" in (tmp_path / "log").read_bytes(), process)
        time.sleep(0.5)
        os.killpg(process.pid, sent)
        assert process.wait(timeout=30) == status
    output = (tmp_path / "log").read_text()
    said = output.count("interrupted; run the same command again to start over")
    assert said == (1 if sent == signal.SIGINT else 0)
    assert "Traceback" not in output
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "log"}
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listing.splitlines() if "deepnmt" in line and str(tmp_path) in line]
