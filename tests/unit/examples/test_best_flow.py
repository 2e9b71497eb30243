"""The stages of best.sh, the rows of study.sh and distil.sh, with stand-ins for what trains and translates."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import stand_ins
from support.models import ROOT
from support.processes import finish
from support.stand_ins import copy_of_example

# What a script of the flow leaves, in place of its work.
STANDS_IN = {
    "preprocess.sh": """while [[ $1 != --dest ]]; do shift; done
mkdir -p "$2"; echo '{"types": {"en": 9712}}' >"$2/preprocess.json\"""",
    "binarise.sh": "true",
    "train.sh": 'mkdir -p "$3"; touch "$3"/{checkpoint1,checkpoint_last,checkpoint_best}.pt "$3/train.log"',
    "average.sh": 'touch "$2"',
    "sweep.sh": """mkdir -p "$3"; touch "$3/sweep.json"; [[ -f $3/last5.pt ]] || touch "$3/last5.pt"
echo '{"checkpoint": "last5.pt", "beam": 5, "lenpen": 0.8, "tokenised BLEU": 40}' >"$3/best.json\"""",
    # The ensemble is best with a length penalty of 1.2, if that is tried.
    "generate.sh": 'mkdir -p "$3"; echo 39 >"$3/bleu"; [[ $* != *"--lenpen 1.2"* ]] || echo 43 >"$3/bleu"',
    "score.sh": 'echo "{\\"tokenised BLEU\\": {\\"score\\": $(<"$1/bleu")}}" >"$1/scores.json"',
    "synthesise.sh": "true",
    "mix.sh": "true",
}


def until(condition: Callable[[], bool]) -> None:
    """Wait for at most half a minute. Raises `AssertionError` if the condition is not met."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example, beside scripts that do nothing."""
    root = copy_of_example(tmp_path / "root", STANDS_IN)
    # The table and the pictures have tests of their own.
    example = root / "examples" / "multi30k"
    curves, choices = example / "curves.py", example / "choices.py"
    curves.write_text(curves.read_text("utf-8").replace("    console.run(main)", "    pass"), encoding="utf-8")
    text = choices.read_text("utf-8")
    choices.write_text(
        text.replace("        table(given.folder, given.output)", "        print('table')"), encoding="utf-8"
    )
    # The commands of the package, with a stand-in for one of them.
    works = {name: f'exec "{ROOT}/.venv/bin/{name}" "$@"' for name in ("python3", "fairseq-train")}
    works = {name: f"#!/usr/bin/env bash\n{work}\n" for name, work in works.items()}
    works["deepnmt-rerank"] = stand_ins.NOTE + 'out=${!#}; mkdir -p "$out"; echo 45 >"$out/bleu"\n'
    (root / "bin").mkdir()
    for name, work in works.items():
        (root / "bin" / name).write_text(work, encoding="utf-8")
        (root / "bin" / name).chmod(0o755)
    (root / "out" / "text").mkdir(parents=True)
    for split in ("train", "val", "test_2016_flickr"):
        for end in ("en", "de", "lc.norm.tok.en", "lc.norm.tok.de"):
            (root / "out" / "text" / f"{split}.{end}").write_text("a b\n")
    return root


def run(root: Path, script: str, *arguments: str) -> list[str]:
    """Return the calls of the scripts, without the folders of everything."""
    calls, _ = stand_ins.run(root, script, *arguments, DEEPNMT_PYTHON_BIN=str(root / "bin"))
    return [call.replace("out/best", "BEST") for call in calls]


