"""The stages of best.sh, with stand-ins for what trains and translates."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import best_flow, stand_ins
from support.best_flow import run
from support.models import ROOT
from support.processes import finish

from deepnmt.cli.rerank import parse as parse_rerank


def until(condition: Callable[[], bool]) -> None:
    """Wait for at most half a minute. Raises `AssertionError` if the condition is not met."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def content(path: Path) -> bytes:
    """Return what a file has that may be gone by now."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example, beside scripts that do nothing."""
    return best_flow.copy(tmp_path / "root")


def test_all_stages_and_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["best.sh", "--member", "r_drop", "--seed", "1", "--seed", "7", "--generations", "2", "--students", "2"]
    command += ["--lr", "0.1"]
    calls = run(root, *command)
    members, students = (
        ":".join(f"{place}-{seed}/trained/last5.pt" for seed in (1, 7))
        for place in ("BEST/results/r_drop", "BEST/results/student-2")
    )

    def training(recipe: str, save: str, seed: int, more: str = "", place: str = "BEST", way: str = "") -> str:
        folder = f"{place}/checkpoints/{save}-{seed}/trained"
        return f"train.sh configs/multi30k/{recipe}.yaml out/data {folder} {way}--seed {seed}{more} --lr 0.1"

    def both(seed: int, place: str = "BEST", way: str = "") -> list[str]:
        start = f" --finetune-from-model {place}/checkpoints/control-{seed}/trained/checkpoint_last.pt"
        return [
            training("control", "control", seed, "", place, way), training("r_drop", "r_drop", seed, start, place, way)
        ]  # fmt: skip

    assert [call for call in calls if call.startswith(("train.sh", "synthesise.sh"))] == [
        # The control is what the first member begins with.
        *both(1),
        *both(7),
        # Students learn from both members.
        *(training("student", "student-2", seed, f" --teacher {members}") for seed in (1, 7)),
        # Of the other direction, one member.
        *both(1, "BEST/de-en", "--source-lang de --target-lang en "),
    ]
    tests = [call for call in calls if call.startswith("generate.sh") and "--subset test" in call]
    assert len(tests) == 1 + 2 * 3 + 1
    assert tests[0].startswith(
        "generate.sh BEST/results/control-1/trained/last5.pt out/data BEST/results/control-1/test "
    )
    # Students join their teachers.
    everything = f"{members}:{students}"
    for number, models in ((1, members), (2, everything)):
        result = f"BEST/results/ensemble-{number}/test"
        assert f"generate.sh {models} out/data {result} --subset test --beam 5 --lenpen 1" in tests
    # Weighted on validation; lists of the test set are not scored by themselves.
    place, rerank = "BEST/results/reranked", "python3 -m deepnmt rerank --nbest BEST/results/reranked/lists"
    more = "--features model --data out/data --reverse back=BEST/de-en/results/r_drop-1/trained/last5.pt"
    options = "--beam 20 --nbest 20 --lenpen 1"
    assert [call for call in calls if "rerank" in call] == [
        f"generate.sh {everything} out/data {place}/lists.valid --subset valid {options}",
        f"{rerank}.valid {more} --tune --per-token {place}/valid",
        f"score.sh {place}/valid",
        f"generate.sh {everything} out/data {place}/lists.test --subset test {options}",
        f"{rerank}.test {more} --weights {place}/valid/weights.json {place}/test",
        f"score.sh {place}/test",
    ]
    # The command itself takes them.
    for call in calls:
        if call.startswith("python3 -m deepnmt rerank "):
            monkeypatch.setattr(sys, "argv", call.split()[3:])
            assert parse_rerank().reverse[0][0] == "back"
    sweeps = [call for call in calls if call.startswith("sweep.sh")]
    assert len(sweeps) == 6
    assert all("--last 1 --lenpen 1" in call for call in sweeps)
    # Once more: nothing is trained, translated or scored again; the other scripts see for themselves that all is there.
    again = {call.split()[0] for call in run(root, *command)}
    assert again == {"preprocess.sh", "binarise.sh"}


@pytest.mark.slow
def test_it_calls_itself_wherever_it_is_called(root: Path) -> None:
    environment = {**os.environ, "OUT": str(root / "out"), "CALLS": str(root / "calls"), "PATH": "/usr/bin:/bin"}
    environment["DEEPNMT_PYTHON_BIN"] = str(root / "bin")
    command = ["bash", "best.sh", "--short", "--stage", "members", "--stage", "ensemble", "--stage", "rerank"]
    done = finish(command, env=environment, cwd=root / "examples" / "multi30k")
    assert done.returncode == 0, done.stderr[-3000:]
    assert (root / "out" / "best" / "de-en" / "results" / "short_settled-1" / "chosen.json").is_file()


