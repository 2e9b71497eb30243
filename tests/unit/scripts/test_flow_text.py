"""Raw text to binarised data: scripts/preprocess.sh and scripts/prepare_text.py."""

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

import manifest
import prepare_text
import pytest
import workers
from hypothesis import given, settings
from hypothesis import strategies as st
from support.processes import hear_interruptions, ignore_interruptions, started, wait_until

from deepnmt.errors import UserError
from deepnmt.text import TextSettings
from deepnmt.text.data_folder import check_training_data
from deepnmt.text.record import read_record

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"

GERMAN = ["Der Hund schläft.", "Die Katze, „Mia“, frißt 3 % mehr.", "Das ist z. B. ein Haus!"]
ENGLISH = ["The dog sleeps.", 'The cat, "Mia", eats 3 % more.', "This is, e.g., a house!"]
Result = subprocess.CompletedProcess[str]


def write(folder: Path, name: str, german: list[str], english: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    for language, lines in (("de", german), ("en", english)):
        (folder / f"{name}.{language}").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return folder / name


def corpus(folder: Path) -> dict[str, Path]:
    return {
        "train": write(folder, "train", GERMAN * 7, ENGLISH * 7),
        "valid": write(folder, "valid", GERMAN, ENGLISH),
        "test": write(folder, "test", GERMAN[:2], ENGLISH[:2]),
    }


def command(corpus: dict[str, Path], dest: Path, *options: str) -> list[str]:
    splits = [argument for split, prefix in corpus.items() for argument in (f"--{split}", str(prefix))]
    languages = ["--source-lang", "de", "--target-lang", "en", "--bpe-merges", "20", "--workers", "2"]
    return [str(SCRIPTS / "preprocess.sh"), *languages, *splits, "--dest", str(dest), *options]


def preprocess(corpus: dict[str, Path], dest: Path, *options: str) -> Result:
    return subprocess.run(command(corpus, dest, *options), capture_output=True, text=True, timeout=300, check=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def errors(result: Result) -> list[str]:
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    return [line for line in result.stderr.splitlines() if ": error: " in line]


def refused(tmp_path: Path, corpus: dict[str, Path], *options: str) -> str:
    """The one line of error that preprocessing ends with, leaving nothing behind."""
    before = set(tmp_path.iterdir())
    lines = errors(preprocess(corpus, tmp_path / "data", *options))
    assert len(lines) == 1
    assert set(tmp_path.iterdir()) == before
    return lines[0]


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
        "die katze , &quot; mia &quot; , frißt 3 % mehr .",
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


def test_copies_with_dropout(made: tuple[dict[str, Path], Path], tmp_path: Path) -> None:
    files, plain = made
    data = tmp_path / "data"
    options = ("--max-len", "20", "--max-ratio", "4", "--lowercase", "--bpe-dropout", "0.2", "--copies", "2")
    result = preprocess(files, data, *options)
    assert result.returncode == 0, result.stderr
    assert f"scripts/train.sh RECIPE {data}:{data}/copy1 SAVE\n" in result.stdout
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
    manifest.compare(data / "preprocess.json", made[1] / "preprocess.json")
    content = (data / name).read_bytes()
    (data / name).write_bytes(content[:-1])
    size = len(content)
    with pytest.raises(
        UserError, match=f"{name}: must have the {size} bytes .*, but has {size - 1}; remove .*/data to"
    ):
        manifest.compare(data / "preprocess.json", made[1] / "preprocess.json")
    (data / name).unlink()
    with pytest.raises(UserError, match=f"{name}: must have the {size} bytes .*, but there is no such file; remove"):
        manifest.compare(data / "preprocess.json", made[1] / "preprocess.json")


def test_same_text_in_two_splits_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = corpus(tmp_path)
    names = [f"{split}.{lang}={prefix}.{lang}" for split, prefix in files.items() for lang in ("de", "en")]
    record = tmp_path / "record.json"
    manifest.describe(record, ["source_lang=de"], names)
    assert capsys.readouterr().err == ""
    manifest.describe(
        record, ["source_lang=de"], [*names, f"test1.de={files['train']}.de", f"test.raw.de={files['test']}.de"]
    )
    assert capsys.readouterr().err == "warning: test1.de has the same text as train.de\n"


def test_other_settings_or_input_never_overwrite(made: tuple[dict[str, Path], Path]) -> None:
    files, data = made
    before = contents(data)
    same = ("--max-len", "20", "--max-ratio", "4", "--lowercase")
    (line,) = errors(preprocess(files, data, *same, "--bpe-merges", "30"))
    assert f"{data} was made with bpe_merges 20, not 30; remove it or choose another --dest" in line
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
        (["--bpe-dropout", "1.5", "--copies", "2"], "--bpe-dropout must be between 0 and 1, but is '1.5'"),
        (["--bpe-dropout", "0.1", "--copies", "0"], "--copies must be at least 1, but is 0"),
        (["--bpe-merges", "0"], "--bpe-merges must be at least 1, but is 0"),
        (["--dest", "a:b"], "--dest must not contain a colon, but is 'a:b'"),
        (["--source-lang", "d e"], "--source-lang must be a language such as de, but is 'd e'"),
        (["--bpe-merges", "many"], "--bpe-merges must be a whole number, but is 'many'"),
        (["--max-len", "-1"], "--max-len must be a whole number, but is '-1'"),
        (["--max-ratio", "x"], "--max-ratio must be a number, but is 'x'"),
        (["--workers", "00"], "--workers must be at least 1, but is 00"),
        (["--workers", "1" + "0" * 20], "--workers must be at most 1024, but is 1" + "0" * 20),
        (["--target-lang", "de"], "--source-lang and --target-lang must differ, but both are 'de'"),
        (["--raw-test", "x"], "--raw-valid and --raw-test are for --pretokenized text alone"),
        (["--pretokenized", "--raw-test", "x", "--raw-test", "y"], "must be given once for each --test (1), but is"),
        (["--train", ""], "--train must be given"),
        (["--lowercased"], "unknown argument '--lowercased'"),
        (["--dest"], "option --dest needs a value"),
    ],
)
def test_bad_options(tmp_path: Path, options: list[str], message: str) -> None:
    assert message in refused(tmp_path, corpus(tmp_path / "raw"), *options)


