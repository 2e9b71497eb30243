"""Few pairs and much text: the steps of all methods with stand-ins, and the table of made-up translations."""

from __future__ import annotations

from pathlib import Path

import gains
import pytest
import torch
from support.checkpoints import checkpoint
from support.models import ROOT
from support.stand_ins import copy_beside, run_beside

from deepnmt.errors import UserError
from deepnmt.runs.seeds import Row

# What a command leaves behind: the average of the plain model, and the score of a model of two.
PYTHON = """case $* in
    *" seeds "*plain.yaml*) mkdir -p "$OUT/runs/plain/seed1/update50.last1"
        touch "$OUT/runs/plain/seed1/update50.last1/average.pt" ;;
    *" split "* | *" embeddings "* | *" marginals "*) touch "$5" ;;
    *" mix "*) mkdir -p "$4" ;;
    *" graft "*) [ ! -e "${!#}" ]; touch "${!#}" ;;
    *" train-progressive "*) mkdir -p "$5/stage-2-4" ;;
    *" average "*) touch "$5" ;;
    *" score "*) mkdir -p "$4"; touch "$4/scores.json" ;;
    *fetch.py*) mkdir -p "$2"
        for side in en de; do seq 6000 >"$2/train.lc.norm.tok.$side"; done ;;
esac
"""
HELP = """mkdir -p "$OUT/de"
for side in de en; do seq 6 >"$OUT/de/clean.$side"; done
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example beside stand-ins for Python and for LibreOffice's help."""
    works = {"bin/python3": PYTHON, "bin/fairseq-train": "", "examples/libreoffice/run.sh": HELP}
    return copy_beside(tmp_path, ["examples/few_pairs"], works)


def run(root: Path, *words: str) -> tuple[int, list[str], str]:
    """Exit status, the calls of Python without the folders, and standard error."""
    status, calls, error = run_beside(root, "examples/few_pairs/run.sh", *words)
    return (
        status,
        [call.removeprefix("python3 ").removeprefix("-m deepnmt ").replace("out/multi30k/", "") for call in calls],
        error,
    )


def test_each_method_is_measured(root: Path) -> None:
    status, calls, error = run(root, "multi30k", "all", "--updates", "50")
    assert status == 0, error
    measured = [call.split()[1] for call in calls if call.startswith("seeds ")]
    names = [Path(path).stem for group in measured for path in group.split(",")]
    groups = "plain competence sample_share random_batches l2 l1 transparent unigram unigram_sampling back set_weights"
    assert names == f"{groups} continued language_model untied embeddings banded masked fused mass together".split()
    grown = [call.split()[1:] for call in calls if call.startswith("train-progressive ")]
    assert grown == [[f"recipes/{name}.yaml", "data", f"runs/{name}/seed1/stages"] for name in ("grown", "frozen")]
    stages = "stages: [{encoder-layers: 2, max-update: 25}, {encoder-layers: 4, max-update: 50}]"
    for name, freeze in (("grown", False), ("frozen", True)):
        lines = (root / "out" / "multi30k" / "recipes" / f"{name}.yaml").read_text("utf-8").splitlines()
        assert stages in lines
        assert ("freeze: old" in lines) is freeze
        assert not [line for line in lines if line.startswith("max-update")]
    # The same number of updates for all.
    for name in names:
        text = (root / "out" / "multi30k" / "recipes" / f"{name}.yaml").read_text("utf-8")
        keys = [line.split(":")[0] for line in text.splitlines()]
        assert len(set(keys)) == len(keys)
        assert f"max-update: {20 if name == 'continued' else 50}" in text
    start = "--fwd-from runs/plain/seed1/update50.last1/average.pt --bwd-from runs/reverse/seed1/checkpoints"
    trained = [call for call in calls if "--fwd-from" in call]
    assert [call.replace("/checkpoint_last.pt", "") for call in trained] == [
        f"train recipes/{name}.yaml data runs/{name}/seed1/checkpoints {start} {more}"
        for name, more in (
            ("supervised", "--marginals marginals.tsv"),
            ("on_the_fly", "--mono mono-de"),
            ("policy_gradient", "--mono mono-de --source-lm runs/source_lm/seed1/checkpoints"),
        )
    ]
    assert calls[-1].split()[1:] == ["runs", "valid", "valid.md"]
    # The first 5,000 pairs, and text that is none of them.
    raw = root / "out" / "multi30k" / "raw"
    pairs, mono = ((raw / f"{name}.de").read_text("utf-8").split() for name in ("pairs", "mono"))
    assert (pairs[-1], mono[0], mono[-1]) == ("5000", "5001", "6000")