def test_all_stages_and_again(root: Path) -> None:
    command = ["best.sh", "--seed", "1", "--seed", "7", "--students", "2", "--lr", "0.1"]
    calls = run(root, *command)
    members, students = (
        ":".join(f"{place}-{seed}/trained/last5.pt" for seed in (1, 7))
        for place in ("BEST/results/control", "BEST/results/student-2")
    )
    made = [call for call in calls if call.startswith(("train.sh", "synthesise.sh"))]
    train = "train.sh configs/multi30k"
    assert made == [
        # The control is the first member.
        *(
            f"{train}/control.yaml out/data BEST/checkpoints/control-{seed}/trained --seed {seed} --lr 0.1"
            for seed in (1, 7)
        ),
        # Students learn from both members.
        *(
            f"{train}/student.yaml out/data BEST/checkpoints/student-2-{seed}/trained "
            f"--seed {seed} --teacher {members} --lr 0.1"
            for seed in (1, 7)
        ),
        # Of the other direction, one member.
        f"{train}/control.yaml out/data BEST/de-en/checkpoints/control-1/trained "
        "--source-lang de --target-lang en --seed 1 --lr 0.1",
    ]
    tests = [call for call in calls if call.startswith("generate.sh") and "--subset test" in call]
    assert len(tests) == 2 * 3 + 1
    assert tests[0].startswith(f"generate.sh {members.split(':')[0]} out/data BEST/results/control-1/test ")
    # Students join their teachers.
    everything = f"{members}:{students}"
    for number, models in ((1, members), (2, everything)):
        result = f"BEST/results/ensemble-{number}/test"
        assert f"generate.sh {models} out/data {result} --subset test --beam 5 --lenpen 1" in tests
    # Weighted on validation; lists of the test set are not scored by themselves.
    place, rerank = "BEST/results/reranked", "deepnmt-rerank --nbest BEST/results/reranked/lists"
    more = "--features model --data out/data --reverse back=BEST/de-en/results/control-1/trained/last5.pt"
    options = "--beam 20 --nbest 20 --lenpen 1"
    assert [call for call in calls if "rerank" in call] == [
        f"generate.sh {everything} out/data {place}/lists.valid --subset valid {options}",
        f"{rerank}.valid {more} --tune --per-token {place}/valid",
        f"score.sh {place}/valid",
        f"generate.sh {everything} out/data {place}/lists.test --subset test {options}",
        f"{rerank}.test {more} --weights {place}/valid/weights.json {place}/test",
        f"score.sh {place}/test",
    ]
    sweeps = [call for call in calls if call.startswith("sweep.sh")]
    assert len(sweeps) == 5
    assert all("--last 1 --lenpen 1" in call for call in sweeps)
    # Once more: nothing is trained, translated or scored again; the other scripts see for themselves that all is there.
    again = {call.split()[0] for call in run(root, *command)}
    assert again == {"preprocess.sh", "binarise.sh"}


def test_reranking_follows_its_models(root: Path) -> None:
    stages = [word for stage in ("members", "ensemble", "rerank", "test") for word in ("--stage", stage)]
    command = ["best.sh", "--generations", "1", "--seed", "1", *stages]
    run(root, *command, "--direction", "de-en")
    # The other direction is there.
    calls = run(root, *command)
    assert not [call for call in calls if call.startswith("train.sh")]
    back = "back=BEST/de-en/results/control-1/trained/last5.pt"
    assert len([call for call in calls if call.startswith("deepnmt-rerank") and back in call]) == 2
    new = root / "out" / "best" / "results" / "control-1" / "trained" / "last5.pt"
    os.utime(new, (time.time() + 60, time.time() + 60))
    assert len([call for call in run(root, *command) if call.startswith("deepnmt-rerank")]) == 2
    # A newer model of the other direction alone: the lists stay.
    os.utime(new, (time.time() - 600, time.time() - 600))
    new = root / "out" / "best" / "de-en" / "results" / "control-1" / "trained" / "last5.pt"
    os.utime(new, (time.time() + 120, time.time() + 120))
    calls = run(root, *command)
    assert len([call for call in calls if call.startswith("deepnmt-rerank")]) == 2
    assert not [call for call in calls if call.startswith("generate.sh") and "lists" in call]


