"""`deepnmt clean`: which pairs are kept, in which order, what is counted, and that work can be resumed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from support.cleaned_corpora import GOOD, cleaned, read, write

from deepnmt.cli.clean import main
from deepnmt.corpus.cleaning import clean_steps
from deepnmt.corpus.cleaning.chunk_results import result_path
from deepnmt.corpus.cleaning.clean_job import CleanJob
from deepnmt.corpus.cleaning.decisions import Decisions, decide
from deepnmt.corpus.cleaning.outcome import EXAMPLES
from deepnmt.errors import UserError
from deepnmt.text.record import read_record, sha256

RECIPE = Path(__file__).resolve().parents[4] / "configs" / "clean.txt"


def stopped(monkeypatch: pytest.MonkeyPatch, prefix: Path, output: Path, *words: str) -> Path:
    """Work that is interrupted when all chunks are measured; returns its folder."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(clean_steps, "finish", stop)
        with pytest.raises(KeyboardInterrupt, match=r"resume from the work done in .*"):
            cleaned(prefix, output, *words)
    return output.with_name(f"{output.name}.parts")


def removed(output: Path) -> dict[str, int]:
    return read_record(Path(f"{output}.clean.json"))["removed"]


FAULTY = [
    ("length 1:6", ("Das ist ein Haus aus sieben Wörtern", "This is a house")),
    ("length 1:6", ("", "This is a house")),
    ("ratio 0.5:2", ("Haus", "This is a house")),
    ("ratio 0.5:2", ("Das ist ein Haus", "house")),
    ("max-word 12", ("Das Donaudampfschiff", "the steam boat")),
    ("script 0.5", ("Das ist Haus", "это дом this")),
    ("letters 0.5", ("Das ... !!! ???", "the ... !!!")),
    ("numbers 0", ("Das kostet 20 Euro", "It costs 30 euros")),
    ("no-copies 0.8", ("Das ist ein Haus", "das ist ein haus")),
    ("repeats 1", ("Das ist ein Haus", "This is is is")),
    ("dedup pair", ("Das ist ein Haus", "This is a house")),
]


def test_each_rule_removes_its_pairs_and_the_rest_keeps_its_order(tmp_path: Path) -> None:
    corpus = [GOOD[0]] + [pair for _, pair in FAULTY[:5]] + [GOOD[1]] + [pair for _, pair in FAULTY[5:]] + [GOOD[2]]
    filters = [word for name in dict.fromkeys(name for name, _ in FAULTY) for word in f"--{name}".split(" ")]
    rejected = tmp_path / "rejected"
    prefix = write(tmp_path / "corpus", corpus)
    assert cleaned(prefix, tmp_path / "out", *filters, "--chunk", "4", "--rejected", str(rejected)) == GOOD
    assert removed(tmp_path / "out") == Counter(name for name, _ in FAULTY)
    reasons = [line.split("\t") for line in Path(f"{rejected}.reason").read_text().splitlines()]
    assert [(reason, pair) for (_, reason), pair in zip(reasons, read(rejected))] == FAULTY
    assert [corpus[int(line) - 1] for line, _ in reasons] == [pair for _, pair in FAULTY]


def test_kept_and_rejected_are_the_input_byte_for_byte(tmp_path: Path) -> None:
    random = Random(5)
    signs = ["a", "b", " ", "\t", "\r", "\x85", "\u2028", "ü", "1", ""]
    corpus = [("".join(random.choices(signs, k=6)), "".join(random.choices(signs, k=6))) for _ in range(300)]
    prefix = write(tmp_path / "corpus", corpus)
    rejected = tmp_path / "rejected"
    kept = cleaned(
        prefix, tmp_path / "out", "--length", "2:3", "--dedup", "source", "--rejected", str(rejected), "--chunk", "37"
    )
    lines = [int(line.split("\t")[0]) - 1 for line in Path(f"{rejected}.reason").read_text().splitlines()]
    assert lines == sorted(lines)
    rest = iter(kept)
    gone = dict(zip(lines, read(rejected)))
    assert [gone[line] if line in gone else next(rest) for line in range(300)] == corpus
    assert 0 < len(kept) < 300