@pytest.mark.slow
def test_reranking_follows_its_models(root: Path) -> None:
    stages = [word for stage in ("members", "ensemble", "rerank", "test") for word in ("--stage", stage)]
    command = ["best.sh", "--member", "control:1", *stages]
    run(root, *command, "--direction", "de-en")
    # The other direction is there.
    calls = run(root, *command)
    assert not [call for call in calls if call.startswith("train.sh")]
    back = "back=BEST/de-en/results/control-1/trained/last5.pt"
    assert len([call for call in calls if call.startswith("python3 -m deepnmt rerank") and back in call]) == 2
    new = root / "out" / "best" / "results" / "control-1" / "trained" / "last5.pt"
    os.utime(new, (time.time() + 60, time.time() + 60))
    assert len([call for call in run(root, *command) if call.startswith("python3 -m deepnmt rerank")]) == 2
    # A newer model of the other direction alone: the lists stay.
    os.utime(new, (time.time() - 600, time.time() - 600))
    new = root / "out" / "best" / "de-en" / "results" / "control-1" / "trained" / "last5.pt"
    os.utime(new, (time.time() + 120, time.time() + 120))
    calls = run(root, *command)
    assert len([call for call in calls if call.startswith("python3 -m deepnmt rerank")]) == 2
    assert not [call for call in calls if call.startswith("generate.sh") and "lists" in call]


@pytest.mark.slow
def test_reranking_of_short_members_stays_theirs(root: Path) -> None:
    stages = [word for stage in ("members", "ensemble", "rerank") for word in ("--stage", stage)]
    run(root, "best.sh", "--short", *stages)
    run(root, "best.sh", "--member", "control:1", *stages)
    # Test translates both, each by its own models, whatever the members are now.
    calls = [call for call in run(root, "best.sh", "--stage", "test") if call.startswith("python3 -m deepnmt rerank")]
    assert [call.partition("--reverse ")[2] for call in calls] == [
        f"back=BEST/de-en/results/{first}-1/trained/last5.pt --weights BEST/results/{name}/valid/weights.json "
        f"BEST/results/{name}/test"
        for first, name in (("control", "reranked"), ("short_settled", "short-reranked"))
    ]


@pytest.mark.slow
def test_generations(root: Path) -> None:
    """A third one learns from the two before it; one alone is done, and no further one."""
    given = [
        "--member",
        "control",
        "--seed",
        "1",
        "--seed",
        "2",
        "--generations",
        "3",
        "--students",
        "2",
        "--jobs",
        "2",
    ]
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
    kinds = ["--student", "student_deep", "--student", "student:9", "--generations", "2", "--generation", "2"]
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
    short = ["--short", "--member", "short", "--seed", "1", "--seed", "2"]
    calls = run(root, "best.sh", *short, *stages, "--generations", "2", "--students", "2")
    teachers = teachers.replace("control", "short").partition(":BEST/results/student")[0]
    taught = [call for call in calls if call.startswith("train.sh") and call.endswith(f"--teacher {teachers}")]
    assert len(taught) == 2

    # One student by default.
    alone = ["best.sh", "--stage", "members", "--generations", "3", "--generation", "2", "--seed", "5", "--seed", "6"]
    trained = [call.split()[3] for call in run(root, *alone) if call.startswith("train.sh")]
    assert trained == ["BEST/checkpoints/student-2-5/trained"]


def test_other_merges_have_a_folder_of_their_own(root: Path) -> None:
    calls, _ = stand_ins.run(
        root, "best.sh", "--stage", "data", "--stage", "members", "--member", "control:1", MERGES="4000",
        DEEPNMT_PYTHON_BIN=str(root / "bin"),
    )  # fmt: skip
    (made,) = (call for call in calls if call.startswith("preprocess.sh"))
    assert "--bpe-merges 4000 --dest out/best-4000/data-like " in made
    (trained,) = (call for call in calls if call.startswith("train.sh"))
    assert trained == (
        "train.sh configs/multi30k/control.yaml out/best-4000/data-like "
        "out/best-4000/checkpoints/control-1/trained --seed 1"
    )


@pytest.mark.parametrize(("epochs", "last"), [(0, 1), (9, 9), (12, 10)])
def test_the_average_is_of_ten_epochs_as_far_as_there_are(root: Path, epochs: int, last: int) -> None:
    train = root / "scripts" / "train.sh"
    more = f'rm "$3/checkpoint1.pt"; for ((n = 1; n <= {epochs}; n++)); do touch "$3/checkpoint$n.pt"; done\n'
    train.write_text(train.read_text("utf-8") + more, encoding="utf-8")
    (swept,) = (call for call in run(root, "best.sh", "--stage", "control") if call.startswith("sweep.sh"))
    assert f" --last {last} --lenpen 1" in swept


@pytest.mark.slow
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


