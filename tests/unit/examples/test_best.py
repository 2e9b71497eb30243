"""best.sh around its trainings: choices by validation, tables, and curves from logs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import choices
import curves
import matplotlib
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from support.models import ROOT
from support.nbest_folders import save_model, text_folder

from deepnmt.checkpoints.data_fit import check_model
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError

EXAMPLE = ROOT / "examples" / "multi30k"
REFERENCE = [f"ein hund läuft im park nummer {number} ." for number in range(30)]


def result(folder: Path, valid: float, test: list[str] | None = None) -> Path:
    """A result's folder, and its translations of the test set."""
    folder.mkdir(parents=True)
    chosen = {"checkpoint": f"{folder.name}.pt", "data": "data", "beam": 5, "lenpen": 1.2, "valid": valid}
    (folder / "chosen.json").write_text(json.dumps(chosen))
    if test is not None:
        texts = folder / "test"
        texts.mkdir()
        for kind, lines in (("hyp", test), ("ref", REFERENCE)):
            for end in ("", ".tok"):
                (texts / f"{kind}{end}.de").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (texts / "generate.json").write_text(json.dumps({"target_lang": "de", "lowercase": True}))
        (texts / "scores.json").write_text("{}")
    return folder


def test_the_best_by_validation_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="there must be results to choose from, but there are none"):
        choices.best([])
    with pytest.raises(UserError, match=r"x: must have a chosen\.json, but has none"):
        choices.Choice.read(tmp_path / "x")
    for name, valid in (("mrt", 41.5), ("trained", 40.0), ("cooldown", 41.5)):
        result(tmp_path / name, valid)
    assert choices.best(choices.results(tmp_path)).checkpoint == "cooldown.pt"
    for arguments, wanted in (
        (["choose", str(tmp_path)], None),
        (["best", "lenpen", str(tmp_path / "trained"), str(tmp_path)], "1.2"),
        (["best", "checkpoint", str(tmp_path / "trained"), str(tmp_path / "mrt")], "mrt.pt"),
        (["settings", str(tmp_path)], "cooldown.pt\ndata\n5\n1.2"),
    ):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(sys, "argv", ["choices.py", *arguments])
            choices.main()
        printed = capsys.readouterr().out.strip()
        assert wanted is None or printed == wanted


def test_a_sweep_and_a_search_become_results(tmp_path: Path) -> None:
    best = {"checkpoint": "last5.pt", "beam": 10, "lenpen": 0.8, "tokenised BLEU": 41.2}
    (tmp_path / "best.json").write_text(json.dumps(best))
    choices.swept(tmp_path, Path("data"))
    assert choices.Choice.read(tmp_path) == (str(tmp_path / "last5.pt"), "data", 10, 0.8, 41.2)


def test_the_table_compares_with_the_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = [line.replace("hund", "katze") if number % 3 else line for number, line in enumerate(REFERENCE)]
    fair = [line.replace("park", "haus") if number % 5 == 0 else line for number, line in enumerate(REFERENCE)]
    result(tmp_path / "b-1", 40.0, fair)
    result(tmp_path / "b-2", 41.0, REFERENCE)
    result(tmp_path / "control-1", 39.0, bad)
    result(tmp_path / "unfinished", 50.0)
    choices.table(tmp_path, tmp_path / "table.tsv")
    lines = [line.split("\t") for line in (tmp_path / "table.tsv").read_text("utf-8").splitlines()]
    assert [line[0] for line in lines] == ["system", "control-1", "b-1", "b-2", "b, mean of 2 (+-: of seeds)"]
    assert all(len(line) == len(lines[0]) for line in lines)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    scores = [metric.corpus_score(text, [REFERENCE]).score for text in (bad, fair, REFERENCE)]
    assert [float(line[4]) for line in lines[1:4]] == pytest.approx(scores, abs=0.01)
    assert float(lines[2][6]) == pytest.approx(scores[1] - scores[0], abs=0.01)
    assert lines[1][6:8] == ["", ""]
    assert float(lines[2][7]) < 0.01
    assert [float(lines[4][3]), float(lines[4][4])] == pytest.approx([40.5, (scores[1] + scores[2]) / 2], abs=0.01)
    assert float(lines[4][5]) == pytest.approx((scores[2] - scores[1]) / 2**0.5, abs=0.01)
    assert "mean of 2" in capsys.readouterr().out


def test_ensembles_of_two_generations_have_no_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ensemble-1", "ensemble-2", "short-ensemble-1", "short-ensemble-2"):
        result(tmp_path / name, 40.0, REFERENCE)
    choices.table(tmp_path, tmp_path / "table.tsv")
    assert "mean" not in capsys.readouterr().out


