"""What `deepnmt synthesise` refuses, and its defaults."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support.data_folders import change_record
from support.substitution import SOURCE, TARGET, monolingual, substitution_data
from support.synthesised import LINES, job_of, make, text, words

from deepnmt.errors import UserError
from deepnmt.synthetic.synthesis import Options

pytestmark = pytest.mark.usefixtures("stub")


def refused(folders: dict[str, Path], tmp_path: Path, command: list[str], fault: str) -> None:
    with pytest.raises(UserError, match=re.escape(fault)):
        make(tmp_path / "out", command)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("kind", "language", "options", "fault"),
    [
        ("back", SOURCE, "", "mono-de: must be text of en, the target of the pairs, but is de"),
        ("forward", TARGET, "", "mono-en: must be text of de, the source of the pairs, but is en"),
        ("back", TARGET, "--reverse", "mono-en: must be text of de, the target of the pairs, but is en"),
        ("back", TARGET, "--closest", "--closest is for distil alone"),
        ("back", TARGET, "--tag <XX>", "dict.de.txt: must have the type <XX>, but does not"),
        ("forward", SOURCE, "--tag <BT>", "--tag is for a synthetic source, back or copy, but the source of forward"),
        ("distil", "", "--noise shuffle=3", "--noise is for a synthetic source"),
        ("distil", "", "--closest", "--closest must be given with --nbest"),
        ("distil", "", "--nbest 3", "--nbest must be given with --closest"),
        ("distil", "", "--nbest 6 --closest", "--nbest must be from 1 to --beam 5, but is 6"),
        ("distil", "", "--allow-overlap", "--allow-overlap is for monolingual text"),
        ("copy", TARGET, "--method greedy", "--method, --beam and --batch-size are for translating, which copy"),
        ("copy", TARGET, "--batch-size 8", "--method, --beam and --batch-size are for translating, which copy"),
        ("back", TARGET, "--method greedy --seed 2", "--seed needs --method sampling or top-k, or --noise"),
        ("back", TARGET, "--method greedy --beam 4", "--beam is for --method beam, but the method is greedy"),
        ("back", TARGET, "--method best", "--method must be beam, greedy, sampling or top-k K, but is 'best'"),
        ("back", TARGET, "--method top-k x", "--method top-k must be a whole number of at least 1, but is x"),
        ("back", TARGET, "--method top-k 0", "--method top-k must be at least 1, but is 0"),
        (
            "back",
            TARGET,
            "--method top-k 79",
            "--method top-k must be at most the 78 types of the dictionary, but is 79",
        ),
        ("back", TARGET, "--max-ratio 0.5", "--max-ratio must be at least 1, or 0 for no limit, but is 0.5"),
        ("back", TARGET, "--noise delete=1", "--noise delete must be at least 0 and below 1, but is 1"),
        ("back", TARGET, "--bema 5", "unrecognized arguments: --bema 5"),
    ],
)
def test_refused(folders: dict[str, Path], tmp_path: Path, kind: str, language: str, options: str, fault: str) -> None:
    refused(folders, tmp_path, [*words(folders, kind, language), *options.split()], fault)


def test_a_model_must_be_named(folders: dict[str, Path], tmp_path: Path) -> None:
    for models in (":", "a.pt:"):
        command = ["back", models, str(folders["data"]), str(folders[TARGET])]
        fault = f"MODEL must be a checkpoint, or several with colons between them, but is '{models}'"
        refused(folders, tmp_path, command, fault)


def test_lines_of_validation_and_test_are_refused_unless_allowed(folders: dict[str, Path], tmp_path: Path) -> None:
    held = (folders["data"] / "text" / "test.tok.en").read_text("utf-8").splitlines()[2]
    changed = {**folders, TARGET: monolingual(tmp_path, folders["data"], TARGET, [*LINES[:9], held, held], [])}
    where = f"that {folders['data']} validates or tests on, but is line 3 of test, and so are 1 more. Leave"
    refused(changed, tmp_path, words(changed, "back"), f"mono.tok.en:10: must not be a line {where}")
    out = make(tmp_path / "out", [*words(changed, "back"), "--allow-overlap"])
    assert text(out, "tok", TARGET)[-1] == held


def test_other_codes_and_dictionaries_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    other = substitution_data(tmp_path / "other", seed=9)
    changed = {**folders, "data": other}
    refused(changed, tmp_path, words(changed, "back"), f"codes: must be the codes of {other}, but are others")
    shutil.copy(folders["data"] / "codes", other)
    refused(changed, tmp_path, words(changed, "back"), "dict.de.txt: must be the dictionary of")


def test_other_subwords_than_one_bpe_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(folders["data"], tmp_path / "data")
    change_record(copy, protect=["A-1"])
    changed = {**folders, "data": copy}
    fault = "data: must have one BPE for both languages and no more, but was"
    refused(changed, tmp_path, words(changed, "back"), fault)


def test_a_tag_in_the_text_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(folders[TARGET], tmp_path / "mono")
    path = copy / "text" / "mono.bpe.en"
    path.write_text(path.read_text("utf-8").replace("\n", " <BT>\n", 1), encoding="utf-8")
    files = json.loads((copy / "preprocess.json").read_text())["files"]
    change_record(copy, files={**files, "text/mono.bpe.en": path.stat().st_size})
    changed = {**folders, TARGET: copy}
    command = [*words(changed, "back"), "--tag", "<BT>"]
    refused(changed, tmp_path, command, "mono.bpe.en:1: must not have the symbol <BT>")


def test_copied_text_needs_one_dictionary(folders: dict[str, Path], tmp_path: Path) -> None:
    data = shutil.copytree(folders["data"], tmp_path / "data")
    lines = (data / "dict.de.txt").read_text("utf-8").splitlines()
    (data / "dict.de.txt").write_text("".join(f"{line}\n" for line in [lines[1], lines[0], *lines[2:]]))
    changed = {**folders, "data": data, TARGET: monolingual(tmp_path, data, TARGET, LINES[:5], [])}
    fault = "must have one dictionary for both languages, to copy text, but has two"
    refused(changed, tmp_path, words(changed, "copy"), fault)


def test_defaults_of_the_command_are_those_of_the_options(folders: dict[str, Path]) -> None:
    assert job_of(words(folders, "back")).options == Options("back")
    job = job_of([*words(folders, "distil"), "--method", "top-k", "10", "--seed", "3"])
    assert job.options == Options("distil", method="top-k", top=10, seed=3)
