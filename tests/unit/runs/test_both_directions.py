"""`deepnmt train --both-directions`: its data, its two trainings, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq_cli.train import cli_main
from support.restarts import forget
from support.substitution import SIZES, SOURCE, TARGET, substitution_data

from deepnmt import cli
from deepnmt.errors import UserError
from deepnmt.jobs import job
from deepnmt.jobs.child_steps import module
from deepnmt.preparation.both_ways import BothWays
from deepnmt.runs import both_directions, supervision, training
from deepnmt.runs.place import Place
from deepnmt.runs.supervision import next_step

RECIPE = """arch: dlcl_transformer
task: deep_translation
criterion: label_smoothed_cross_entropy_fused
optimizer: adam
lr: 0.001
max-tokens: 200
share-all-embeddings: true
disable-validation: true
num-workers: 0
no-epoch-checkpoints: true
"""
RECIPE += "".join(
    f"{stack}-{name}: {value}\n"
    for stack in ("encoder", "decoder")
    for name, value in {"layers": 1, "embed-dim": 8, "ffn-embed-dim": 8, "attention-heads": 2}.items()
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return substitution_data(tmp_path_factory.mktemp("both") / "data")


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Recipes of the training in one direction, two updates, and of the model of both directions, three."""
    monkeypatch.setattr(training, "copy_output", lambda log: None)
    for name in ("PROCESSES", "NODES", "NODE", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    found = []
    for name, updates in (("one", 2), ("first", 3)):
        found.append(tmp_path / f"{name}.yaml")
        found[-1].write_text(f"{RECIPE}max-update: {updates}\n", encoding="utf-8")
    return found


def sentences(folder: Path, subset: str, language: str) -> list[list[int]]:
    return [line.tolist() for line in MMapIndexedDataset(str(folder / f"{subset}.de-en.{language}"))]


def test_pairs_stand_in_both_directions(data: Path, tmp_path: Path) -> None:
    more = shutil.copytree(data, tmp_path / "data")
    for path in data.glob("test.*"):
        shutil.copy(path, more / path.name.replace("test", "train1"))
    folder = tmp_path / "both"
    folder.mkdir()
    pairs = BothWays(more)
    (folder / "preprocess.json").write_text(json.dumps(pairs.record()), encoding="utf-8")
    assert pairs.make(folder) == {"train": {"kept": 2 * (SIZES["train"] + SIZES["test"])}}
    sides = {name: sentences(data, "train", name) + sentences(data, "test", name) for name in (SOURCE, TARGET)}
    assert sentences(folder, "train", SOURCE) == sides[SOURCE] + sides[TARGET]
    assert sentences(folder, "train", TARGET) == sides[TARGET] + sides[SOURCE]
    for language in (SOURCE, TARGET):
        assert sentences(folder, "valid", language) == sentences(data, "valid", language)
        assert (folder / f"dict.{language}.txt").read_bytes() == (data / f"dict.{language}.txt").read_bytes()


def test_data_that_cannot_be_turned_are_refused(data: Path, tmp_path: Path) -> None:
    other = shutil.copytree(data, tmp_path / "other")
    record = json.loads((other / "preprocess.json").read_text())
    (other / "preprocess.json").write_text(json.dumps({**record, "glossary_training": 0.5}))
    with pytest.raises(UserError, match=r"other: both directions cannot be combined with inline targets \(--gloss"):
        BothWays(other).record()
    lines = (other / f"dict.{TARGET}.txt").read_text("utf-8").splitlines()
    (other / f"dict.{TARGET}.txt").write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"other: both directions need one dictionary \(preprocess without --sep"):
        BothWays(other).record()


def test_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Sequence[str]] = []
    monkeypatch.setattr(supervision, "run_process", lambda command: started.append(command) or 0)
    recipe, first = (str(Path(cli.__file__).parents[2] / "configs" / f"{name}.yaml") for name in ("tiny", "demo"))
    cli.call("train", ["tiny", "data", "save", "--both-directions", "--seed", "2"])
    assert started.pop()[-7:] == ["deepnmt.runs.both_directions", recipe, recipe, "data", "save", "--seed", "2"]
    cli.call("train", ["tiny", "data", "save", "--lr", "1", "--both-recipe", "demo", "--both-directions"])
    assert started.pop()[-6:] == [recipe, first, "data", "save", "--lr", "1"]
    with pytest.raises(UserError, match=r"^--both-recipe needs --both-directions$"):
        cli.call("train", ["tiny", "data", "save", "--both-recipe", "demo"])
    with pytest.raises(UserError, match=r"^--both-recipe must be a file, or a name that .* but there is no 'none'"):
        cli.call("train", ["tiny", "data", "save", "--both-directions", "--both-recipe", "none"])