LOG = """
2026 | INFO | train_inner | epoch 001:  50 / 62 loss=9, ups=0.5, num_updates=50, lr=1, gnorm=1, train_wall=1800, wall=9
2026 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9 | nll_loss 8.5 | bleu 1.5 | wps 1 | num_updates 62
2026 | INFO | train_inner | epoch 002:  38 / 62 loss=9, ups=0.5, num_updates=100, lr=1, train_wall=3600, wall=9
2026 | INFO | train_inner | epoch 003:  1 / 62 loss=9, ups=0.5, num_updates=150, lr=1, train_wall=999, wall=9
2026 | INFO | train_inner | epoch 002:  39 / 62 loss=9, ups=0.5, num_updates=101, lr=1, train_wall=36, wall=9
2026 | INFO | valid | epoch 002 | valid on 'valid' subset | loss 9 | nll_loss 7 | wps 1 | num_updates 124 | best_loss 7
"""


def test_a_model_of_both_directions_is_turned(tmp_path: Path) -> None:
    path, turned = save_model(tmp_path / "a.pt", languages=("de", "en")), tmp_path / "b.pt"
    choices.turn(path, "de", turned)
    assert CheckpointState.of(turned).options("task") == CheckpointState.of(path).options("task")
    choices.turn(path, "en", turned)
    before, after = (CheckpointState.of(each) for each in (path, turned))
    languages = [after.options("task")[f"{side}_lang"] for side in ("source", "target")]
    assert languages == ["en", "de"]
    assert all(torch.equal(value, after.tensors()[name]) for name, value in before.tensors().items())
    check_model(turned, text_folder(tmp_path / "data"), ("en", "de"))
    with pytest.raises(UserError, match=r"a\.pt: must translate en to de, but translates de to en"):
        check_model(path, tmp_path / "data", ("en", "de"))


def test_hours_of_a_training_that_was_resumed() -> None:
    first, second = curves.points(LOG.splitlines())
    assert first == (62, 0.5, 8.5, 1.5)
    # 150 updates were made, and those after 100 lost.
    assert second == (124, pytest.approx((1800 + 3600 + 36) / 3600), 7, None)


def test_hours_of_a_training_that_begins_with_another() -> None:
    line = "{'finetune_from_model': 'old/checkpoints/first/trained/checkpoint95.pt'} {'finetune_from_model': None}\n"
    assert curves.begins_with(line) == Path("old/checkpoints/first/trained/checkpoint95.pt")
    assert curves.name_of(curves.begins_with(line)) == "first"
    again = f"{line}'finetune_from_model': 'OUT/results/second/trained/last5.pt'"
    assert curves.name_of(curves.begins_with(again)) == "second"
    assert curves.begins_with("'finetune_from_model': None") is None
    curve = [curves.Point(62, 0.5, 8.0, None), curves.Point(124, 1.5, 7.0, 30.0)]
    found = dict.fromkeys(("first", "second", "third", "same"), curve)
    starts = {"first": None, "second": "first", "third": "second", "same": "same"}
    hours = {name: [point.hours for point in each] for name, each in curves.one_after_the_other(found, starts).items()}
    assert hours == {"first": [0.5, 1.5], "second": [2.0, 3.0], "third": [3.5, 4.5], "same": [0.5, 1.5]}


@pytest.mark.parametrize(
    ("values", "reach", "wanted"),
    [
        ([0.0, 38.0, 40.0], 10.0, (30.0, 40.0)),
        ([35.0, 40.0], 10.0, (35.0, 40.0)),
        ([12.0, 2.0], -1.5, (2.0, 3.5)),
        ([3.0, 2.0], -1.5, (2.0, 3.0)),
        ([2.0], -1.5, (2.0, 2.0)),
    ],
)
def test_the_axis_shows_where_trainings_end(values: list[float], reach: float, wanted: tuple[float, float]) -> None:
    low, high = curves.limits({"a": [(0.0, values[0])], "b": [(1.0, value) for value in values]}, reach)
    room = 0.03 * (wanted[1] - wanted[0]) or 0.5
    assert (low, high) == pytest.approx((wanted[0] - room, wanted[1] + room))


