"""Synthetic pairs: `deepnmt synthesise`, with the substitution in place of a model, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.data_folders import change_record
from support.flow import contents
from support.substitution import SOURCE, TARGET, Substitution, monolingual, sentences, substituted, substitution_data

from deepnmt.cli import synthesise
from deepnmt.errors import UserError
from deepnmt.synthetic import pair_making
from deepnmt.synthetic.pairs import PairRules
from deepnmt.synthetic.synthesis import Options, Synthesis
from deepnmt.text.data_folder import check_data_folder
from deepnmt.text.dictionary import read_types
from deepnmt.text.subwords import Bpe, join_bpe

LINES = sentences(130, seed=5)
KILLED = r"^(killed|resume from the work done in .*out\.parts)$"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data, and monolingual text of both languages."""
    folder = tmp_path_factory.mktemp("synthetic")
    data = substitution_data(folder / "data")
    symbols = ["<BT>", "<BLANK>"]
    model = folder / "model.pt"
    model.write_text("a stub")
    return {
        "data": data,
        TARGET: monolingual(folder, data, TARGET, LINES, symbols),
        SOURCE: monolingual(folder, data, SOURCE, [substituted(line) for line in LINES], []),
        "model": model,
    }


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_making, "LineDecoder", Substitution)
    monkeypatch.setattr("deepnmt.checkpoints.data_fit.check_model", lambda path, data, languages: None)
    monkeypatch.setattr(Substitution, "calls", [])


def words(folders: dict[str, Path], kind: str, text: str = TARGET) -> list[str]:
    places = [folders["data"]] if kind == "distil" else [folders["data"], folders[text]]
    return [kind, *([] if kind == "copy" else [str(folders["model"])]), *map(str, places)]


def make(out: Path, command: list[str], shards: int = 1) -> Path:
    """What the command makes; of several shards, the last one makes it."""
    for shard in range(shards):
        more = ["--shards", str(shards), "--shard", str(shard)] if shards > 1 else []
        synthesise.main([*with_out(command, out), *more])
    return out


def with_out(command: list[str], out: Path) -> list[str]:
    places = 1 + len(synthesise.PLACES[command[0]])
    return [*command[:places], str(out), *command[places:]]


def job_of(command: list[str]) -> Synthesis:
    return synthesise.synthesis_of(synthesise.parse(with_out(command, Path("out"))))


def text(folder: Path, kind: str, language: str) -> list[str]:
    return (folder / "text" / f"train.{kind}.{language}").read_text("utf-8").splitlines()


# What is made


def test_back_translation_gives_the_true_pairs(folders: dict[str, Path], tmp_path: Path) -> None:
    out = make(tmp_path / "out", words(folders, "back"))
    assert text(out, "tok", TARGET) == LINES
    assert text(out, "tok", SOURCE) == [substituted(line) for line in LINES]
    bpe = Bpe(folders["data"] / "codes")
    for language in (SOURCE, TARGET):
        assert text(out, "bpe", language) == [bpe(line) for line in text(out, "tok", language)]
    check_data_folder(out, ["train", "valid", "test"], (SOURCE, TARGET))
    record = json.loads((out / "preprocess.json").read_text())
    assert record["counts"]["train"] == {"read": 130, "kept": 130, "empty": 0, "too_long": 0, "ratio": 0}
    assert record["synthesis_kind"] == "back"
    assert set(record["inputs"]) >= {"checkpoint", "text.bpe", "dict.en"}
    assert record["checksums"].keys() == {
        f"train.de-en.{lang}.{end}" for lang in ("de", "en") for end in ("bin", "idx")
    }
    for subset in ("valid", "test"):
        for name in (f"{subset}.de-en.de.bin", f"text/{subset}.tok.en"):
            assert (out / name).read_bytes() == (folders["data"] / name).read_bytes()