def test_it_goes_on_behind_each_step(root: Path) -> None:
    # Like a kill before the last training: a checkpoint that another one began with is there.
    assert [run(root, "multi30k", "all")[0] for _ in range(2)] == [0, 0]


def test_help_has_pre_norm_and_every_second_pair(root: Path) -> None:
    status, calls, error = run(root, "help", "order")
    assert status == 0, error
    recipe = (root / "out" / "help" / "recipes" / "l2.yaml").read_text("utf-8").splitlines()
    assert {"encoder-norm: pre", "decoder-norm: pre", "dropout: 0.1", "max-update: 2000"} <= set(recipe)
    assert any(call.startswith("preprocess --source-lang de --target-lang en ") for call in calls)
    raw = root / "out" / "help" / "raw"
    assert [(raw / f"{name}.de").read_text("utf-8").split() for name in ("pairs", "mono")] == [list("135"), list("246")]


@pytest.mark.parametrize(
    ("group", "missing"),
    [("dual", "the group plain has not been run"), ("together", "the groups back and pretraining have not been run")],
)
def test_a_group_needs_others(root: Path, group: str, missing: str) -> None:
    status, calls, error = run(root, "multi30k", group)
    assert (status, error.splitlines()[-1]) == (2, f"run.sh: error: {missing}")
    assert not [call for call in calls if call.startswith("train ")]


def test_recipes_of_methods_exist() -> None:
    text = (ROOT / "examples" / "few_pairs" / "run.sh").read_text("utf-8")
    bases = {words[2] for line in text.splitlines() if (words := line.split())[:1] == ["recipe"]}
    assert [base for base in bases if "$" not in base and not (ROOT / "configs" / f"{base}.yaml").is_file()] == []
    assert len(bases) > 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "TEXT and GROUP must be given (see --help)"),
        (("news", "plain"), "TEXT must be multi30k or help, but is 'news'"),
        (("help", "plain", "fast"), "there is no GROUP 'fast' (see --help)"),
        (("help", "plain", "--subset", "train"), "--subset must be valid or test, but is 'train'"),
        (("help", "plain", "--updates", "1"), "--updates must be at least 20, but is 1"),
        (("help", "plain", "--lr", "1"), "unknown option --lr (see --help)"),
    ],
)
def test_faults_are_one_line(root: Path, words: tuple[str, ...], message: str) -> None:
    status, calls, error = run(root, *words)
    assert (status, calls) == (2, [])
    assert error == f"run.sh: error: {message}\n"


def test_hours_have_the_trainings_that_a_method_needs(tmp_path: Path) -> None:
    state = checkpoint()
    for name, hours in (("reverse", 2.0), ("back", 1.0)):
        folder = tmp_path / name / "seed1" / "checkpoints"
        folder.mkdir(parents=True)
        extra = {**state["extra_state"], "processor_seconds": hours * 3600}
        torch.save({**state, "extra_state": extra}, folder / "checkpoint_last.pt")
    assert gains.line(Row("back", (20.0,), 1.0, 2.5, 0.01), tmp_path) == "| back | 1 | 20.00 | +2.50 | 0.010 | 3.00 |"
    # The mean of three seeds, and the hours of one.
    assert gains.line(Row("plain", (1.0, 2.0, 3.0), 6.0), tmp_path) == "| plain | 3 | 2.00 ± 1.00 |  |  | 2.00 |"


def test_without_the_pairs_alone_there_is_no_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "back").mkdir()
    monkeypatch.setattr("sys.argv", ["gains.py", str(tmp_path), "valid", str(tmp_path / "valid.md")])
    with pytest.raises(UserError, match=r"^the group plain has not been run$"):
        gains.main()