def test_only_pairs_that_came_so_far_count_as_the_first_of_duplicates(tmp_path: Path) -> None:
    corpus = [("a b", "x"), ("a b", "x y"), ("c d", "x y"), ("a b", "x y"), ("e f", "u v")]
    prefix = write(tmp_path / "corpus", corpus)
    kept = cleaned(prefix, tmp_path / "one", "--ratio", "1:1", "--dedup", "source", "--chunk", "2")
    assert kept == [corpus[1], corpus[2], corpus[4]]
    kept = cleaned(prefix, tmp_path / "two", "--dedup", "source", "--ratio", "1:1", "--chunk", "2")
    assert kept == [corpus[2], corpus[4]]
    kept = cleaned(prefix, tmp_path / "three", "--dedup", "target", "--chunk", "2")
    assert kept == [corpus[0], corpus[1], corpus[4]]
    kept = cleaned(prefix, tmp_path / "four", "--dedup", "--chunk", "2")
    assert kept == [*corpus[:3], corpus[4]]


def test_scores_of_a_file_are_a_filter(tmp_path: Path) -> None:
    prefix = write(tmp_path / "corpus", [("a", "b"), ("c", "d"), ("e", "f")])
    scores = tmp_path / "scores.tsv"
    scores.write_text("forward\tbackward\n-1\t0\n-3\t0\n-2\t1\n")
    kept = cleaned(prefix, tmp_path / "out", "--score-filter", f"{scores}:forward >= -2", "--chunk", "2")
    assert kept == [("a", "b"), ("e", "f")]


def test_faults_are_found_by_kind(dirty: tuple[Path, list[str]], tmp_path: Path) -> None:
    prefix, kinds = dirty
    rejected = tmp_path / "rejected"
    cleaned(prefix, tmp_path / "out", "--recipe", str(RECIPE), "--rejected", str(rejected), "--chunk", "500")
    lines = [line.split("\t") for line in Path(f"{rejected}.reason").read_text().splitlines()]
    gone, total = Counter(kinds[int(line) - 1] for line, _ in lines), Counter(kinds)
    recall = {kind: gone[kind] / total[kind] for kind in total}
    assert min(recall[kind] for kind in ("copied", "language", "repeated", "numbers")) > 0.98, recall
    assert recall["good"] < 0.02, recall
    # What only a dictionary could find; those few whose lengths do not fit are found.
    assert max(recall["shuffled"], recall["cut"]) < 0.7, recall