def test_generations(root: Path) -> None:
    """A third one learns from the two before it; one alone is done, and no further one."""
    given = ["--generations", "3", "--students", "2", "--jobs", "2"]
    calls = run(root, "best.sh", "--stage", "ensemble", "--stage", "members", *given)
    before = ("control-1", "control-2", "student-2-1", "student-2-2")
    teachers = ":".join(f"BEST/results/{name}/trained/last5.pt" for name in before)
    # Two at a time: either may be the first.
    third = sorted(call for call in calls if call.startswith("train.sh") and "student-3" in call)
    assert len(third) == 2
    assert third[0].endswith(f"--seed 1 --teacher {teachers}")
    assert third[1].endswith(f"--seed 2 --teacher {teachers}")
    assert (root / "out" / "best" / "results" / "ensemble-3" / "chosen.json").is_file()

    # Of each recipe, with the first seed or its own.
    (root / "configs" / "multi30k" / "student_deep.yaml").write_text("extends: student.yaml\n", encoding="utf-8")
    kinds = ["--student", "student_deep", "--student", "student:9", "--generation", "2"]
    for jobs in ("1", "2"):
        shutil.rmtree(root / "out" / "best" / "checkpoints")
        calls = run(root, "best.sh", "--stage", "members", *kinds, "--jobs", jobs)
        trained = {tuple(call.split()[1:4:2]) for call in calls if call.startswith("train.sh")}
        assert trained == {
            (f"configs/multi30k/{recipe}.yaml", f"BEST/checkpoints/{recipe}-2-{seed}/trained")
            for recipe, seed in (("student_deep", 1), ("student", 9))
        }

    # With --short, the teacher is the ensemble of short members.
    stages = ["--stage", "members", "--stage", "ensemble"]
    calls = run(root, "best.sh", "--short", *stages, "--generations", "2", "--students", "2")
    teachers = teachers.replace("control", "short").partition(":BEST/results/student")[0]
    taught = [call for call in calls if call.startswith("train.sh") and call.endswith(f"--teacher {teachers}")]
    assert len(taught) == 2

    # One student by default.
    alone = ["best.sh", "--stage", "members", "--generations", "3", "--generation", "2", "--seed", "5", "--seed", "6"]
    trained = [call.split()[3] for call in run(root, *alone) if call.startswith("train.sh")]
    assert trained == ["BEST/checkpoints/student-2-5/trained"]


def test_other_merges_have_a_folder_of_their_own(root: Path) -> None:
    calls, _ = stand_ins.run(
        root, "best.sh", "--stage", "data", "--stage", "members", "--seed", "1", "--generation", "1", MERGES="4000",
        DEEPNMT_PYTHON_BIN=str(root / "bin"),
    )  # fmt: skip
    (made,) = (call for call in calls if call.startswith("preprocess.sh"))
    assert "--bpe-merges 4000 --dest out/best-4000/data-like " in made
    (trained,) = (call for call in calls if call.startswith("train.sh"))
    assert trained == (
        "train.sh configs/multi30k/control.yaml out/best-4000/data-like "
        "out/best-4000/checkpoints/control-1/trained --seed 1"
    )
    calls, _ = stand_ins.run(root, "distil.sh", "real", MERGES="4000")
    trained = [call.split()[2:4] for call in calls if call.startswith("train.sh")]
    here = "out/distilled-4000/checkpoints"
    assert trained == [["out/best-4000/data-plain", f"{here}/{name}"] for name in ("teacher/trained", "seed-1/real")]


def test_the_other_direction_in_an_hour(root: Path) -> None:
    calls = run(root, "best.sh", "--short", "--direction", "de-en", "--limit", "40", "--lr", "0.1")
    here = "BEST/limit-40/de-en"
    way = "--source-lang de --target-lang en"
    # Two members at a time: either may be the first.
    assert sorted(call for call in calls if call.startswith("train.sh")) == [
        f"train.sh configs/multi30k/short.yaml BEST/limit-40/data-like {here}/checkpoints/short-{seed}/trained "
        f"{way} --seed {seed} --lr 0.1"
        for seed in (1, 2)
    ]
    # Of the ensemble on validation, one; of members and ensemble on test, one each.
    for name, number in (("sweep.sh", 2), ("generate.sh", 4), ("score.sh", 4)):
        found = [call for call in calls if call.startswith(name)]
        assert len(found) == number
        assert all(call.endswith("--reverse") for call in found)
    models = ":".join(f"{here}/results/short-{seed}/trained/last5.pt" for seed in (1, 2))
    together = [call.split()[3] for call in calls if call.startswith(f"generate.sh {models} ")]
    # Not the folder of the system without --short.
    assert together == [f"{here}/results/short-ensemble-1/{end}" for end in ("lenpen1", "test")]


