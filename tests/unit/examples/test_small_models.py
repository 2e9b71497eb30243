"""The table of small models: the steps with stand-ins, figures of a real model folder, and what no other one beats."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import speed_table
from speed_table import Point, draw, front, table
from support.stand_ins import copy_beside, run_beside
from support.translation_models import write_checkpoint, write_data

from deepnmt.engines.engine import SearchSettings
from deepnmt.errors import UserError
from deepnmt.export.exporter import Export, export

# What a command leaves behind: a checkpoint, an average, a model folder; and the best of a folder of best.sh.
PYTHON = """case $* in
    *" train "*) mkdir -p "$6"; [[ -f $6/checkpoint_last.pt ]] || touch "$6/checkpoint_last.pt" ;;
    *" average "*) touch "$5" ;;
    *" export "*) mkdir -p "$6"; touch "$6/model.json" ;;
    *choices.py*) echo best-1.pt:best-2.pt ;;
esac
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example beside a stand-in for Python."""
    return copy_beside(
        tmp_path, ["examples/small_models", "configs/synthetic"], {"bin/python3": PYTHON, "bin/fairseq-train": ""}
    )


def run(root: Path, *words: str) -> tuple[int, list[str], str]:
    """Exit status, the calls of Python without the folders, and standard error."""
    status, calls, error = run_beside(root, "examples/small_models/run.sh", *words)
    return status, [call.removeprefix("python3 ").removeprefix("-m deepnmt ") for call in calls], error


def test_the_steps_and_what_is_left_of_them_the_second_time(root: Path) -> None:
    words = ("a.pt:b.pt", "data", "--recipes", "full_4_4,ssru_4_1", "--last", "3", "--test", "--max-update", "9")
    status, calls, error = run(root, *words)
    assert status == 0, error
    assert calls[:4] == [
        "synthesise distil a.pt:b.pt data out/distilled --nbest 5 --closest",
        "align data out/aligned --subwords --lexicon",
        "train configs/synthetic/full_4_4.yaml out/distilled out/checkpoints/full_4_4 --max-update 9",
        "average out/checkpoints/full_4_4 out/checkpoints/full_4_4/average.pt --last 3",
    ]
    average, lexicon = "out/checkpoints/ssru_4_1/average.pt", "out/aligned/lexicon.forward.tsv"
    assert [call for call in calls if "models/ssru_4_1" in call] == [
        f"export {average} data out/models/ssru_4_1.{weights}{listed} --engine torch --weights {weights} --check 1014 "
        f"--allow-loss{f' --shortlist 1000 --lexicon {lexicon}' if listed else ''}"
        for weights in ("float32", "int8")
        for listed in ("", ".list")
    ]
    last = "examples/small_models/speed_table.py out data --models full_4_4,ssru_4_1 --repetitions 3 --test"
    assert calls[-1] == last
    status, calls, error = run(root, *words)
    # The commands know themselves what is done.
    assert [call.split()[0] for call in calls[:-1]] == ["synthesise", "align", "train", "train"]
    # Nor would they be done again for another option.
    for option, value in (("--last", "4"), ("--engine", "onnx"), ("--check", "9"), ("--repetitions", "1")):
        status, calls, error = run(root, *words[:6], option, value)
        assert (status, calls) == (2, [])
        begun = "--last 3 --engine torch --check 1014 --repetitions 3"
        assert error.splitlines()[-1].endswith(f"/out, was begun with {begun}"), error


def test_the_teacher_may_be_the_best_of_a_folder(root: Path) -> None:
    (root / "best" / "results" / "ensemble-1").mkdir(parents=True)
    status, calls, error = run(root, str(root / "best"), "data", "--recipes", "ssru_4_1")
    assert status == 0, error
    assert calls[0] == "examples/multi30k/choices.py best checkpoint best/results/ensemble-1"
    assert calls[1].startswith("synthesise distil best-1.pt:best-2.pt data ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.pt",), "TEACHER and DATA must be given (see --help)"),
        (("a", "b", "--engine", "x"), "--engine must be torch or onnx, but is 'x'"),
        (("a", "b", "--last", "0"), "--last must be at least 1, but is 0"),
        (("a", "b", "--check", "x"), "--check must be a whole number, but is 'x'"),
        (("a", "b", "--repetitions", "101"), "--repetitions must be at most 100, but is 101"),
        (("a", "b", "--recipes", "none"), "--recipes must be names under configs/synthetic, but has 'none'"),
    ],
)
def test_faults_are_one_line(root: Path, words: tuple[str, ...], message: str) -> None:
    status, calls, error = run(root, *words)
    assert (status, calls) == (2, [])
    assert error.splitlines()[-1].endswith(message)


POINTS = [
    Point("full.float32", 1, 100.0, 40.0),
    Point("full.float32", 5, 50.0, 41.0),
    Point("full.int8.list", 5, 80.0, 40.5),
    Point("small.float32", 1, 250.0, 40.0),
    Point("small.float32", 5, 80.0, 39.0),
    Point("small.int8", 5, 80.0, 40.5),
]


def test_what_no_other_point_beats() -> None:
    """Equal ones stay both."""
    assert [point.folder for point in front(POINTS)] == [
        "full.float32",
        "full.int8.list",
        "small.int8",
        "small.float32",
    ]


def test_the_table() -> None:
    lines = table(POINTS, ["full", "small"], {"small.float32 greedy": 39.123}).splitlines()
    assert lines[0].startswith("| model | weights | shortlist | search | sentences/s | times full | BLEU |")
    assert lines[2] == "| full | float32 | no | greedy | 100 | 1.00 | 40.00 |  |  |"
    assert lines[4] == "| full | int8 | yes | beam 5 | 80 | 1.60 | 40.50 | yes |  |"
    assert lines[5] == "| small | float32 | no | greedy | 250 | 2.50 | 40.00 | yes | 39.12 |"
    assert len(lines) == 8


def test_figures_of_a_model_are_kept_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One folder in place of four, as its own and only student."""
    pytest.importorskip("matplotlib")
    data, out = write_data(tmp_path / "data"), tmp_path / "out"
    for language in ("de", "en"):
        lines = (data / "text" / f"valid.bpe.{language}").read_text("utf-8").splitlines(keepends=True)
        for subset in ("valid", "test"):
            (data / "text" / f"{subset}.bpe.{language}").write_text("".join(lines[:3]), encoding="utf-8")
    checkpoint = write_checkpoint(tmp_path / "1.pt", data)
    task = Export([checkpoint], data, "torch", check=0, search=SearchSettings(max_len_b=12))
    (out / "models").mkdir(parents=True)
    export(task, out / "models" / "full.float32")
    calls: list[Any] = []
    whole = speed_table.Model.translate
    monkeypatch.setattr(speed_table.Model, "translate", lambda self, beam: calls.append(beam) or whole(self, beam))
    monkeypatch.setattr(speed_table, "FORMATS", ("float32",))
    monkeypatch.setattr(speed_table, "LISTED", ("",))
    words = ["speed_table.py", str(out), str(data), "--models", "full", "--repetitions", "2"]
    monkeypatch.setattr("sys.argv", words)
    speed_table.main()
    # Once before the measurements.
    assert calls == [1, 1, 1, 5, 5, 5]
    saved = json.loads((out / "valid.json").read_text("utf-8"))["points"]
    assert [(name, beam) for name, beam, *_ in saved] == [("full.float32", 1), ("full.float32", 5)]
    assert all(speed > 0 and 0 <= bleu <= 100 for _, _, speed, bleu in saved)
    assert (out / "speed.svg").read_text("utf-8").startswith("<?xml")
    monkeypatch.setattr("sys.argv", [*words, "--test"])
    speed_table.main()
    assert len(calls) > 6
    tests, calls[:] = len(calls) - 6, []
    speed_table.main()
    assert not calls
    # The test set is the validation set here.
    scores = json.loads((out / "test.json").read_text("utf-8"))
    assert len(scores) == tests
    by_name = {f"{name} {speed_table.BEAMS[beam]}": bleu for name, beam, _, bleu in saved}
    assert scores == {name: pytest.approx(by_name[name], abs=0.01) for name in scores}
    os.utime(out / "models" / "full.float32" / "model.json", (2**33, 2**33))
    speed_table.main()
    assert calls[:6] == [1, 1, 1, 5, 5, 5]
    (out / "models" / "full.float32").rename(out / "models" / "full.float32.list")
    with pytest.raises(UserError, match=r"full\.float32\.list: must have shortlists as its name says; remove the fo"):
        speed_table.Model(out / "models" / "full.float32.list", data, "valid")


def test_the_picture_has_all_kinds(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(POINTS, ["full", "small"], tmp_path / "speed.svg")
    assert "BLEU on validation" in (tmp_path / "speed.svg").read_text("utf-8")
