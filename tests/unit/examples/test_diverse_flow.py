"""best.sh with members that learn from their own translations, with stand-ins for what trains and translates."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest
from support import best_flow
from support.best_flow import run
from support.slow import slow_but


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example, beside scripts that do nothing."""
    return best_flow.copy(tmp_path / "root")


@pytest.mark.parametrize(
    ("direction", "jobs"), slow_but([("de-en", "2")], itertools.product(("en-de", "de-en"), ("1", "2")))
)
def test_members_that_learn_from_their_own_translations(root: Path, direction: str, jobs: str) -> None:
    # Long enough to be seen by another training at that time.
    script = root / "scripts" / "train.sh"
    script.write_text(script.read_text("utf-8").replace("touch", "sleep 0.2; touch", 1), encoding="utf-8")
    given = ["--member", "both_diverse", "--seed", "1", "--seed", "3", "--direction", direction, "--jobs", jobs]
    calls = run(root, "best.sh", "--stage", "members", *given)
    here, lang = ("BEST", "de") if direction == "en-de" else ("BEST/de-en", "en")
    more = "" if direction == "en-de" else " --reverse"
    trained = [call.split()[1:4] for call in calls if call.startswith("train.sh")]
    names = [Path(save).parent.name for _, _, save in trained]
    # The translators' seeds are 1 and 2; each recipe and seed is trained once, after what it begins with.
    assert sorted(names) == sorted(
        [
            *(f"{recipe}-{seed}" for recipe in ("both", "both_r_drop") for seed in (1, 2, 3)),
            "both_diverse-1",
            "both_diverse-3",
        ]
    )
    for seed in (1, 2, 3):
        assert names.index(f"both-{seed}") < names.index(f"both_r_drop-{seed}")
    data = {Path(save).parent.name.rpartition("-")[0]: data for _, data, save in trained}
    assert data == {"both": "BEST/data-both", "both_r_drop": "out/data", "both_diverse": f"{here}/diverse/pairs"}
    (mono,) = {call for call in calls if call.startswith("binarise.sh") and "--mono" in call}
    assert mono.endswith(f"out/text/train.lc.norm.tok --lang {lang} --dest {here}/diverse/mono")
    made = {call for call in calls if call.startswith("synthesise.sh")}
    folder = f"{here}/diverse"
    assert made == {
        call
        for seed in (1, 2)
        for call in (
            f"synthesise.sh distil {folder}/both_r_drop-{seed}.pt out/data {folder}/forward-{seed}{more}",
            f"synthesise.sh back {folder}/both-{seed}-back.pt out/data {folder}/mono {folder}/back-{seed} "
            f"--allow-overlap{more}",
        )
    }
    (mixed,) = {call for call in calls if call.startswith("mix.sh")}
    parts = " ".join(f"{folder}/{kind}-{seed}" for seed in (1, 2) for kind in ("forward", "back"))
    assert mixed == f"mix.sh {folder}/pairs out/data {parts}"
    # Models of both directions are the start of both, and trained in the first one's way.
    both = [call for call in calls if call.startswith("train.sh") and "both.yaml" in call]
    assert all("BEST/checkpoints/both-" in call and "--source-lang" not in call for call in both)
    starts = [call for call in calls if call.startswith("train.sh") and "both_r_drop.yaml" in call]
    assert all(
        f"--finetune-from-model BEST/checkpoints/both-{seed}/trained/checkpoint_last.pt" in call
        for seed, call in zip((1, 2, 3), sorted(starts, key=lambda call: call[call.index("--seed") :]))
    )
    averaged = {call.split()[1] for call in calls if call.startswith("average.sh")}
    assert averaged == {
        f"{place}/checkpoints/{recipe}-{seed}/trained"
        for place, recipe in (("BEST", "both"), (here, "both_r_drop"))
        for seed in (1, 2)
    }
    starts = [call for call in calls if call.startswith("train.sh") and "both_diverse.yaml" in call]
    assert all(
        f"--finetune-from-model {here}/checkpoints/both_r_drop-{seed}/trained/checkpoint_last.pt" in call
        for seed, call in zip((1, 3), sorted(starts, key=lambda call: "both_diverse-3" in call))
    )
    # Averages are made once, and again of what was trained further since.
    assert len([call for call in calls if call.startswith("average.sh")]) == 4
    if jobs == "1":
        again = run(root, "best.sh", "--stage", "members", *given)
        assert not [call for call in again if call.startswith(("train.sh", "average.sh"))]
        last = (
            root
            / "out"
            / here.replace("BEST", "best")
            / "checkpoints"
            / "both_r_drop-2"
            / "trained"
            / "checkpoint_last.pt"
        )
        os.utime(last, (time.time() + 60, time.time() + 60))
        again = run(root, "best.sh", "--stage", "members", *given)
        assert {call.split()[2] for call in again if call.startswith("average.sh")} == {f"{folder}/both_r_drop-2.pt"}


@pytest.mark.slow
def test_the_best_system_has_four_members(root: Path) -> None:
    stages = ["--stage", "members", "--stage", "ensemble", "--stage", "test"]
    calls = run(root, "best.sh", *stages)
    members = [f"BEST/results/{recipe}-{seed}" for recipe in ("both_diverse", "both_r_drop") for seed in (1, 2)]
    models = ":".join(f"{member}/trained/last5.pt" for member in members)
    assert f"generate.sh {models} out/data BEST/results/ensemble-1/test --subset test --beam 5 --lenpen 1" in calls


def test_checkpoints_between_epochs_are_averaged_too(root: Path) -> None:
    train = root / "scripts" / "train.sh"
    more = 'for n in 1 2 3; do touch "$3"/checkpoint_1_${n}00.pt; done\n'
    train.write_text(train.read_text("utf-8") + more, encoding="utf-8")
    (swept,) = (call for call in run(root, "best.sh", "--stage", "control") if call.startswith("sweep.sh"))
    assert " --last 4 --lenpen 1" in swept