def test_the_control_beside_the_system_of_an_hour(root: Path) -> None:
    calls = run(root, "best.sh", "--short", "--stage", "control", "--stage", "test")
    (trained,) = (call for call in calls if call.startswith("train.sh"))
    assert trained == "train.sh configs/multi30k/control.yaml out/data BEST/checkpoints/control-1/trained --seed 1"
    (tested,) = (call for call in calls if call.startswith("generate.sh"))
    assert "/control-1/trained/last5.pt out/data BEST/results/control-1/test --subset test" in tested


@pytest.mark.parametrize(("epochs", "last"), [(0, 1), (9, 9), (12, 10)])
def test_the_average_is_of_ten_epochs_as_far_as_there_are(root: Path, epochs: int, last: int) -> None:
    train = root / "scripts" / "train.sh"
    more = f'rm "$3/checkpoint1.pt"; for ((n = 1; n <= {epochs}; n++)); do touch "$3/checkpoint$n.pt"; done\n'
    train.write_text(train.read_text("utf-8") + more, encoding="utf-8")
    (swept,) = (call for call in run(root, "best.sh", "--stage", "control") if call.startswith("sweep.sh"))
    assert f" --last {last} --lenpen 1" in swept


@pytest.mark.parametrize("killed", [False, True])
def test_a_member_that_was_trained_further_is_averaged_again(root: Path, killed: bool) -> None:
    command = ["best.sh", "--stage", "control"]
    run(root, *command)
    result = root / "out" / "best" / "results" / "control-1" / "trained"
    assert not [call for call in run(root, *command) if call.startswith("sweep.sh")]
    (result / "last5.pt").write_text("old")
    os.utime(result / "sweep.json", (time.time() - 60, time.time() - 60))
    if killed:
        (result / "by").unlink()
    assert [call for call in run(root, *command) if call.startswith("sweep.sh")]
    # sweep.sh would refuse the folder of the checkpoints before.
    assert (result / "last5.pt").read_text() == ""