def test_seeds_of_a_recipe_are_one_line_of_the_legend(tmp_path: Path) -> None:
    names = ["control-1", "control-2", "student-2-1", "student-2-7", "merges-4k", "-1", "alone"]
    assert curves.recipes(names) == {
        "control": ["control-1", "control-2"], "student-2": ["student-2-1", "student-2-7"],
        "merges-4k": ["merges-4k"], "-1": ["-1"], "alone": ["alone"],
    }  # fmt: skip
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text as text
        curves.draw(tmp_path / "picture.svg", "BLEU", {name: [(0.0, 1.0), (1.0, 2.0)] for name in names}, 15)
    picture = (tmp_path / "picture.svg").read_text("utf-8")
    for shown in ("control (2 seeds)", "student-2 (2 seeds)", "merges-4k", "alone"):
        assert picture.count(f">{shown}<") == 1
    assert "control-1" not in picture
    # Two of one colour.
    assert picture.count("stroke: #1f77b4") == 2 + 1


def test_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["curves.py", str(tmp_path), str(tmp_path / "none" / "train.log")])
    with pytest.raises(UserError, match=r"must have checkpoints/\*/trained/train\.log, but has none$"):
        curves.main()
    log = tmp_path / "checkpoints" / "short-1" / "trained" / "train.log"
    log.parent.mkdir(parents=True)
    # Stopped before its first validation.
    log.write_text("".join(line for line in LOG.splitlines(keepends=True) if " | valid | " not in line))
    curves.main()
    assert capsys.readouterr().out == "nothing to draw: short-1: without validation\n"
    assert not list(tmp_path.glob("*.svg"))
    log.write_text(LOG)
    further = tmp_path / "checkpoints" / "r_drop-1" / "trained" / "train.log"
    further.parent.mkdir(parents=True)
    further.write_text(f"'finetune_from_model': '{log.parent}/checkpoint_last.pt'\n{LOG}")
    drawn: dict[str, Any] = {}
    draw = curves.draw

    def draw_and_note(path: Path, label: str, lines: Any, reach: float) -> None:
        drawn[path.stem] = lines
        # The highest BLEU and the lowest loss are the best.
        assert (reach > 0) == (path.stem == "bleu")
        draw(path, label, lines, reach)

    monkeypatch.setattr(curves, "draw", draw_and_note)
    curves.main()
    assert set(drawn) == {"bleu", "loss"}
    # LOG takes 5,436 seconds.
    assert drawn["bleu"] == {"short-1": [(0.5, 1.5)], "r_drop-1": [(pytest.approx(0.5 + 5436 / 3600), 1.5)]}
    for name in ("bleu", "loss"):
        assert "<svg" in (tmp_path / f"{name}.svg").read_text("utf-8")
    # What is begun with may be the other direction's.
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    place = tmp_path / "other" / "checkpoints" / "both-1"
    log.parent.parent.rename(place)
    further.write_text(f"'finetune_from_model': '{place}/trained/checkpoint_last.pt'\n{LOG}")
    curves.main()
    assert drawn["bleu"] == {"r_drop-1": [(pytest.approx(0.5 + 5436 / 3600), 1.5)]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stage", "tests"], "--stage must be one of data control .* pictures, but is 'tests'"),
        (["--member", "huge"], "--member must be a recipe .* without a teacher, but is 'huge'"),
        (["--member", "student"], "--member must be a recipe .* without a teacher, but is 'student'"),
        (["--student", "short"], "--student must be a recipe .* from student.yaml on, but is 'short'"),
        (["--student", "student:x"], "--student must be a whole number, but is 'x'"),
        (["--generations", "0"], "--generations must be at least 1, but is 0"),
        (["--students", "4"], "--students must be at most 2, but is 4"),
        (["--generation", "2"], "--generation must be at most 1, but is 2"),
        (["--direction", "fr-en"], "--direction must be en-de or de-en, but is 'fr-en'"),
        (["--seed", "x"], "--seed must be a whole number, but is 'x'"),
        (["--seed=2"], "--seed must be followed by a space and its value, but is '--seed=2'"),
        (["--jobs", "0"], "--jobs must be at least 1, but is 0"),
        (["--lenpens", "1,x"], "--lenpens must be numbers such as 1 or 0.8,1,1.2, but is '1,x'"),
        (["--jobs"], "option --jobs needs a value"),
    ],
)
def test_what_is_unknown_is_refused(arguments: list[str], message: str) -> None:
    command = [str(EXAMPLE / "best.sh"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(rf"best\.sh: error: {message}\n", done.stderr)


def test_nothing_to_translate_with_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    command = [str(EXAMPLE / "best.sh"), "--stage", "test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    last = f"best.sh: error: the stage test must have results to translate with, but {tmp_path}/best/results has none"
    assert done.stderr.splitlines()[-1] == last


def test_a_number_of_merges_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERGES", "many")
    done = subprocess.run([str(EXAMPLE / "best.sh")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "best.sh: error: MERGES must be a whole number, but is 'many'\n"
