"""The map of depth: the updates of equal hours, the steps of a run with stand-ins, and the report of all runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import depth_report
import pytest
import torch
from support.checkpoints import checkpoint
from support.stand_ins import copy_beside, run_beside

from deepnmt.errors import UserError
from deepnmt.runs import map_of_depth, seeds

SECONDS = "# text recipe seconds\nten dlcl_4 0.5\nten pre_24 2.03\nde dlcl_4 0.4\nde dlcl_6 0.5\n"
TUNED = "ten 4 0 0\nquarter 4 0.1 0\nde 4 0.1 0\nde 24 0.2 0\nquarter 24 0.3 0.05\n"
# Twelve validation pairs and eight training pairs of the ten languages.
LIBREOFFICE = """mkdir -p "$OUT/ten/text"
for side in mul en; do seq 12 >"$OUT/ten/text/valid.$side"; seq 8 >"$OUT/ten/text/train.$side"; done
"""
PYTHON = """echo "${OMP_NUM_THREADS-} thread, GPU '${CUDA_VISIBLE_DEVICES-}'" >"$CALLS.threads"
[[ $* != *update_probe* ]] || echo '{"seconds": 0.7, "processor seconds": 0.65, "updates": 0}' >"${!#}"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example beside stand-ins for all that prepares, trains and plans."""
    works = {"examples/libreoffice/run.sh": LIBREOFFICE, "scripts/preprocess.sh": "", "scripts/binarise.sh": ""}
    works |= {"bin/python3": PYTHON, "bin/fairseq-train": ""}
    copy_beside(tmp_path, ["examples/depth_map", "configs/depth_map"], works)
    for name, text in (("seconds", SECONDS), ("tuned", TUNED)):
        (tmp_path / "examples" / "depth_map" / f"{name}.tsv").write_text(text, encoding="utf-8")
    return tmp_path


def run(root: Path, *words: str) -> tuple[int, list[str], str]:
    """Exit status, the calls of stand-ins without the root, and standard error."""
    return run_beside(root, "examples/depth_map/run.sh", *words)


def test_a_run_has_the_updates_of_its_hours(root: Path) -> None:
    status, calls, error = run(
        root, "quarter", "dlcl_4,pre_24", "--hours", "0.25", "--seeds", "1,2", "--dropout", "0.3"
    )
    assert status == 0, error
    folder = "out/runs/quarter/0.25h--dropout0.3"
    assert [call.split()[0] for call in calls] == ["run.sh", "preprocess.sh", "binarise.sh", "python3"]
    assert calls[1] == (
        "preprocess.sh --source-lang mul --target-lang en --train out/corpus/ten/text/train --valid out/text/valid "
        "--test out/corpus/ten/text/test --protect out/corpus/ten/tags --bpe-merges 12000 --separate-dictionaries "
        "--dest out/data/ten"
    )
    assert calls[2] == "binarise.sh --like out/data/ten --train out/text/quarter --dest out/data/quarter"
    assert calls[3] == (
        f"python3 -m deepnmt seeds {folder}/dlcl_4.yaml,{folder}/pre_24.yaml out/data/quarter {folder} "
        "--seeds 1,2 --last 1 --subset valid --dropout 0.3"
    )
    assert (root / "out" / "text" / "valid.mul").read_text("utf-8").split() == ["1", "7"]
    assert (root / "out" / "text" / "quarter.en").read_text("utf-8").split() == ["1", "5"]
    # 900 s at 0.5 s, and at 2.03 s 443 updates, in twenties.
    texts = {name: (root / folder / f"{name}.yaml").read_text("utf-8").splitlines() for name in ("dlcl_4", "pre_24")}
    ends = ["keep-interval-updates: 1", "no-epoch-checkpoints: true", "validate-interval: 1000"]
    assert texts["dlcl_4"] == [
        f"extends: {root}/configs/depth_map/dlcl_4.yaml", "dropout: 0.1", "encoder-skip: 0", "max-update: 1800",
        "warmup-updates: 180", "cooldown-updates: 450", "validate-interval-updates: 180", "save-interval-updates: 180",
        *ends,
    ]  # fmt: skip
    assert texts["pre_24"] == [
        f"extends: {root}/configs/depth_map/pre_24.yaml", "dropout: 0.3", "encoder-skip: 0.05", "max-update: 440",
        "warmup-updates: 44", "cooldown-updates: 110", "validate-interval-updates: 44", "save-interval-updates: 44",
        *ends,
    ]  # fmt: skip


def test_a_run_has_one_thread_and_no_gpu(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, threads in ((None, "1"), ("3", "3")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if given:
            monkeypatch.setenv("OMP_NUM_THREADS", given)
        status, _, error = run(root, "de", "dlcl_4")
        assert status == 0, error
        assert (root / "calls.threads").read_text("utf-8") == f"{threads} thread, GPU ''\n"


def test_german_is_the_examples_own_data(root: Path) -> None:
    status, calls, error = run(root, "de", "dlcl_4", "--debs", "/debs", "--subset", "test")
    assert status == 0, error
    assert calls[0] == "run.sh de --debs /debs --text"
    assert calls[1] == (
        "preprocess.sh --source-lang de --target-lang en --train out/corpus/de/clean --valid out/corpus/de/text/valid "
        "--test out/corpus/de/text/test --bpe-merges 8000 --separate-dictionaries --dest out/data/de"
    )
    assert " out/data/de out/runs/de/0.25h --seeds 1 --last 1 --subset test" in calls[2]
    status, calls, error = run(root, "ten", "dlcl_4")
    assert status == 0, error
    assert " out/data/ten out/runs/ten/1h --seeds 1 " in calls[-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [("ten", ()), ("quarter", ()), ("de", ()), ("ten", ("--hours", "1.0")), ("de", ("--hours", "00.250"))],
)
def test_the_report_compares_the_runs_of_default_hours(root: Path, text: str, words: tuple[str, ...]) -> None:
    status, calls, error = run(root, text, "dlcl_4", *words)
    assert status == 0, error
    assert f" out/runs/{text}/{depth_report.BUDGETS[text]} --seeds 1 " in calls[-1]


def test_seconds_are_measured_for_each_recipe(root: Path) -> None:
    # Measured before, while the machine was free, and while it was not.
    (root / "out").mkdir()
    (root / "out" / "seconds.tsv").write_text("ten pre_4 0.6\nten dlcl_12 10.5\n", encoding="utf-8")
    status, calls, error = run(root, "seconds")
    assert status == 0, error
    assert sum(".update_probe costs " in call for call in calls) == 12
    lines = (root / "examples" / "depth_map" / "seconds.tsv").read_text("utf-8").splitlines()
    assert lines[0].startswith("# ")
    recipes = [f"{method}_{depth}" for method in ("dlcl", "pre") for depth in (4, 12, 24)]
    least = {"ten pre_4": "0.6"}
    names = [f"{text} {recipe}" for text in ("ten", "de") for recipe in recipes]
    assert lines[1:] == [f"{name} {least.get(name, '0.65')}" for name in names]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "TEXT and RECIPE must be given, or report (see --help)"),
        (("fr", "dlcl_4"), "TEXT must be ten, quarter or de, but is 'fr'"),
        (("de", "dlcl_4", "--hours", "x"), "--hours must be a number such as 0.25, but is 'x'"),
        (("de", "dlcl_4", "--hours", "0.002"), "seconds.tsv must have de and dlcl_4, and --hours time for 20 updates"),
        (("de", "none"), "seconds.tsv must have de and none, and --hours time for 20 updates"),
        (("de", "dlcl_6"), "tuned.tsv must have de and 6"),
    ],
)
def test_faults_are_one_line(root: Path, words: tuple[str, ...], message: str) -> None:
    status, calls, error = run(root, *words)
    assert status == 2
    assert error.splitlines()[-1].endswith(message)
    assert not [call for call in calls if "seeds" in call]


def trained(folder: Path, losses: dict[int, float], **bleu: float) -> None:
    """The folder of a seed, as `deepnmt seeds` leaves it, after an hour of processor time."""
    lines = [
        f"x | INFO | valid | epoch 001 | valid on 'valid' subset | nll_loss {loss} | ppl 8 | wps 1 | num_updates {n}"
        for n, loss in losses.items()
    ]
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "train.log").write_text("\n".join(lines), encoding="utf-8")
    state = checkpoint()
    extra = {**state["extra_state"], "processor_seconds": 3600.0}
    torch.save({**state, "extra_state": extra}, folder / "checkpoints" / "checkpoint_last.pt")
    # An average of an earlier end does not count.
    for place, more in (("update99.last1", -5.0), ("update100.last1", 0.0)):
        for subset, score in bleu.items():
            (folder / place / subset).mkdir(parents=True)
            text = json.dumps({"BLEU": {"score": score + more}})
            (folder / place / subset / "scores.json").write_text(text, encoding="utf-8")


def report(monkeypatch: pytest.MonkeyPatch, out: Path, seconds: str = SECONDS) -> None:
    (out / "seconds.tsv").write_text(seconds, encoding="utf-8")
    words = ["--seconds", str(out / "seconds.tsv"), "--runs", str(out / "runs.tsv"), "--pictures", str(out)]
    words += ["--gains", str(out / "gains.tsv")]
    monkeypatch.setattr("sys.argv", ["report", str(out), *words])
    depth_report.main()


def test_the_report_has_a_line_for_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    trained(runs / "ten" / "1h" / "pre_24" / "seed1", {100: 4.0, 200: 3.0}, valid=20.25, test=19.5)
    trained(runs / "ten" / "1h" / "dlcl_4" / "seed1", {300: 3.5, 600: 2.5, 300 + 1: 2.75}, valid=21.0)
    trained(runs / "quarter" / "0.25h--dropout0.3" / "pre_24" / "seed2", {10: 9.0})
    # Its recipe is not in the file of seconds, but it has another budget.
    trained(runs / "ten" / "1h--lr1" / "pre_12" / "seed1", {10: 9.0})
    report(monkeypatch, tmp_path)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert lines == [
        "| quarter | 0.25h--dropout0.3 | pre_24 | 2 | 10 | 1.00 | 9.000 |  |  |",
        # It was resumed from update 300, so that 600 does not count.
        "| ten | 1h | dlcl_4 | 1 | 301 | 1.00 | 2.750 | 21.00 |  |",
        "| ten | 1h | pre_24 | 1 | 200 | 1.00 | 3.000 | 20.25 | 19.50 |",
        "| ten | 1h--lr1 | pre_12 | 1 | 10 | 1.00 | 9.000 |  |  |",
    ]
    for name in ("losses.png", "depths.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    assert not (tmp_path / "gains.tsv").exists()
    # The file keeps them, and a training that has gone on replaces what it was.
    shutil.rmtree(runs / "quarter")
    shutil.rmtree(runs / "ten" / "1h" / "pre_24")
    trained(runs / "ten" / "1h" / "pre_24" / "seed1", {100: 4.0, 200: 3.0, 300: 2.875}, valid=20.5)
    report(monkeypatch, tmp_path)
    lines[2] = "| ten | 1h | pre_24 | 1 | 300 | 1.00 | 2.875 | 20.50 |  |"
    assert capsys.readouterr().out.splitlines()[2:] == lines
    columns = (tmp_path / "runs.tsv").read_text("utf-8").splitlines()[3].split("\t")
    assert columns == ["ten", "1h", "pre_24", "1", "1.0000", "20.50", "", "100:4 200:3 300:2.875"]


def test_a_point_of_the_picture_is_a_mean_over_seeds(tmp_path: Path) -> None:
    for layers, seed, score in ((24, 1, 20.0), (24, 2, 23.0), (4, 1, 21.0)):
        trained(tmp_path / "ten" / "1h" / f"pre_{layers}" / f"seed{seed}", {9: 4.0}, valid=score)
    trained(tmp_path / "ten" / "1h" / "dlcl_24" / "seed1", {9: 4.0})
    runs = list(depth_report.read_runs(tmp_path))
    assert depth_report.mean_bleu(runs, "pre") == [(4, 21.0), (24, 21.5)]
    assert depth_report.mean_bleu(runs, "dlcl") == []


def test_gains_on_the_test_sets_are_for_deepnmt_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(tmp_path / "runs" / "ten" / "1h" / "pre_24" / "seed1", {100: 4.0})
    record = {"counts": {"train": {"read": 9, "kept": 387_480}}}
    (tmp_path / "data" / "ten").mkdir(parents=True)
    (tmp_path / "data" / "ten" / "preprocess.json").write_text(json.dumps(record), encoding="utf-8")
    table = [seeds.Row("dlcl_4", (20.0, 22.0), 2.0), seeds.Row("dlcl_24", (22.0, 22.0, 25.0), 3.0, 2.0, 0.01)]
    seeds.write(table, tmp_path / "runs" / "ten" / "1h" / "test.json")
    # Of another text, which stays, and an earlier one of this.
    other = map_of_depth.Gain(46_050, 0.25, "pre_4", "dlcl_24", -1.0, 0.5, 0.02, 3)
    map_of_depth.write([other, other._replace(pairs=387_480)], tmp_path / "gains.tsv")
    report(monkeypatch, tmp_path)
    kept, gain = map_of_depth.read(tmp_path / "gains.tsv")
    assert kept == other
    # Variances of 2 and 3, of two and three seeds.
    assert gain == (387_480, 1.0, "dlcl_4", "dlcl_24", 2.0, pytest.approx(2**0.5), 0.01, 2)


@pytest.mark.parametrize("line", ["", "a b", "ten\t1h\tpre_4\t1\tx\t\t\t1:2", "ten\t1h\tpre_4\t1\t1\t\t\t1 2"])
def test_faults_of_kept_runs_are_one_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.tsv"
    path.write_text("\t".join(depth_report.COLUMNS) + f"\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"/runs\.tsv:2: must be text, budget, .* with tabs, but is '"):
        depth_report.keep([], path)
    # Another file, which would be replaced.
    path.write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"/runs\.tsv:1: must be text, budget, .* with tabs, but is 'a\tb'$"):
        depth_report.keep([], path)
    assert path.read_text("utf-8") == "a\tb\n"


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        ("ten pre_4\n", r":1: must be TEXT RECIPE SECONDS, but is 'ten pre_4'$"),
        ("ten pre_4 inf\n", r":1: must be TEXT RECIPE SECONDS"),
        ("# x\nten pre_4 x\n", r":2: must be TEXT RECIPE SECONDS, but is 'ten pre_4 x'$"),
        ("ten pre_4 -1\n", r":1: must be TEXT RECIPE SECONDS"),
        ("ten pre_4 nan\n", r":1: must be TEXT RECIPE SECONDS"),
        ("ten pre_4 1 2\n", r":1: must be TEXT RECIPE SECONDS"),
        ("ten pre_4 1\n", r": must have ten dlcl_4, but does not$"),
    ],
)
def test_faults_of_the_seconds_are_one_line(
    seconds: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "runs" / "quarter" / "0.25h" / "dlcl_4" / "seed1", {100: 4.0})
    with pytest.raises(UserError, match=rf"^{tmp_path}/seconds\.tsv{message}"):
        report(monkeypatch, tmp_path, seconds)
    assert not list(tmp_path.glob("*.png*"))


def test_a_report_needs_a_run_and_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"^no run has been validated yet$"):
        report(monkeypatch, tmp_path)
    (tmp_path / "depths.png").mkdir()
    with pytest.raises(UserError, match=r"/depths\.png: must be a file, but is a folder$"):
        report(monkeypatch, tmp_path)


def test_a_report_is_of_all_runs(root: Path) -> None:
    status, calls, error = run(root, "report")
    assert status == 0, error
    assert calls == [
        "python3 examples/depth_map/depth_report.py out --seconds examples/depth_map/seconds.tsv --pictures out "
        "--runs docs/depth_map.tsv --gains configs/depth_map/gains.tsv"
    ]