@pytest.mark.slow
def test_members_at_a_time_share_the_cores_and_name_their_lines(root: Path) -> None:
    script = root / "scripts" / "train.sh"
    script.write_text(
        script.read_text("utf-8") + 'echo "threads $OMP_NUM_THREADS"\n[[ $3 != */short-2/* || -f $OUT/mended ]]\n',
        encoding="utf-8",
    )
    command = [str(root / "examples" / "multi30k" / "best.sh"), "--stage", "members", "--jobs", "3"]
    command += ["--member", "short"]
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


@pytest.mark.slow
def test_an_ensemble_of_other_members_translates_anew(root: Path) -> None:
    first = ["best.sh", "--member", "short", "--stage", "members", "--stage", "ensemble", "--stage", "test"]
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


@pytest.mark.slow
def test_penalties_compete_on_validation(root: Path) -> None:
    stages = [word for stage in ("members", "ensemble", "rerank") for word in ("--stage", stage)]
    command = ["best.sh", "--member", "control:1", "--member", "control:2", *stages]
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


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("members", "sleeper", "waits"),
    [
        (("short:1", "short:2"), "train.sh", ""),
        (("r_drop:1", "r_drop_recut:1"), "train.sh", "control-1/trained is being trained: waiting\n"),
        (("both_diverse:1", "both_diverse:2"), "binarise.sh", "best/diverse is being made: waiting\n"),
    ],
)
def test_members_at_a_time_end_together(
    root: Path, members: tuple[str, ...], sleeper: str, waits: str, sent: int
) -> None:  # fmt: skip
    """So do two that begin with one control, or text, which one of them makes while the other one waits."""
    script, pids = root / "scripts" / sleeper, root / "pids"
    script.write_text(script.read_text("utf-8") + f'\necho $$ >>"{pids}"; exec sleep 60\n', encoding="utf-8")
    environment = {**os.environ, "OUT": str(root / "out"), "CALLS": str(root / "calls")}
    environment["DEEPNMT_PYTHON_BIN"] = str(ROOT / ".venv" / "bin")
    command = [str(root / "examples" / "multi30k" / "best.sh"), "--jobs", "2", "--stage", "members"]
    command += [word for member in members for word in ("--member", member)]
    said = root / "said"
    with (
        open(said, "wb") as out,
        subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.DEVNULL) as process,
    ):
        until(lambda: pids.is_file() and len(pids.read_text().split()) == (1 if waits else 2))
        until(lambda: waits in said.read_text())
        assert waits or "waiting" not in said.read_text()
        process.send_signal(sent)
        assert process.wait(30) == (143 if sent == signal.SIGTERM else 130)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()))
    until(lambda: not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(root).encode() in content(path)])


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_members_of_several_kinds_and_what_they_begin_with(root: Path, jobs: str) -> None:
    # Long enough to be seen by another training at that time.
    script = root / "scripts" / "train.sh"
    script.write_text(script.read_text("utf-8").replace("touch", "sleep 0.5; touch", 1), encoding="utf-8")
    members = ("r_drop", "control", "r_drop_settled", "both_r_drop", "control_dlcl_12:4", "short_settled")
    given = [word for member in members for word in ("--member", member)]
    given += ["--seed", "2", "--generation", "1", "--jobs", jobs]
    calls = run(root, "best.sh", "--stage", "members", *given)
    trained = [call for call in calls if call.startswith("train.sh")]
    # R-Drop's control is the member, and trained once.
    recipes = [call.split()[1].removeprefix("configs/multi30k/") for call in trained]
    assert sorted(recipes) == [
        "both.yaml", "both_r_drop.yaml", "control.yaml", "control_56.yaml", "control_dlcl_12.yaml", "r_drop.yaml",
        "r_drop_recut.yaml", "r_drop_settled.yaml", "short_recut.yaml", "short_settled.yaml",
    ]  # fmt: skip
    call = dict(zip(recipes, trained, strict=True))
    assert "BEST/data-both " in call["both.yaml"]
    assert "--seed 4" in call["control_dlcl_12.yaml"]
    assert "BEST/checkpoints/control-2/trained --seed 2" in call["control.yaml"]
    start = " --seed 2 --finetune-from-model BEST/checkpoints/{}-2/trained/checkpoint_last.pt"
    chains = [("r_drop", "control"), ("r_drop_recut", "control"), ("r_drop_settled", "r_drop_recut")]
    chains += [("both_r_drop", "both"), ("short_recut", "control_56"), ("short_settled", "short_recut")]
    for recipe, before in chains:
        assert call[f"{recipe}.yaml"].endswith(start.format(before))
        assert recipes.index(f"{before}.yaml") < recipes.index(f"{recipe}.yaml")
    averaged = {call.split()[3] for call in calls if call.startswith("sweep.sh")}
    assert {"BEST/results/control-2/trained", "BEST/results/r_drop-2/trained"} <= averaged
