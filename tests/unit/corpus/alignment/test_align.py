"""`deepnmt align` and align.sh: files, resuming, and refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import warm
from support.data_folders import data_folder
from support.flow import SCRIPTS, contents
from support.parallel_corpora import permuted_corpus, write_corpus

from deepnmt.cli import align
from deepnmt.corpus.alignment import align_job
from deepnmt.errors import UserError

LANGUAGES = ["--source-lang", "de", "--target-lang", "en"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pairs, _ = permuted_corpus(300, types=30)
    pairs[7] = ([], pairs[7][1])
    pairs[8] = (["s1"] * 500, ["t1"] * 500)
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus", pairs)


def make(out: Path, words: list[str], workers: int = 1) -> Path:
    align.main([*words[:1], str(out), *words[1:], "--workers", str(workers)])
    return out


def job(*words: str) -> align_job.AlignJob:
    return align.job_of(align.parser().parse_args([words[0], "out", *words[1:]]))


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("made") / "out", [str(corpus), *LANGUAGES, "--lexicon"])


def test_all_files_have_a_line_for_each_pair(made: Path) -> None:
    for name in ("forward.align", "reverse.align", "joined.align"):
        assert len(lines(made / name)) == 300
        assert [lines(made / name)[n] for n in (7, 8)] == ["", ""]
    header, *scores = lines(made / "scores.tsv")
    assert header == "align\talign_forward\talign_reverse\taligned"
    values = [[float(field) for field in line.split("\t")] for line in scores]
    assert len(values) == 300
    for row in values:
        assert row[0] == pytest.approx((row[1] + row[2]) / 2, rel=1e-4)
    assert values[7] == values[8] == [min(row[0] for row in values)] * 3 + [0]
    record = json.loads((made / "align.json").read_text())
    assert record["counts"]["pairs"] == 300
    assert len(record["counts"]["rounds"]) == 10


def test_lexicons_give_the_translation_first(made: Path) -> None:
    for name, header, own, other in (
        ("forward", "source\ttarget\tprobability", "s", "t"),
        ("reverse", "target\tsource\tprobability", "t", "s"),
    ):
        first, *entries = lines(made / f"lexicon.{name}.tsv")
        assert first == header
        best: dict[str, str] = {}
        for entry in entries:
            word, translation, probability = entry.split("\t")
            assert 1e-3 <= float(probability) <= 1
            best.setdefault(word, translation)
        assert best == {f"{own}{n}": f"{other}{n}" for n in range(30)}


def test_killed_and_resumed_in_several_processes_it_gives_the_same_files(
    corpus: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(align_job, "BLOCK", 64)
    out, words = tmp_path / "out", [str(corpus), *LANGUAGES, "--lexicon"]
    parts = tmp_path / "out.parts"

    def stopped(self: align_job.AlignJob, folder: Path) -> Any:
        """Aligns three blocks, and is then killed."""
        for block in list(missing(self, folder))[:3]:
            align_job._block_writer(self, folder)(block)
        raise KeyboardInterrupt

    missing = align_job.AlignJob._missing
    with monkeypatch.context() as patch:
        patch.setattr(align_job.AlignJob, "_missing", stopped)
        with pytest.raises(KeyboardInterrupt, match=r"^resume from the work done in .*out\.parts$"):
            make(out, words)
    assert (parts / "tables").is_dir()
    kept = {path: path.stat().st_mtime_ns for path in parts.glob("block-*")}
    assert len(kept) == 3
    times: dict[Path, int] = {}

    def finished(self: align_job.AlignJob, folder: Path, output: Path) -> Any:
        times.update({path: path.stat().st_mtime_ns for path in kept})
        return finish(self, folder, output)

    finish = align_job.AlignJob.finish
    monkeypatch.setattr(align_job.AlignJob, "finish", finished)
    make(out, words, workers=2)
    assert times == kept
    assert contents(out) == contents(made)
    assert not parts.exists()


def test_given_alignments_are_joined_and_counted(corpus: Path, made: Path, tmp_path: Path) -> None:
    given = ["--forward", str(made / "forward.align"), "--reverse", str(made / "reverse.align")]
    out = make(tmp_path / "out", [str(corpus), *LANGUAGES, "--lexicon", *given])
    assert lines(out / "joined.align") == lines(made / "joined.align")
    assert lines(out / "scores.tsv") == [line.split("\t")[3] for line in lines(made / "scores.tsv")]
    entries = [line.split("\t") for line in lines(out / "lexicon.forward.tsv")[1:]]
    assert {word: other for word, other, p in entries if float(p) > 0.5} == {f"s{n}": f"t{n}" for n in range(30)}


def test_raw_text_and_data_folders(tmp_path: Path) -> None:
    (tmp_path / "raw.de").write_text("Das Haus!\nDas Buch.\n", encoding="utf-8")
    (tmp_path / "raw.en").write_text("The house!\nthe book.\n", encoding="utf-8")
    out = make(tmp_path / "out", [str(tmp_path / "raw"), *LANGUAGES, "--raw"])
    assert lines(out / "joined.align") == ["0-0 1-1 2-2"] * 2
    data = data_folder(tmp_path / "data", lines=["a b c", "a b", "c"])
    assert lines(make(tmp_path / "of-data", [str(data)]) / "joined.align") == ["0-0 1-1 2-2", "0-0 1-1", "0-0"]
    assert job(str(data), "--subset", "valid").source == data / "text" / "valid.tok.de"
    assert job(str(data), "--subwords").target == data / "text" / "train.bpe.en"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["PREFIX"], "DATA must be a folder made by deepnmt preprocess, or a prefix with --source-lang and "),
        (["PREFIX", *LANGUAGES, "--subwords"], "--subwords needs a data folder, but DATA is a prefix"),
        (["PREFIX", *LANGUAGES, "--subset", "test"], "--subset needs a data folder, but DATA is '"),
        (
            ["DATA", *LANGUAGES],
            "--source-lang and --target-lang cannot be combined with a data folder, which has its own",
        ),
        (["DATA", "--raw"], "--raw needs a prefix, but DATA is '"),
        (["PREFIX", *LANGUAGES, "--rounds", "0"], "--rounds must be at least 1, but is 0"),
        (["PREFIX", *LANGUAGES, "--rounds", "41"], "--rounds must be at most 40, but is 41"),
        (["PREFIX", *LANGUAGES, "--learn-from", "0"], "--learn-from must be at least 1, but is 0"),
        (["PREFIX", *LANGUAGES, "--forward", "a"], "--forward and --reverse must be given together"),
        (
            ["PREFIX", *LANGUAGES, "--forward", "a", "--reverse", "b", "--rounds", "5"],
            "--rounds cannot be combined with ",
        ),
        (
            ["PREFIX", *LANGUAGES, "--forward", "a", "--learn-from", "9"],
            "--learn-from cannot be combined with --forward",
        ),
        (["PREFIX", *LANGUAGES, "--wrong"], "unrecognized arguments: --wrong"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    places = {"PREFIX": str(tmp_path / "none"), "DATA": str(tmp_path / "data")}
    data_folder(tmp_path / "data")
    with pytest.raises(UserError, match=f"^{message}"):
        job(*(places.get(word, word) for word in words))


def test_texts_that_do_not_fit_are_refused(corpus: Path, tmp_path: Path) -> None:
    for language in ("de", "en"):
        shutil.copyfile(f"{corpus}.{language}", tmp_path / f"text.{language}")
    words, out = [str(tmp_path / "text"), *LANGUAGES], tmp_path / "out"
    with pytest.raises(UserError, match=r"missing: text not found$"):
        make(out, [*words, "--forward", "missing", "--reverse", "missing"])
    given = tmp_path / "given"
    given.write_text("0-0\n0-99\n" + "\n" * 298)
    with pytest.raises(UserError, match=r"given:2: must link \d source and \d target words, but has 0-99$"):
        make(out, [*words, "--forward", str(given), "--reverse", str(given)])
    # Of work in which nothing was done, nothing stays.
    assert not (tmp_path / "out.parts").exists()
    (tmp_path / "out.parts").mkdir()
    record = job(*words, "--forward", str(given), "--reverse", str(given)).record()
    (tmp_path / "out.parts" / "align.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"out.parts was begun without learn-from 1000000; remove it or choose"):
        make(out, words)
    (tmp_path / "text.en").write_text("one line\n")
    with pytest.raises(
        UserError, match=r"text.de has 300 lines, but .*text.en has 1: line n of both must be one pair$"
    ):
        make(tmp_path / "other", words)
    (tmp_path / "text.de").write_text("\n")
    with pytest.raises(UserError, match=r"text.de: no pair has 1 to 100 words on each side$"):
        make(tmp_path / "other", words)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / "align.sh"), *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **warm.environment()}
    )


def test_the_command_makes_its_folder_once(corpus: Path, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(corpus, out, *LANGUAGES, "--lexicon", "--workers", 2).returncode == 0
    assert contents(out) == contents(made)
    assert not out.with_suffix(".parts").exists()
    again = run(corpus, out, *LANGUAGES, "--lexicon")
    assert (again.returncode, again.stdout) == (0, f"{out} is up to date\n")
    other = run(corpus, out, *LANGUAGES)
    assert other.returncode == 2
    assert other.stderr == (
        f"align.sh: error: {out} was made with lexicon True, not False; remove it or choose another OUT\n"
    )
    (out / "scores.tsv").write_text("")
    assert re.search(
        r"scores.tsv: must have the \d+ bytes of its record; remove .* to make it again\n",
        run(corpus, out, *LANGUAGES, "--lexicon").stderr,
    )
    assert run(corpus).stderr == "align.sh: error: the following arguments are required: OUT (see --help)\n"