def test_forward_translation_and_the_other_direction(folders: dict[str, Path], tmp_path: Path) -> None:
    out = make(tmp_path / "forward", words(folders, "forward", SOURCE))
    assert text(out, "tok", SOURCE) == [substituted(line) for line in LINES]
    assert text(out, "tok", TARGET) == LINES
    # For the model from en to de, the text of its target is German; the folder's sides stay what they are.
    back = make(tmp_path / "reverse", [*words(folders, "back", SOURCE), "--reverse"])
    assert text(back, "tok", TARGET) == LINES
    assert json.loads((back / "preprocess.json").read_text())["target_lang"] == TARGET


def test_copied_text_is_the_same_on_both_sides(folders: dict[str, Path], tmp_path: Path) -> None:
    out = make(tmp_path / "out", words(folders, "copy"))
    for ending in ("bin", "idx"):
        assert (out / f"train.de-en.de.{ending}").read_bytes() == (out / f"train.de-en.en.{ending}").read_bytes()
    assert text(out, "tok", SOURCE) == LINES
    assert Substitution.calls == []


def test_tag_and_noise_are_on_the_synthetic_source_alone(folders: dict[str, Path], tmp_path: Path) -> None:
    command = [*words(folders, "back"), "--tag", "<BT>", "--noise", "blank=0.5,shuffle=2"]
    out = make(tmp_path / "out", command)
    assert text(out, "tok", TARGET) == LINES
    assert (out / "train.de-en.en.bin").read_bytes() == (folders[TARGET] / "mono.de-en.en.bin").read_bytes()
    sources = text(out, "tok", SOURCE)
    assert [line.split()[0] for line in sources] == ["<BT>"] * len(LINES)
    assert sum(line.split().count("<BT>") for line in sources) == len(LINES)
    blanks = sum(line.split().count("<BLANK>") for line in sources) / sum(len(line.split()) for line in LINES)
    assert 0.4 < blanks < 0.6
    types = read_types(out / "dict.de.txt")
    assert types[-2:] == ["<BT>", "<BLANK>"]
    assert text(out, "bpe", SOURCE)[0].split()[0] == "<BT>"
    record = json.loads((out / "preprocess.json").read_text())
    assert record["types"] == {"de": len(types), "en": len(types)}
    again = make(tmp_path / "again", [*command, "--seed", "2"])
    assert text(again, "tok", SOURCE) != sources


def test_distillation_keeps_sources_and_appends_real_pairs(folders: dict[str, Path], tmp_path: Path) -> None:
    out = make(tmp_path / "out", [*words(folders, "distil"), "--keep-real"])
    for kind in ("tok", "bpe"):
        for language in (SOURCE, TARGET):
            assert text(out, kind, language) == text(folders["data"], kind, language) * 2
    assert json.loads((out / "preprocess.json").read_text())["counts"]["train"]["real"] == 40


@pytest.mark.parametrize("kind", ["distil", "back"])
def test_distilled_pairs_say_which_text_data_was_like(folders: dict[str, Path], tmp_path: Path, kind: str) -> None:
    data, said = shutil.copytree(folders["data"], tmp_path / "data"), {"file": "news", "sha256": "x"}
    change_record(data, selected_on=said)
    out = make(tmp_path / kind, words({**folders, "data": data}, kind))
    record = json.loads((out / "preprocess.json").read_text())
    assert record.get("selected_on") == (said if kind == "distil" else None)