def test_any_number_of_processes_and_starts_gives_the_same_files(
    dirty: tuple[Path, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prefix, _ = dirty
    words = ["--recipe", str(RECIPE), "--chunk", "700"]
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole = cleaned(prefix, tmp_path / "one" / "out", *words, workers=2)
    assert capsys.readouterr().out.endswith("/one/out.report.html\n")
    parts = stopped(monkeypatch, prefix, tmp_path / "two" / "out", *words)
    # What a kill in the middle leaves: chunks that are missing, a file that is not whole.
    stamps = {}
    for chunk in range(7):
        if chunk % 2:
            result_path(parts, chunk).unlink()
        else:
            stamps[chunk] = result_path(parts, chunk).stat().st_mtime_ns
    (parts / "chunk-000001.npz.tmp.1").write_bytes(b"half")
    found: dict[int, int] = {}

    def noted(job: CleanJob, folder: Path) -> Decisions:
        found.update({chunk: result_path(folder, chunk).stat().st_mtime_ns for chunk in stamps})
        return decide(job, folder)

    monkeypatch.setattr(clean_steps, "decide", noted)
    assert cleaned(prefix, tmp_path / "two" / "out", *words) == whole
    assert found == stamps
    assert not parts.exists()
    for end in ("de", "en", "report.txt", "report.html", "clean.json"):
        assert (tmp_path / "one" / f"out.{end}").read_bytes() == (tmp_path / "two" / f"out.{end}").read_bytes()
    capsys.readouterr()
    cleaned(prefix, tmp_path / "two" / "out", *words)
    assert capsys.readouterr().out == f"{tmp_path}/two/out is up to date\n"


def test_reports_have_numbers_and_examples(dirty: tuple[Path, list[str]], tmp_path: Path) -> None:
    prefix, _ = dirty
    hostile = write(
        tmp_path / "hostile", [*read(prefix), *[("<script>alert(1)</script> & 7", "x 8\x1b[31m") for _ in range(9)]]
    )
    kept = cleaned(hostile, tmp_path / "out", "--numbers", "--ratio-sigma", "--dedup")
    text, page = (Path(f"{tmp_path}/out.report.{end}").read_text("utf-8") for end in ("txt", "html"))
    counts = removed(tmp_path / "out")
    assert sum(counts.values()) + len(kept) == 4509
    for label, number in counts.items():
        assert re.search(rf"^{label} .* {number:,} ", text, re.MULTILINE)
        assert f"<td>{number:,}</td>" in page
    assert text.count("  line ") == sum(min(number, EXAMPLES) for number in counts.values())
    assert "\x1b" not in text + page
    assert "<script" not in page
    assert page.count("<svg") == 2
    assert not re.search(r"https?://|src=|@import|url\(", page)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"a filter must be given, as an option or in a --recipe, but there is none"),
        (["--ratio", "2:1"], r"--ratio: must have a low bound that is at most the high one, but is 2:1"),
        (["--ratio"], r"argument --ratio: expected one argument"),
        (["--chunk", "0", "--dedup"], r"--chunk must be a whole number from 1 to 1000000, but is '0'"),
        (["--nonsense"], r"unrecognized arguments: --nonsense"),
        (["--score-filter", "none.tsv >= 1"], r"none\.tsv"),
    ],
)
def test_refused_options(tmp_path: Path, words: list[str], message: str) -> None:
    prefix = write(tmp_path / "corpus", [("a", "b")])
    with pytest.raises((UserError, FileNotFoundError), match=message):
        cleaned(prefix, tmp_path / "out", *words)
    assert not (tmp_path / "out.parts").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tlh", "--target-lang", "en", "--script"], r"script: the language must be one of af, .*, but is tlh$"),
        # No data folder can have it.
        (
            ["de", "--target-lang", "en.x", "--numbers"],
            r"^--target-lang must be a language such as de, but is 'en\.x'$",
        ),
    ],
)
def test_refused_languages(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        main(["--input", "x", "--output", "y", "--source-lang", *words])


def test_a_filter_that_removes_all_is_refused(tmp_path: Path) -> None:
    prefix = write(tmp_path / "corpus", [("a b", "c"), ("d", "e")])
    with pytest.raises(UserError, match=r"ratio 5:6: must leave pairs, but removes all 1 that come as far"):
        cleaned(prefix, tmp_path / "out", "--length", "1:1", "--ratio", "5:6", "--dedup")
    assert not Path(f"{tmp_path}/out.de").exists()
    # Others may follow.
    assert not (tmp_path / "out.parts").exists()
    assert cleaned(prefix, tmp_path / "out", "--length", "1:1") == [("d", "e")]


def test_a_faulty_classifier_is_read_before_any_work(tmp_path: Path) -> None:
    prefix = write(tmp_path / "corpus", [("a b", "c"), ("d", "e")])
    (tmp_path / "classifier.json").write_text("none")
    options = ["--length", "1:9", "--classifier", str(tmp_path / "classifier.json"), "--keep-best", "1"]
    with pytest.raises(UserError, match=r"classifier\.json cannot be read: Expecting value"):
        cleaned(prefix, tmp_path / "out", *options)
    assert not (tmp_path / "out.parts").exists()


def test_files_of_other_lengths_are_refused(tmp_path: Path) -> None:
    prefix = write(tmp_path / "corpus", [("a", "b"), ("c", "d")])
    scores = tmp_path / "scores"
    scores.write_text("1\n")
    with pytest.raises(UserError, match=r"corpus\.de has 2 lines, but .*scores has 1: line n of both must be one pair"):
        cleaned(prefix, tmp_path / "out", "--score-filter", f"{scores} >= 1")


def test_work_begun_or_done_with_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = write(tmp_path / "corpus", GOOD)
    stopped(monkeypatch, prefix, tmp_path / "out", "--numbers")
    with pytest.raises(UserError, match=r"out\.parts was begun with filters numbers 0, not numbers 1; remove it"):
        cleaned(prefix, tmp_path / "out", "--numbers", "1")
    (tmp_path / "out.parts" / "job.json").unlink()
    result_path(tmp_path / "out.parts", 0).write_bytes(b"of other filters")
    assert cleaned(prefix, tmp_path / "out", "--numbers") == GOOD
    write(prefix, GOOD[:2])
    with pytest.raises(UserError, match=r"out\.clean\.json was made with another input: source; remove it"):
        cleaned(prefix, tmp_path / "out", "--numbers")
    with pytest.raises(UserError, match="--output must be another prefix than --input"):
        cleaned(prefix, prefix, "--numbers")
    write(tmp_path / "other", GOOD)
    with pytest.raises(UserError, match=r"other\.de exists, and was not made by deepnmt clean; remove it"):
        cleaned(prefix, tmp_path / "other", "--numbers")


def test_records_of_version_0_1_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prefix = write(Path("corpus"), GOOD)
    options: dict[str, object] = {
        "source_lang": "de", "target_lang": "en", "filters": ["length 3:9"], "chunk": 20000, "lexicon": "",
        "language_models": [], "classifier": "", "train_classifier": False, "rank_by": "", "keep_best": "",
        "keep_unseen": 0, "seed": 1, "scores": "", "rejected": "",
        "inputs": {"source": sha256(Path("corpus.de")), "target": sha256(Path("corpus.en"))},
    }  # fmt: skip
    # Of begun work it also had what has become of the command line.
    Path("out.parts").mkdir()
    begun = {"record": options, "output": "out", "input": "corpus", "options": {}, "files": {}}
    Path("out.parts/job.json").write_text(json.dumps(begun))
    with pytest.raises(UserError, match=r"^out\.parts was begun with filters length 3:9, not length 3:8; remove"):
        cleaned(prefix, Path("out"), "--length", "3:8")
    assert cleaned(prefix, Path("out"), "--length", "3:9") == [GOOD[0], GOOD[2]]
    assert read_record(Path("out.clean.json")) == {
        "job": options,
        "counts": {"read": 3, "kept": 2, "unseen": 0},
        "removed": {"length 3:9": 1},
        "files": {end: Path(f"out.{end}").stat().st_size for end in ("de", "en", "report.txt", "report.html")},
    }
    capsys.readouterr()
    cleaned(prefix, Path("out"), "--length", "3:9")
    assert capsys.readouterr().out == "out is up to date\n"


def test_no_file_is_overwritten_and_folders_are_made(tmp_path: Path) -> None:
    prefix = write(tmp_path / "corpus", GOOD)
    mine = write(tmp_path / "mine", GOOD[:1])
    for words in (["--rejected", str(mine)], ["--score", f"{prefix}.de"], ["--score", f"{mine}.en"]):
        with pytest.raises(UserError, match=r"(mine|corpus)\.(de|en) exists, and was not made by deepnmt clean"):
            cleaned(prefix, tmp_path / "out", "--length", "3:9", *words)
    assert read(prefix) == GOOD
    new = tmp_path / "new"
    words = ["--rejected", str(new / "rest" / "bad"), "--score", str(new / "scores" / "all.tsv")]
    assert cleaned(prefix, new / "out", "--length", "3:9", *words) == [GOOD[0], GOOD[2]]
    assert read(new / "rest" / "bad") == [GOOD[1]]
    assert (new / "scores" / "all.tsv").exists()


@pytest.mark.parametrize("name", ["out.en", "out.report.html", "bad.reason", "all.tsv"])
def test_a_result_that_has_lost_a_file_is_not_up_to_date(tmp_path: Path, name: str) -> None:
    prefix = write(tmp_path / "corpus", GOOD)
    words = ["--length", "3:9", "--rejected", str(tmp_path / "bad"), "--score", str(tmp_path / "all.tsv")]
    cleaned(prefix, tmp_path / "out", *words)
    size = (tmp_path / name).stat().st_size
    (tmp_path / name).write_bytes(b"x")
    message = rf"{name}: must have the {size} bytes of its record; remove the result's files to make it again$"
    with pytest.raises(UserError, match=message):
        cleaned(prefix, tmp_path / "out", *words)
    (tmp_path / name).unlink()
    with pytest.raises(UserError, match=message):
        cleaned(prefix, tmp_path / "out", *words)