def test_members_at_a_time_share_the_cores_and_name_their_lines(root: Path) -> None:
    script = root / "scripts" / "train.sh"
    script.write_text(
        script.read_text("utf-8") + 'echo "threads $OMP_NUM_THREADS"\n[[ $3 != */short-2/* || -f $OUT/mended ]]\n',
        encoding="utf-8",
    )
    command = [str(root / "examples" / "multi30k" / "best.sh"), "--stage", "members", "--jobs", "3", "--short"]
    command += [word for seed in "123" for word in ("--seed", seed)]
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    environment |= {"OUT": str(root / "out"), "CALLS": str(root / "calls"), "DEEPNMT_PYTHON_BIN": f"{ROOT}/.venv/bin"}
    done = finish(command, env=environment)
    # One that fails is an error of all, and the others are trained to their end.
    assert done.returncode == 123
    share = max(1, len(os.sched_getaffinity(0)) // 3)
    for seed in (1, 2, 3):
        assert f"short:{seed}: threads {share}\n" in done.stdout
    chosen = root / "out" / "best" / "results"
    assert [(chosen / f"short-{seed}" / "chosen.json").is_file() for seed in (1, 2, 3)] == [True, False, True]
    (root / "out" / "mended").touch()
    done = finish(command, env=environment)
    assert done.returncode == 0
    assert (chosen / "short-2" / "chosen.json").is_file()


def test_an_ensemble_of_other_members_translates_anew(root: Path) -> None:
    first = ["best.sh", "--short", "--jobs", "1", "--stage", "members", "--stage", "ensemble", "--stage", "test"]
    calls = run(root, *first)
    assert len([call for call in calls if call.startswith("generate.sh")]) == 1 + 3
    assert not [call for call in run(root, *first) if call.startswith("generate.sh")]
    calls = [call for call in run(root, *first, "--seed", "1", "--seed", "3") if call.startswith("generate.sh")]
    models = ":".join(f"BEST/results/short-{seed}/trained/last5.pt" for seed in (1, 3))
    assert len([call for call in calls if call.startswith(f"generate.sh {models} ")]) == 1 + 1
    assert len(calls) == 1 + 2  # and the new member's test
    # The first ones again, which are older than the scores of the others.
    assert len([call for call in run(root, *first) if call.startswith("generate.sh")]) == 1 + 1
    run(root, *first, "--seed", "1", "--seed", "3")
    # A member that has been averaged again since.
    new = root / "out" / "best" / "results" / "short-3" / "trained" / "last5.pt"
    os.utime(new, (time.time() + 60, time.time() + 60))
    calls = [call for call in run(root, *first, "--seed", "1", "--seed", "3") if call.startswith("generate.sh")]
    assert len(calls) == 1 + 2


def test_penalties_compete_on_validation(root: Path) -> None:
    stages = [word for stage in ("members", "ensemble", "rerank") for word in ("--stage", stage)]
    command = ["best.sh", "--generations", "1", "--seed", "1", "--seed", "2", *stages]
    run(root, *command, "--lenpens", "1,1.2")
    calls = run(root, *command, "--lenpens", "0.8,1,1.2", "--jobs", "2")
    assert all("--lenpen 0.8,1,1.2" in call for call in calls if call.startswith("sweep.sh"))
    # Both members, and the other direction's.
    assert len([call for call in calls if call.startswith("sweep.sh")]) == 3
    found = [call for call in calls if call.startswith("generate.sh")]
    assert [call.split()[3].rpartition("/")[2] for call in found] == ["lenpen0.8"]
    chosen = root / "out" / "best" / "results" / "ensemble-1" / "chosen.json"
    assert json.loads(chosen.read_text("utf-8"))["lenpen"] == 1.2
    assert json.loads((chosen.parent.parent / "reranked" / "chosen.json").read_text("utf-8"))["lenpen"] == 1.2
    # One that was tried before does not compete.
    calls = run(root, *command)
    assert [call.split()[3].rpartition("/")[2] for call in calls if call.startswith("generate.sh")] == ["lists.valid"]
    assert json.loads(chosen.read_text("utf-8"))["lenpen"] == 1


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_members_at_a_time_end_together(root: Path, sent: int) -> None:
    script, pids = root / "scripts" / "train.sh", root / "pids"
    script.write_text(script.read_text("utf-8") + f'echo $$ >>"{pids}"; exec sleep 60\n', encoding="utf-8")
    environment = {**os.environ, "OUT": str(root / "out"), "CALLS": str(root / "calls")}
    environment["DEEPNMT_PYTHON_BIN"] = str(ROOT / ".venv" / "bin")
    command = [str(root / "examples" / "multi30k" / "best.sh"), "--short", "--stage", "members"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: pids.is_file() and len(pids.read_text().split()) == 2)
        process.send_signal(sent)
        assert process.wait(30) == (143 if sent == signal.SIGTERM else 130)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()))


def test_members_of_several_kinds_and_what_they_begin_with(root: Path) -> None:
    members = ("bi_simcut", "dlcl_8_3_simcut:4", "r_drop", "control")
    given = [word for member in members for word in ("--member", member)] + ["--seed", "2", "--generation", "1"]
    trained = [call for call in run(root, "best.sh", "--stage", "members", *given) if call.startswith("train.sh")]
    # R-Drop's control is the member, and trained once.
    assert [call.split()[1].removeprefix("configs/multi30k/") for call in trained] == [
        "bi.yaml", "bi_simcut.yaml", "dlcl_8_3_simcut.yaml", "control.yaml", "r_drop.yaml",
    ]  # fmt: skip
    assert "BEST/data-both " in trained[0]
    assert trained[1].endswith("--finetune-from-model BEST/checkpoints/bi-2/trained/checkpoint_best.pt")
    assert "--seed 4" in trained[2]
    assert "BEST/checkpoints/control-2/trained --seed 2" in trained[3]
    assert trained[4].endswith("--finetune-from-model BEST/checkpoints/control-2/trained/checkpoint_last.pt")


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