def test_of_several_translations_the_closest_is_taken(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def three(self: Substitution, lines: list[str], seed: str, done: object) -> list[list[str] | None]:
        right = [substituted(join_bpe(line)) for line in lines]
        return [["a b c", line + " m", line + " m m"] for line in right[:-1]] + [None]

    monkeypatch.setattr(Substitution, "__call__", three)
    out = make(tmp_path / "out", [*words(folders, "distil"), "--nbest", "3", "--closest"])
    assert text(out, "tok", TARGET) == [f"{line} m" for line in text(folders["data"], "tok", TARGET)[:-1]]
    assert json.loads((out / "preprocess.json").read_text())["counts"]["train"]["too_long"] == 1


def test_empty_and_uneven_pairs_are_counted_and_dropped(folders: dict[str, Path]) -> None:
    rules = PairRules(folders["data"] / "codes", (SOURCE, TARGET), synthetic_source=False, max_ratio=2)
    counts = Counter[str]()
    lines = [("a b", "a b")] * 6
    found = list(rules.pairs(lines, ["c", "", None, "a@@ b@@ c d e f", "a b c d e", "<unk> ab@@"], counts))
    assert [pair.target for pair in found] == ["c", "abc d e f", "<unk> ab"]
    assert found[2].target_bpe.split()[0] == "<unk>"
    assert counts == {"read": 6, "kept": 3, "empty": 1, "too_long": 1, "ratio": 1}
    # A word of which a piece is unknown is not spelt out.
    assert rules.segment("a<unk> ab").split()[0] == "<unk>"


# Stopping and sharing


@pytest.mark.parametrize("killed_after", [0, 1, 3])
def test_killed_and_resumed_it_gives_the_same_files(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    command = [*words(folders, "back"), "--batch-size", "4", "--noise", "shuffle=3"]
    whole = make(tmp_path / "whole", command)
    undisturbed = list(Substitution.calls)
    assert len(undisturbed) == 5
    Substitution.calls.clear()
    monkeypatch.setattr(Substitution, "stop_after", killed_after)
    with pytest.raises(KeyboardInterrupt, match=KILLED):
        make(tmp_path / "out", command)
    assert not (tmp_path / "out").exists()
    assert not [*tmp_path.rglob("*.tmp*")]
    monkeypatch.setattr(Substitution, "stop_after", None)
    assert contents(make(tmp_path / "out", command)) == contents(whole)
    assert undisturbed == Substitution.calls


def test_a_faulty_model_leaves_no_begun_work(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*words(folders, "back"), "--batch-size", "4"]
    with monkeypatch.context() as patch:
        patch.setattr(Substitution, "__init__", faulty)
        with pytest.raises(UserError, match=r"^a\.pt: must be whole, but is not$"):
            make(tmp_path / "out", command)
        assert not list(tmp_path.glob("out*"))
    monkeypatch.setattr(Substitution, "stop_after", 2)
    with pytest.raises(KeyboardInterrupt, match=KILLED):
        make(tmp_path / "out", command)
    monkeypatch.setattr(Substitution, "__init__", faulty)
    with pytest.raises(UserError, match=r"^a\.pt: must be whole, but is not$"):
        make(tmp_path / "out", command)
    assert len(list((tmp_path / "out.parts").glob("chunk-*.json"))) == 2


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "put"),
    [
        (f"valid.{SOURCE}-{TARGET}.{SOURCE}.bin", Path.unlink),
        (f"valid.{SOURCE}-{TARGET}.{TARGET}.idx", lambda path: path.write_bytes(b"MM")),
        (f"text/valid.tok.{TARGET}", a_pipe),
        (f"text/train.tok.{TARGET}", lambda path: path.write_bytes(b"\xff" + path.read_bytes()[1:])),
    ],
)
def test_what_the_end_reads_is_checked_at_the_beginning(
    folders: dict[str, Path], tmp_path: Path, name: str, put: Callable[[Path], object]
) -> None:
    data = shutil.copytree(folders["data"], tmp_path / "data")
    record = json.loads((data / "preprocess.json").read_text())
    (data / "preprocess.json").write_text(json.dumps({**record, "files": {}}))
    put(data / name)
    with pytest.raises(UserError, match=re.escape(name.removesuffix(".bin").removesuffix(".idx"))):
        make(tmp_path / "out", words({**folders, "data": data}, "distil"))
    assert not list(tmp_path.glob("out*"))


def faulty(*arguments: object) -> None:
    raise UserError("a.pt: must be whole, but is not")


@pytest.mark.parametrize("shards", [2, 3, 9])
def test_shards_give_the_same_files(folders: dict[str, Path], tmp_path: Path, shards: int) -> None:
    command = [*words(folders, "back"), "--batch-size", "4"]
    whole = make(tmp_path / "whole", command)
    undisturbed = sorted(Substitution.calls)
    Substitution.calls.clear()
    assert contents(make(tmp_path / "out", command, shards)) == contents(whole)
    assert sorted(Substitution.calls) == undisturbed