def test_missing_tools_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    environment = {"PATH": "/usr/bin:/bin", "DEEPNMT_PYTHON_BIN": str(tmp_path / "bin")}
    arguments = command(corpus(tmp_path / "raw"), tmp_path / "data")
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)
    (line,) = errors(result)
    assert "is not installed; run 'make setup' in " in line


@pytest.mark.parametrize(
    ("sent", "status", "start"),
    [
        (signal.SIGINT, 130, hear_interruptions),
        # In the background of a script, a shell has commands ignore SIGINT.
        (signal.SIGINT, 130, ignore_interruptions),
        (signal.SIGTERM, 143, hear_interruptions),
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
    arguments = command(files, tmp_path / "data", "--bpe-merges", "20000")
    with (
        (tmp_path / "log").open("wb+") as log,
        started(arguments, stdout=log, stderr=log, preexec_fn=start) as process,
    ):
        wait_until(lambda: b"segment.py learn" in (tmp_path / "log").read_bytes(), process)
        time.sleep(0.5)
        os.killpg(process.pid, sent)
        assert process.wait(timeout=30) == status
    output = (tmp_path / "log").read_text()
    said = output.count("interrupted; run the same command again to start over")
    assert said == (1 if sent == signal.SIGINT else 0)
    assert "Traceback" not in output
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "log"}
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listing.splitlines() if "segment.py" in line and str(tmp_path) in line]


def rules(max_len: int = 0, max_ratio: float = 0, **text: bool) -> prepare_text.Rules:
    return prepare_text.Rules(TextSettings("de", "en", **text), max_len, max_ratio)


def prepare(folder: Path, job: prepare_text.Rules, inputs: list[Path], processes: int = 1) -> dict[str, list[str]]:
    (folder / "out").mkdir()
    prepare_text.prepare_split(inputs, str(folder / "out" / "x"), job, processes)
    return {path.name[2:]: path.read_bytes().decode().split("\n")[:-1] for path in (folder / "out").iterdir()}


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    odd = ["\ufeffa\u2028b\r", "c\x00d\x0be\x0cf\x85g\u00a0h", "i\rj\x1ek\u3000l"]
    prefix = write(tmp_path, "odd", odd, ["one", "two", "three"])
    texts = prepare(tmp_path, rules(), [Path(f"{prefix}.de"), Path(f"{prefix}.en")])
    assert texts["tok.de"] == texts["raw.de"] == ["a b", "c d e f g h", "i j k l"]
    assert texts["tok.en"] == ["one", "two", "three"]


def test_pretokenised_text_is_kept_and_stays_beside_its_raw_text(tmp_path: Path) -> None:
    tokenised = write(
        tmp_path, "tok", ["Ein &quot; Wort &quot;", "", "zwei .", "c"], ["a &quot; word &quot;", "b", "two .", "c"]
    )
    raw = write(tmp_path, "raw", ['Ein "Wort"', "x", "zwei.", ""], ['a "word"', "y", "two.", "c"])
    inputs = [Path(f"{p}.{lang}") for p in (tokenised, raw) for lang in ("de", "en")]
    assert prepare(tmp_path, rules(pretokenized=True, lowercase=True), inputs) == {
        "tok.de": ["ein &quot; wort &quot;", "zwei ."],
        "tok.en": ["a &quot; word &quot;", "two ."],
        "raw.de": ['Ein "Wort"', "zwei."],
        "raw.en": ['a "word"', "two."],
    }


def test_several_processes_keep_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BATCH", 70)
    monkeypatch.setattr(workers, "CHUNK", 7)
    numbers = [f"{number}" for number in range(300)]
    prefix = write(tmp_path, "numbers", numbers, numbers)
    texts = prepare(tmp_path, rules(), [Path(f"{prefix}.de"), Path(f"{prefix}.en")], processes=3)
    assert texts["tok.de"] == texts["tok.en"] == numbers


