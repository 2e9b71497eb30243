"""From the archive to data: the text as fairseq's script takes it out, the split, and what the numbers of lines say."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from grammar.corpus import sample_pairs
from study.archive import LANGUAGES, MEMBERS, TESTS
from study.counts import explain
from study.extract import extract, segments, training_text
from study.small_archive import write_archive
from support import warm
from support.models import ROOT
from test_iwslt14_fetch import tar_of

from deepnmt.errors import UserError
from deepnmt.preparation.splits import Preparer, Rules, hold_out
from deepnmt.text import TextSettings

EXAMPLE = ROOT / "examples" / "iwslt14"
PAIRS = sample_pairs(160, seed=3)


def run(*command: Any, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **warm.environment(), **environment},
    )
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    return done


def test_training_text() -> None:
    lines = [
        "<url>http://www.ted.com/talks/lang/de/x.html</url>",
        "<keywords>talks</keywords>",
        "<talkid>1</talkid>",
        "<title>Ein Titel</title>",
        "<description>TED Talk: Etwas.</description>",
        " Ein Satz. ",
        "a < b",
        "",
    ]
    assert training_text(lines) == ["Ein Titel", "TED Talk: Etwas.", " Ein Satz. ", "a < b", ""]


def test_segments() -> None:
    lines = [
        "<title>No</title>",
        '<seg id="1"> It\u2019s <b>one</b> </seg>',
        '<seg id="22">two</seg>',
        "<doc>",
        "text",
    ]
    assert segments(lines) == ["It's <b>one</b>", "two"]


def members(**changed: bytes) -> dict[str, bytes]:
    texts = {}
    for name in MEMBERS:
        test = name.split(".de-en.")[0]
        texts[name] = b"ein Satz\nzwei\n" if name.startswith("train") else f'<seg id="1"> {test} </seg>\n'.encode()
    return {**texts, **changed}


def test_extract_joins_the_tests_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(tar_of(members()))
    extract(tmp_path / "a.tgz", tmp_path / "text")
    assert (tmp_path / "text" / "train.de").read_text("utf-8") == "ein Satz\nzwei\n"
    names = ["IWSLT14.TED.dev2010", "IWSLT14.TEDX.dev2012"] + [f"IWSLT14.TED.tst{year}" for year in (2010, 2011, 2012)]
    for language in LANGUAGES:
        assert (tmp_path / "text" / f"test.{language}").read_text("utf-8").split("\n") == [*names, ""]


def test_extract_refuses_what_does_not_match(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    faults = {
        r"train\.tags\.de-en must have as many .* but has 2 in German and 1 in English": {
            "train.tags.de-en.en": b"one\n"
        },
        rf"{TESTS[1]} must have .* but has 0 in German and 0": {f"{TESTS[1]}.{lang}.xml": b"" for lang in LANGUAGES},
        r"train\.tags\.de-en\.de: invalid UTF-8 at byte 1": {"train.tags.de-en.de": b"a\xff\nb\n"},
    }
    for message, changed in faults.items():
        path.write_bytes(tar_of(members(**changed)))
        with pytest.raises(UserError, match=message):
            extract(path, tmp_path / "text")
        assert not (tmp_path / "text").exists()
    path.write_bytes(tar_of(members()))
    with pytest.raises(UserError, match=r"must have SHA-256 0+, but has"):
        extract(path, tmp_path / "text", "0" * 64)


COUNTS = {"read": 174_000, "kept": 160_239, "empty": 1, "too_long": 20, "ratio": 300}
TEST = {"read": 6_750, "kept": 6_750, "empty": 0}


@pytest.mark.parametrize(
    ("kept", "test", "lines"),
    [
        (160_239, {}, ["train: 160,239 pairs", "test: 6,750 pairs", "This is the standard split"]),
        (
            160_200,
            {},
            ["train: 160,200 pairs, where the standard split has 160,239", "as good as the same: sacre"],
        ),
        (160_200, {}, ["174,000 pairs read; 1 with an empty side, 20 too long and 300 by ratio"]),
        (150_000, {}, ["differs by more than a tokeniser explains (174,000 pairs read)", "no score can be compared"]),
        (
            160_239,
            {"kept": 6_749, "empty": 1},
            ["test: 6,749 pairs, where", "set differs, 6,750 pairs read and 1"],
        ),
    ],
)
def test_counts(kept: int, test: dict[str, int], lines: list[str]) -> None:
    counts = {"train": {**COUNTS, "kept": kept}, "valid": {"read": 7_283, "kept": 7_283}, "test": {**TEST, **test}}
    text = "\n".join(explain(counts))
    assert all(line in text for line in lines), text
    assert ("sacremoses" in text) == (kept == 160_200)


def test_hold_out(tmp_path: Path) -> None:
    for kind in ("tok.de", "raw.en"):
        (tmp_path / f"train.{kind}").write_text("".join(f"{kind} {n}\n" for n in range(1, 8)), encoding="utf-8")
    assert hold_out(tmp_path / "train", tmp_path / "valid", 3) == 2
    assert (tmp_path / "valid.raw.en").read_text("utf-8") == "raw.en 3\nraw.en 6\n"
    assert (tmp_path / "train.tok.de").read_text("utf-8") == "".join(f"tok.de {n}\n" for n in (1, 2, 4, 5, 7))
    assert len(list(tmp_path.iterdir())) == 4
    with pytest.raises(UserError, match="--valid-every must be at most the number of training pairs, 5, but is 6"):
        hold_out(tmp_path / "train", tmp_path / "other", 6)


def test_punctuation_is_normalised_or_kept() -> None:
    pair = ("Er sagte: „Ja“ …", "He said: “yes”")
    wanted = ("Er sagte : „ Ja “ …", "He said : “ yes ”")
    # Folders of earlier versions alone are normalised, unless they keep it.
    for reversible, keep in ((True, True), (True, False), (False, True), (False, False)):
        prepared = Preparer(Rules(TextSettings(*LANGUAGES, keep_punctuation=keep, reversible=reversible)))(pair)
        assert (prepared.tokenised == wanted) == (reversible or keep)
        assert ("&quot;" in prepared.tokenised[1]) != (reversible or keep)


BASICS = ["--source-lang", "de", "--target-lang", "en", "--train", "t", "--dest", "d"]


def test_faulty_command_lines(tmp_path: Path) -> None:
    prepare = EXAMPLE / "prepare.sh"
    faults = {
        ("--archive", "x", "--url", "y"): "--archive and --url must not be given together",
        ("--sha256", "12"): "--sha256 must be 64 hexadecimal digits, but is '12'",
        ("--bpe-merges", "ten"): "--bpe-merges must be a whole number, but is 'ten'",
        ("--merges",): "unknown argument '--merges' (see --help)",
    }
    for arguments, message in faults.items():
        assert run(prepare, *arguments, status=2).stderr == f"prepare.sh: error: {message}\n"
    done = run(prepare, "--archive", tmp_path / "none.tgz", status=2, OUT=str(tmp_path / "out"))
    assert done.stderr.endswith(f"prepare.sh: error: {tmp_path}/none.tgz: no such archive\n")
    assert not (tmp_path / "out").exists()
    assert run(prepare, "--help").stdout.startswith("usage: prepare.sh")
    preprocess = [ROOT / "scripts" / "preprocess.sh", *BASICS]
    faults = {
        (): "--valid or --valid-every must be given",
        ("--valid", "v", "--valid-every", "5"): "--valid-every stands in place of --valid and --raw-valid",
        ("--valid-every", "1"): "--valid-every must be a whole number from 2 to 2147483647, but is '1'",
        ("--valid-every", "5", "--pretokenized", "--keep-punctuation"): "--keep-punctuation is for text that is not "
        "--pretokenized",
    }
    for arguments, message in faults.items():
        assert run(*preprocess, *arguments, status=2).stderr == f"preprocess.sh: error: {message}\n"


def test_prepare(tmp_path: Path) -> None:
    # Out of ratio, empty, too long, and in capitals; the last is the 46th that is kept.
    bad = [("Ja.", "Yes it is so, my dear friend."), ("", "Nothing."), ("eins " * 180, "one " * 180)]
    train = [*bad, ("Er sagte: „Ja!“", "He said: “yes!”"), *PAIRS[:134]]
    tests = [PAIRS[135 + 5 * i : 140 + 5 * i] for i in range(5)]
    archive, out = tmp_path / "de-en.tgz", tmp_path / "out"
    write_archive(archive, train, tests)
    options = ["--archive", archive, "--bpe-merges", "100", "--workers", "1"]
    done = run(EXAMPLE / "prepare.sh", *options, OUT=str(out))
    assert "the archive is not the official one, and no score can be compared" in done.stdout
    record = json.loads((out / "data" / "preprocess.json").read_text("utf-8"))
    assert (record["valid_every"], record["keep_punctuation"], record["lowercase"]) == (23, True, True)
    counts = record["counts"]
    # Titles and descriptions of 7 talks count as sentences.
    assert counts["train"]["read"] == 138 + 14
    left_out = counts["train"]["empty"] + counts["train"]["too_long"] + counts["train"]["ratio"]
    kept = 152 - left_out
    assert (counts["train"]["empty"], counts["train"]["too_long"]) == (1, 1)
    assert (counts["train"]["kept"], counts["valid"]["kept"]) == (kept - kept // 23, kept // 23)
    assert counts["train"]["held_out"] == kept // 23
    text = out / "data" / "text"
    reference = [english for part in tests for _, english in part]
    assert (text / "test.raw.en").read_text("utf-8").splitlines() == reference
    lengths = [
        sorted(len(line.split()) for line in pair)
        for split in ("train", "valid")
        for pair in zip(*((text / f"{split}.tok.{lang}").read_text("utf-8").splitlines() for lang in LANGUAGES))
    ]
    assert all(1 <= low <= high <= 175 and high <= 1.5 * low for low, high in lengths)
    assert len(lengths) == kept
    every = (text / "train.tok.de").read_text("utf-8") + (text / "valid.tok.de").read_text("utf-8")
    assert every == every.lower()
    assert "„ ja ! “" in every
    # The 23rd pair that is kept is the first for validation: the one before it is the 22nd for training.
    prepare = Preparer(Rules(TextSettings(*LANGUAGES, lowercase=True, keep_punctuation=True), 175, 1.5))
    lines = [(out / "text" / f"train.{lang}").read_text("utf-8").split("\n")[:-1] for lang in LANGUAGES]
    whole = [made.tokenised[0] for pair in zip(*lines) if not (made := prepare(pair)).skipped]
    assert (text / "valid.tok.de").read_text("utf-8").splitlines() == whole[22::23]
    assert (text / "train.tok.de").read_text("utf-8").splitlines()[21:23] == [whole[21], whole[23]]
    assert all((out / "data" / f"{split}.de-en.en.idx").is_file() for split in ("train", "valid", "test"))
    before = (out / "data" / "preprocess.json").stat().st_mtime_ns
    again = run(EXAMPLE / "prepare.sh", *options, OUT=str(out))
    assert "is up to date" in again.stdout
    assert (out / "data" / "preprocess.json").stat().st_mtime_ns == before
