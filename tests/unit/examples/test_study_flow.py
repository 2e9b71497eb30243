"""The rows of study.sh and distil.sh, with stand-ins for what trains and translates."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import best_flow, stand_ins
from support.best_flow import run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example, beside scripts that do nothing."""
    return best_flow.copy(tmp_path / "root")


def test_a_row_of_the_study_trains_what_it_begins_with(root: Path) -> None:
    calls = run(root, "study.sh", "cooldown", "merges-2k")
    trained = [call for call in calls if call.startswith("train.sh")]
    folder, results = "BEST/study/checkpoints", "BEST/study/results"
    names = ("merges-2k", "start", "plain", "cooldown")
    assert [call.split()[3] for call in trained] == [f"{folder}/{name}/trained" for name in names]
    assert "BEST/study/data-2000 " in trained[0]
    assert f"--finetune-from-model {results}/start/trained/last5.pt" in trained[2]
    assert f"--finetune-from-model {results}/plain/trained/last5.pt" in trained[3]
    lines = (root / "out" / "best" / "study" / "study.tsv").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["row", "merges-2k", "start", "plain", "cooldown"]


def test_students_of_a_teacher(root: Path) -> None:
    calls = run(root, "distil.sh", "--lr", "0.1")
    here = "out/distilled"
    teacher = f"{here}/results/teacher/trained/last5.pt"
    student = "train.sh configs/multi30k/../synthetic/student.yaml"
    students, options = f"{here}/checkpoints/seed-1", "--seed 1 --lr 0.1"
    assert [call for call in calls if call.startswith(("train.sh", "synthesise.sh", "mix.sh"))] == [
        f"train.sh configs/multi30k/short.yaml BEST/data-plain {here}/checkpoints/teacher/trained {options}",
        f"{student} BEST/data-plain {students}/real {options}",
        f"synthesise.sh distil {teacher} BEST/data-plain {here}/pairs/distilled",
        f"{student} {here}/pairs/distilled {students}/distilled {options}",
        f"synthesise.sh distil {teacher} BEST/data-plain {here}/pairs/closest --nbest 5 --closest",
        f"{student} {here}/pairs/closest {students}/closest {options}",
        f"synthesise.sh distil {teacher} BEST/data-plain {here}/pairs/distilled",
        f"mix.sh {here}/pairs/both BEST/data-plain {here}/pairs/distilled",
        f"{student} {here}/pairs/both {students}/both {options}",
    ]
    tests = [call.split()[1:] for call in calls if call.startswith("generate.sh")]
    results = ["teacher/trained", *(f"seed-1/{row}" for row in ("real", "distilled", "closest", "both"))]
    for number, result in enumerate(results):
        place = f"{here}/results/{result}"
        choice = [f"{place}/last5.pt", "BEST/data-plain"]
        assert tests[2 * number] == [*choice, f"{place}/test", *["--subset", "test", "--beam", "5", "--lenpen", "0.8"]]
        assert tests[2 * number + 1] == [*choice, f"{place}/test.greedy", *["--subset", "test", "--beam", "1"]]
    assert len(tests) == 2 * len(results)


def test_a_row_of_a_given_teacher(root: Path) -> None:
    (root / "a.pt").touch()
    calls, printed = stand_ins.run(root, "distil.sh", "both", TEACHER=f"{root}/a.pt:{root}/a.pt", SEED="3")
    made = [call.split()[0] for call in calls if "distilled" in call and not call.startswith(("generate", "score"))]
    assert made == ["synthesise.sh", "mix.sh", "train.sh", "sweep.sh"]
    assert "synthesise.sh distil a.pt:a.pt out/best/data-plain out/distilled/pairs/distilled" in calls
    # Its validation comes from the sweep, and its teacher was given.
    rows = [line.split() for line in printed.splitlines() if line.startswith(("seed-3", "teacher"))]
    assert rows == [["seed-3/both", "40.00", "39.00", "39.00"], ["teacher/given", "39.00", "39.00"]]
    # Another teacher, of the same time, has scores of its own; the same one keeps them.
    shutil.copy2(root / "a.pt", root / "b.pt")
    for teacher, translated in (("b.pt", 2), ("b.pt", 0), ("a.pt", 2)):
        calls, _ = stand_ins.run(root, "distil.sh", "real", TEACHER=f"{root}/{teacher}", SEED="3")
        assert len([call for call in calls if call.startswith(f"generate.sh {teacher} ")]) == translated
