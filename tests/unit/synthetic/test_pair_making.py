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
from support.substitution import SOURCE, TARGET, Substitution, substituted
from support.synthesised import LINES, make, text, with_out, words

from deepnmt.cli import synthesise
from deepnmt.errors import UserError
from deepnmt.synthetic.pairs import PairRules
from deepnmt.text.data_folder import check_data_folder
from deepnmt.text.dictionary import read_types
from deepnmt.text.subwords import Bpe, join_bpe

pytestmark = pytest.mark.usefixtures("stub")
KILLED = r"^(killed|resume from the work done in .*out\.parts)$"


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
    with pytest.raises(UserError, match=r"out\.parts was begun with max-ratio 0.0, not 9.0; remove it or choose"):
        make(tmp_path / "out", [*command, "--max-ratio", "9"])


def test_a_finished_folder_is_not_made_again_nor_work_begun_beside_it(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = make(tmp_path / "out", words(folders, "copy"))
    before = contents(out)
    for shards in (1, 2):
        make(out, words(folders, "copy"), shards)
        assert capsys.readouterr().out.endswith("out is up to date\n")
    with pytest.raises(UserError, match=r"out was made with max-ratio 0.0, not 9.0; remove it or choose another OUT$"):
        make(out, [*words(folders, "copy"), "--max-ratio", "9"])
    assert contents(out) == before
    assert not (tmp_path / "out.parts").exists()


def test_a_folder_of_another_command_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    for out, maker in [(folders["data"], "deepnmt preprocess"), (folders[TARGET], "deepnmt binarise")]:
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
