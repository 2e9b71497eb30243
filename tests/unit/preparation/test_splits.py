"""The text steps of `deepnmt preprocess` on odd, hostile and long text."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.flow import SCRIPTS, refused, write

from deepnmt.errors import UserError
from deepnmt.preparation.splits import Preparer, Rules, prepare_split
from deepnmt.text import TextSettings, in_order
from deepnmt.text.record import read_record


def rules(max_len: int = 0, max_ratio: float = 0, **text: bool) -> Rules:
    return Rules(TextSettings("de", "en", **text), max_len, max_ratio)


def prepare(folder: Path, job: Rules, prefixes: list[Path], processes: int = 1) -> dict[str, list[str]]:
    (folder / "out").mkdir()
    prepare_split(list(map(str, prefixes)), str(folder / "out" / "x"), job, processes)
    return {path.name[2:]: path.read_bytes().decode().split("\n")[:-1] for path in (folder / "out").iterdir()}


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    odd = ["\ufeffa\u2028b\r", "c\x00d\x0be\x0cf\x85g\u00a0h", "i\rj\x1ek\u3000l"]
    prefix = write(tmp_path, "odd", odd, ["one", "two", "three"])
    texts = prepare(tmp_path, rules(), [prefix])
    assert texts["tok.de"] == texts["raw.de"] == ["a b", "c d e f g h", "i j k l"]
    assert texts["tok.en"] == ["one", "two", "three"]


def test_pretokenised_text_is_kept_and_stays_beside_its_raw_text(tmp_path: Path) -> None:
    tokenised = write(
        tmp_path, "tok", ["Ein &quot; Wort &quot;", "", "zwei .", "c"], ["a &quot; word &quot;", "b", "two .", "c"]
    )
    raw = write(tmp_path, "raw", ['Ein "Wort"', "x", "zwei.", ""], ['a "word"', "y", "two.", "c"])
    assert prepare(tmp_path, rules(pretokenized=True, lowercase=True), [tokenised, raw]) == {
        "tok.de": ["ein &quot; wort &quot;", "zwei ."],
        "tok.en": ["a &quot; word &quot;", "two ."],
        "raw.de": ['Ein "Wort"', "zwei."],
        "raw.en": ['a "word"', "two."],
    }


def test_several_processes_keep_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_order, "CHUNK", 7)
    numbers = [f"{number}" for number in range(300)]
    prefix = write(tmp_path, "numbers", numbers, numbers)
    texts = prepare(tmp_path, rules(), [prefix], processes=3)
    assert texts["tok.de"] == texts["tok.en"] == numbers


def suicide() -> Callable[[int], int]:
    return lambda item: os.kill(os.getpid(), signal.SIGKILL) or item  # type: ignore[func-returns-value]


def test_killed_worker_is_one_line() -> None:
    with pytest.raises(UserError, match="a worker was killed, perhaps for want of memory; run with fewer --workers"):
        list(in_order.lines_in_order(suicide, range(9), 2, 1000))


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
    preparer = Preparer(rules(max_len=4, max_ratio=2, pretokenized=True))
    assert preparer((german, english)).skipped == skipped


def test_text_that_has_had_bpe_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = write(tmp_path, "train", ["Hun@@ de", "Hund"], ["dogs", "dog"])
    prepare(tmp_path, rules(), [prefix])
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
        counts = prepare_split([str(folder / "x")], str(folder / "out"), rules(), 1)
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
    texts = prepare(tmp_path, rules(), [prefix])
    assert [len(line) for line in texts["tok.de"]] == [9 * 60_000 - 1, 4]


def test_nothing_to_learn_leaves_nothing(tmp_path: Path) -> None:
    files = {split: write(tmp_path / "raw", split, ["a b"], ["c"]) for split in ("train", "valid")}
    line = refused(tmp_path, files)
    assert "contain no adjacent symbols that occur twice for the BPE to merge" in line


def test_full_disk_is_one_line(tmp_path: Path) -> None:
    prefix = write(tmp_path, "train", ["Hund"] * 3000, ["dog"] * 3000)
    os.symlink("/dev/full", tmp_path / "x.tok.en")
    with pytest.raises(UserError, match=r"cannot write .*/x\.\*: No space left on device"):
        prepare_split([str(prefix)], str(tmp_path / "x"), rules(), 1)


def test_unreadable_record(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"preprocess\.json: no such file; is .* a folder made by deepnmt preprocess\?"):
        read_record(tmp_path / "preprocess.json")
    (tmp_path / "preprocess.json").write_text("{")
    with pytest.raises(UserError, match=r"preprocess\.json cannot be read: "):
        read_record(tmp_path / "preprocess.json")


FLOW = ["preprocess.sh", "train.sh", "average.sh", "generate.sh", "score.sh"]


@pytest.mark.parametrize("script", [*FLOW, "binarise.sh", "synthesise.sh", "mix.sh", "iterate.sh"])
def test_help(script: str) -> None:
    result = subprocess.run([SCRIPTS / script, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: {script} ")
    assert re.search(rf"\nexamples?:\n  (scripts/{script}|deepnmt {script.removesuffix('.sh')}) ", result.stdout)