def test_another_command_does_not_take_over_the_work(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Substitution, "stop_after", 1)
    command = [*words(folders, "back"), "--batch-size", "4"]
    with pytest.raises(KeyboardInterrupt, match=r"^resume from the work done in .*out\.parts$"):
        make(tmp_path / "out", command)
    with pytest.raises(UserError, match=r"out\.parts was begun with seed 1, not 2; remove it or choose another OUT"):
        make(tmp_path / "out", [*command, "--seed", "2"])


def test_a_finished_folder_is_not_made_again_nor_work_begun_beside_it(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = make(tmp_path / "out", words(folders, "copy"))
    before = contents(out)
    for shards in (1, 2):
        make(out, words(folders, "copy"), shards)
        assert capsys.readouterr().out.endswith("out is up to date\n")
    with pytest.raises(UserError, match=r"out was made with seed 1, not 2; remove it or choose another OUT$"):
        make(out, [*words(folders, "copy"), "--seed", "2"])
    assert contents(out) == before
    assert not (tmp_path / "out.parts").exists()


def test_a_folder_of_another_command_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    for out, maker in [(folders["data"], "preprocess.sh"), (folders[TARGET], "binarise.sh")]:
        with pytest.raises(UserError, match=f"^{out} exists, and was made by {maker}; choose another OUT$"):
            make(out, words(folders, "copy"))
        assert not out.with_suffix(".parts").exists()
    with pytest.raises(UserError, match=r"own exists, and was not made by deepnmt synthesise; remove it or choose"):
        make(tmp_path / "own", words(folders, "copy"))


def test_a_truncated_chunk_is_named(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = with_out([*words(folders, "back"), "--batch-size", "4"], tmp_path / "out")
    synthesise.main([*command, "--shards", "2", "--shard", "0"])
    assert capsys.readouterr().out == "shard 0 of 2 is done; chunks that other shards have left: 2\n"
    chunk = tmp_path / "out.parts" / "chunk-000000.json"
    chunk.write_text("".join(chunk.read_text("utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(f"{chunk}: must have 32 lines, but has 31; remove it")):
        synthesise.main(command)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--shards", "2"], "^--shards and --shard must be given together$"),
        (["--shard", "0"], "^--shards and --shard must be given together$"),
        (["--shards", "2", "--shard", "2"], "^--shard must be at most 1, but is 2$"),
        (["--shards", "0", "--shard", "0"], "^--shards must be a whole number from 1 to 1000000, but is '0'$"),
    ],
)
def test_shards_that_are_none_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        synthesise.main(["copy", "data", "mono", str(tmp_path / "out"), *options])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("copy data out", "^copy must be followed by DATA, MONO and OUT"),
        ("distil a.pt data mono out", "^distil must be followed by TEACHER, DATA and OUT"),
        ("back a.pt data mono a:b", "^OUT must not contain a comma or a colon, but is 'a:b'$"),
        ("forth a.pt data mono out", "invalid choice: 'forth'"),
    ],
)
def test_places_that_are_missing_are_refused(command: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        synthesise.main(command.split())


# What is refused


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
        ("copy", TARGET, "--method greedy", "--method and --beam are for translating, which copy does not do"),
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
    for models in (":", "a.pt:", ""):
        command = ["back", models, str(folders["data"]), str(folders[TARGET])]
        fault = f"MODEL must be a checkpoint, or several with colons between them, but is '{models}'"
        refused(folders, tmp_path, command, fault)


def test_lines_of_validation_and_test_are_refused_unless_allowed(folders: dict[str, Path], tmp_path: Path) -> None:
    held = (folders["data"] / "text" / "test.tok.en").read_text("utf-8").splitlines()[2]
    changed = {**folders, TARGET: monolingual(tmp_path, folders["data"], TARGET, [*LINES[:9], held, held], [])}
    where = f"that {folders['data']} validates or tests on, but is line 3 of test, and so are 1 more; leave"
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