def suicide() -> Callable[[int], int]:
    return lambda item: os.kill(os.getpid(), signal.SIGKILL) or item  # type: ignore[func-returns-value]


def test_killed_worker_is_one_line() -> None:
    with pytest.raises(UserError, match="a worker was killed, perhaps for want of memory; run with fewer --workers"):
        list(workers.map_in_order(suicide, range(9), 2))


@pytest.mark.parametrize(
    ("german", "english", "skipped"),
    [
        ("a b c d", "a b c d", ""),
        ("a b c d e", "a", "too_long"),
        ("a", "a b c", "ratio"),
        ("a", "a b", ""),
        ("", "a", "empty"),
        ("a", "x" * 1000, ""),
        ("a", "x" * 1001, "too_long"),
    ],
)
def test_length_filter(german: str, english: str, skipped: str) -> None:
    preparer = prepare_text.Preparer(rules(max_len=4, max_ratio=2, pretokenized=True))
    assert preparer((german, english)).skipped == skipped


def test_text_that_has_had_bpe_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = write(tmp_path, "train", ["Hun@@ de", "Hund"], ["dogs", "dog"])
    prepare(tmp_path, rules(), [Path(f"{prefix}.de"), Path(f"{prefix}.en")])
    said = capsys.readouterr().err
    assert "train.en seem to have had BPE already: 1 of 2 pairs have words that end in @@" in said


PIECES = [
    b"ein Hund",
    b"U-Bahn",
    b"\n",
    b"\r\n",
    b"\x00",
    "\u2028".encode(),
    b"\x0c",
    b"\x85",
    b"\xff",
    b"\xc3",
    b"a" * 1200,
]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=10).map(b" ".join)


@settings(max_examples=80, deadline=None)
@given(german=BYTES, english=BYTES, lines=st.booleans())
def test_any_bytes_are_one_line_of_error_or_parallel_text(
    tmp_path_factory: pytest.TempPathFactory, german: bytes, english: bytes, lines: bool
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    if lines:
        # Mostly they differ in length, which is soon said.
        english = b"\n".join([b"the dog"] * (german.count(b"\n") + (not german.endswith(b"\n"))))
    (folder / "x.de").write_bytes(german)
    (folder / "x.en").write_bytes(english)
    try:
        counts = prepare_text.prepare_split([folder / "x.de", folder / "x.en"], str(folder / "out"), rules(), 1)
    except UserError as error:
        message = str(error)
        counts = None
    if counts is None:
        assert re.match(rf"(no pair of )?{folder}/x\.", message)
        assert "\n" not in message
        return
    texts = [(folder / f"out.{kind}.{lang}").read_bytes().decode() for kind in ("tok", "raw") for lang in ("de", "en")]
    assert {text.count("\n") for text in texts} == {counts["kept"]}
    assert sum(counts.values()) - counts["read"] == counts["read"]
    assert all(len(text.splitlines()) == counts["kept"] and text.endswith("\n") for text in texts)


def test_line_of_megabytes(tmp_path: Path) -> None:
    prefix = write(tmp_path, "train", ["ein Hund " * 60_000, "a" * 2_000_000, "Hund"], ["dog", "dog", "dog"])
    texts = prepare(tmp_path, rules(), [Path(f"{prefix}.de"), Path(f"{prefix}.en")])
    assert [len(line) for line in texts["tok.de"]] == [9 * 60_000 - 1, 4]


def test_nothing_to_learn_leaves_nothing(tmp_path: Path) -> None:
    files = {split: write(tmp_path / "raw", split, ["a b"], ["c"]) for split in ("train", "valid")}
    line = refused(tmp_path, files)
    assert "must have two symbols side by side that occur twice for the BPE to merge, but have none" in line


def test_full_disk_is_one_line(tmp_path: Path) -> None:
    prefix = write(tmp_path, "train", ["Hund"] * 3000, ["dog"] * 3000)
    os.symlink("/dev/full", tmp_path / "x.tok.en")
    with pytest.raises(UserError, match=r"cannot write .*/x\.\*: No space left on device"):
        prepare_text.prepare_split([Path(f"{prefix}.de"), Path(f"{prefix}.en")], str(tmp_path / "x"), rules(), 1)


def test_unreadable_record(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"preprocess\.json: no such file; is .* a folder made by preprocess\.sh\?"):
        read_record(tmp_path / "preprocess.json")
    (tmp_path / "preprocess.json").write_text("{")
    with pytest.raises(UserError, match=r"preprocess\.json cannot be read: "):
        read_record(tmp_path / "preprocess.json")


@pytest.mark.parametrize("script", ["preprocess.sh", "train.sh", "average.sh", "generate.sh", "score.sh"])
def test_help(script: str) -> None:
    result = subprocess.run([SCRIPTS / script, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: {script} ")
    assert "\nexample:\n  scripts/" + script in result.stdout
