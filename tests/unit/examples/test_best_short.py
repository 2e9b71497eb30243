"""best.sh --short, with stand-ins for what trains and translates."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import best_flow
from support.best_flow import run
from support.models import ROOT
from support.processes import finish
from support.slow import slow_but


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example, beside scripts that do nothing."""
    return best_flow.copy(tmp_path / "root")


@pytest.mark.slow
def test_the_other_direction_in_an_hour(root: Path) -> None:
    given = ["--short", "--direction", "de-en", "--limit", "40", "--lr", "0.1"]
    calls = run(root, "best.sh", *given)
    here, way = "BEST/limit-40/de-en", "--source-lang de --target-lang en"
    start, recut, settled = (
        f"{here}/checkpoints/{name}-1/trained" for name in ("control_56", "short_recut", "short_settled")
    )
    # One after the other.
    assert [call for call in calls if call.startswith("train.sh")] == [
        f"train.sh configs/multi30k/control_56.yaml BEST/limit-40/data-like {start} {way} --seed 1 --lr 0.1",
        f"train.sh configs/multi30k/short_recut.yaml BEST/limit-40/data-like {recut} {way} --seed 1 "
        f"--finetune-from-model {start}/checkpoint_last.pt --lr 0.1",
        f"train.sh configs/multi30k/short_settled.yaml BEST/limit-40/data-like {settled} {way} --seed 1 "
        f"--finetune-from-model {recut}/checkpoint_last.pt --lr 0.1",
    ]
    # Validation by the averages, and test by the chosen one.
    for name, number in (("sweep.sh", 1), ("generate.sh", 1), ("score.sh", 1)):
        found = [call for call in calls if call.startswith(name)]
        assert len(found) == number
        assert all(call.endswith("--reverse") for call in found)
    (tested,) = (call for call in calls if call.startswith("generate.sh"))
    assert f"{here}/results/short_settled-1/test --subset test" in tested

    # Several members have an ensemble, which is not in the folder of the system without --short.
    stages = ["--stage", "members", "--stage", "ensemble", "--stage", "test"]
    calls = run(root, "best.sh", *given, *stages, "--member", "short", "--seed", "1", "--seed", "2")
    models = ":".join(f"{here}/results/short-{seed}/trained/last5.pt" for seed in (1, 2))
    together = [call.split()[3] for call in calls if call.startswith(f"generate.sh {models} ")]
    assert together == [f"{here}/results/short-ensemble-1/{end}" for end in ("lenpen1", "test")]


@pytest.mark.parametrize(
    ("given", "options", "cores", "gpu", "expected"),
    slow_but(
        [({}, [], 5, False, "processes 2 threads 2")],
        [
            ({}, [], 5, False, "processes 2 threads 2"),
            ({"PROCESSES": "1"}, [], 5, False, "processes 1 threads "),
            ({"OMP_NUM_THREADS": "1"}, [], 5, False, "processes  threads 1"),
            ({}, [], 1, False, "processes  threads "),
            ({}, [], 5, True, "processes  threads "),
            ({}, ["--jobs", "2"], 5, False, "processes  threads "),
        ],
    ),
)
def test_the_system_of_an_hour_takes_all_cores(
    root: Path, given: dict[str, str], options: list[str], cores: int, gpu: bool, expected: str
) -> None:
    script = root / "scripts" / "train.sh"
    say = 'echo "processes ${PROCESSES:-} threads ${OMP_NUM_THREADS:-}"\n'
    script.write_text(script.read_text("utf-8") + say, encoding="utf-8")
    counted = root / "examples" / "options.sh"
    counted.write_text(counted.read_text("utf-8") + f"cores() {{ echo {cores}; }}\n", encoding="utf-8")
    # All that is asked of torch here.
    fake = root / "fake" / "torch.py"
    fake.parent.mkdir()
    fake.write_text(f"class cuda:\n    is_available = staticmethod(lambda: {gpu})\n", encoding="utf-8")
    kept = {name: text for name, text in os.environ.items() if name not in ("OMP_NUM_THREADS", "PROCESSES")}
    kept |= {"OUT": str(root / "out"), "CALLS": str(root / "calls"), "DEEPNMT_PYTHON_BIN": f"{ROOT}/.venv/bin"}
    kept["PYTHONPATH"] = f"{fake.parent}:{kept.get('PYTHONPATH', '')}"
    command = [str(root / "examples" / "multi30k" / "best.sh"), "--short", "--stage", "members", *options]
    done = finish(command, env=kept | given)
    assert done.returncode == 0, done.stderr[-3000:]
    # The control, and R-Drop twice.
    assert [line for line in done.stdout.splitlines() if line.startswith("processes ")] == [expected] * 3


def test_the_control_beside_the_system_of_an_hour(root: Path) -> None:
    calls = run(root, "best.sh", "--short", "--stage", "control", "--stage", "test")
    (trained,) = (call for call in calls if call.startswith("train.sh"))
    assert trained == "train.sh configs/multi30k/control.yaml out/data BEST/checkpoints/control-1/trained --seed 1"
    (tested,) = (call for call in calls if call.startswith("generate.sh"))
    assert "/control-1/trained/last5.pt out/data BEST/results/control-1/test --subset test" in tested