def test_all_faults_of_both_trainings_come_first(
    data: Path, recipes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(both_directions, "run_process", lambda command: pytest.fail("a training has begun"))
    one, first = recipes
    one.write_text(one.read_text("utf-8") + "dropout: 2\n", encoding="utf-8")
    first.write_text(first.read_text("utf-8") + "pair-weights: weights.txt\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"dropout must be") as fault:
        both_directions.begin(one, first, str(data), tmp_path / "save", [])
    assert str(fault.value).splitlines() == [
        f"{one}:{len(one.read_text('utf-8').splitlines())}: dropout must be at least 0 and below 1, but is 2.0",
        "--pair-weights cannot be combined with --both-directions",
    ]
    plain = tmp_path / "plain.yaml"
    plain.write_text(RECIPE, encoding="utf-8")
    for option in ("--restore-file=a.pt", "--no-save", "--no-last-checkpoints"):
        name = option.partition("=")[0]
        with pytest.raises(UserError, match=f"^{name} cannot be combined with --both-directions$"):
            both_directions.begin(plain, plain, str(data), tmp_path / "save", [option])
    assert not (tmp_path / "save").exists()


def test_another_model_is_refused_first(data: Path, recipes: list[Path], tmp_path: Path) -> None:
    """fairseq would refuse other sizes after the first training, and take the parameters for another function."""
    one, first = recipes
    text = first.read_text("utf-8")
    for change, names in (
        (("encoder-layers: 1", "encoder-layers: 2"), "--encoder-layers"),
        (("attention-heads: 2", "attention-heads: 4"), "--encoder-attention-heads, --decoder-attention-heads"),
        (("optimizer:", "activation-fn: gelu\noptimizer:"), "--activation-fn"),
    ):
        first.write_text(text.replace(*change), encoding="utf-8")
        with pytest.raises(UserError, match=f"^--both-recipe must have RECIPE's model, but differs in {names}$"):
            both_directions.begin(one, first, str(data), tmp_path / "save", [])
        assert not (tmp_path / "save").exists()
    # What belongs to a training alone may differ.
    own = "dropout: 0.3\nencoder-skip: 0.2\ndecoder-skip: 0.1\nskip-schedule: constant\nskip-scale: inference\n"
    own += "max-source-positions: 99\nmax-target-positions: 98\n"
    first.write_text(text + own, encoding="utf-8")
    both_directions.check([one, first], [], Place())
    root = Path(cli.__file__).parents[2] / "configs" / "multi30k"
    both_directions.check([root / "both_r_drop.yaml", root / "both.yaml"], [], Place())


def test_two_commands_do_not_share_a_folder(
    data: Path, recipes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(both_directions, "run_process", lambda command: 3)
    monkeypatch.setattr(job, "WAIT", 0.0)
    save = tmp_path / "save"
    with job.locked(save, "SAVE"), pytest.raises(UserError, match=r"^SAVE must not be in use, but a command of an ear"):
        both_directions.begin(*recipes, str(data), save, [])


def test_a_training_without_it_is_not_resumed(data: Path, recipes: list[Path], tmp_path: Path) -> None:
    (tmp_path / "checkpoint_last.pt").touch()
    with pytest.raises(UserError, match=r"holds a training that began without --both-directions; choose another SAVE"):
        both_directions.begin(*recipes, str(data), tmp_path, [])
    assert next_step(tmp_path / "none") == "start over"
    (tmp_path / "none" / "both").mkdir(parents=True)
    (tmp_path / "none" / "both" / "checkpoint_last.pt").touch()
    assert next_step(tmp_path / "none").startswith("resume from the last checkpoint")


@pytest.mark.slow
def test_one_model_of_both_directions_then_one_of_a_direction(
    data: Path, recipes: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[Sequence[str]] = []

    def train_first(command: Sequence[str]) -> int:
        assert list(command[:-4]) == module("deepnmt.runs.training", [])
        starts.append(command)
        monkeypatch.setattr(sys, "argv", ["training.py", *command[-4:]])
        train_until_the_end(training.main)
        return 0

    monkeypatch.setattr(both_directions, "run_process", train_first)
    save = tmp_path / "save"
    start = f"--finetune-from-model {save / 'both' / 'checkpoint_last.pt'}"
    for more in ([], ["--max-update=4"]):
        # The second command resumes, and does not train the model of both directions any further.
        words = ["both_directions.py", *map(str, (*recipes, data, save)), "--seed=2", *more]
        monkeypatch.setattr(sys, "argv", words)
        train_until_the_end(both_directions.main)
        assert start in " ".join(sys.argv)
        assert [command[-4:] for command in starts] == [
            [str(recipes[1]), str(save / "both" / "data"), str(save / "both"), "--seed=2"]
        ]
    states = [torch.load(folder / "checkpoint_last.pt", weights_only=False) for folder in (save / "both", save)]
    assert [state["optimizer_history"][-1]["num_updates"] for state in states] == [3, 4]
    assert [Path(state["cfg"]["task"]["data"]) for state in states] == [save / "both" / "data", data]
    assert [state["cfg"]["common"]["seed"] for state in states] == [2, 2]


def train_until_the_end(prepare: Callable[[], None]) -> None:
    """Be the process of a training, without its end."""
    forget()
    with training.HELD:
        prepare()
        cli_main()
    forget()
