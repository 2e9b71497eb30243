"""`--set-weights`: the same as the weight of its set for each pair."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import ConcatDataset
from support.models import SIZE
from support.restarts import train_until
from support.trainings import binarised_text

from deepnmt.checkpoints.file import read
from deepnmt.data.weighted_pairs import WeightedPairs, set_sizes, weights_of_sets
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

COMMAND = ["--task=deep_translation", "--criterion=label_smoothed_cross_entropy_fused", "--label-smoothing=0.1"]
COMMAND += ["--max-tokens=60", "--max-update=3", "--disable-validation", "--no-epoch-checkpoints"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the training sets `train` of forty pairs and `train1` of eight."""
    folder = binarised_text(tmp_path_factory.mktemp("text"))
    for path in folder.glob("valid.*"):
        shutil.copyfile(path, folder / path.name.replace("valid", "train1"))
    return folder


def test_training_with_weights_of_sets_is_training_with_those_of_their_pairs(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = tmp_path / "weights"
    each.write_text("1.5\n" * 80 + "0.25\n" * 8)
    models = []
    for name, weights in (("sets", "--set-weights=1.5,0.25"), ("pairs", f"--pair-weights={each}")):
        train_until(monkeypatch, [str(data), *COMMAND, "--upsample-primary=2"], tmp_path / name, weights)
        models.append(read(tmp_path / name / "checkpoint_last.pt")["model"])
    assert all(torch.equal(values, models[1][name]) for name, values in models[0].items())


def test_sets_are_files_or_the_parts_of_a_mixture(tmp_path: Path) -> None:
    assert set_sizes(tmp_path, ConcatDataset([range(5), range(3), range(2)], [2, 1, 1])) == [10, 3, 2]
    assert set_sizes(tmp_path, range(7)) == [7]
    record = {"upsample": 2, "counts": {"train": {"kept": 7, "real": 2, "synthetic": 3}}}
    (tmp_path / "preprocess.json").write_text(json.dumps(record))
    assert set_sizes(tmp_path, range(7)) == [4, 3]
    (tmp_path / "preprocess.json").write_text(json.dumps({"upsample": 2}))
    with pytest.raises(UserError, match=r"preprocess\.json: must have the key 'counts', but does not"):
        set_sizes(tmp_path, range(7))


def test_both_kinds_of_weights_are_multiplied(data: Path, tmp_path: Path) -> None:
    each = tmp_path / "weights"
    each.write_text("".join(f"{number % 3}\n" for number in range(48)))
    config = DeepTranslationConfig(
        data=str(data), dataset_impl="mmap", required_seq_len_multiple=1, set_weights="2,0.5", pair_weights=str(each)
    )
    made = DeepTranslationTask.setup_task(config)
    made.load_dataset("train", combine=True)
    pairs = made.dataset("train")
    assert isinstance(pairs, WeightedPairs)
    assert pairs.weights.tolist() == [number % 3 * (2 if number < 40 else 0.5) for number in range(48)]


def test_an_update_weighs_the_losses_of_other_criterions(data: Path) -> None:
    fixed = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "seed": 1}
    made = DeepTranslationTask.setup_task(DeepTranslationConfig(data=str(data), set_weights="1,0.25", **fixed))
    made.load_dataset("train", combine=True)
    pairs = made.dataset("train")
    sample = pairs.collater([pairs[number] for number in (3, 41, 44)])
    config = DLCLTransformerConfig(**SIZE, dropout=0.0)
    model, criterion = DLCLTransformerModel.build_model(config, made), CrossEntropyCriterion(made, sentence_avg=False)
    losses: list[torch.Tensor] = []
    loss, size, _ = made.train_step(sample, model, criterion, Namespace(backward=losses.append), 0)
    log_p = model(**sample["net_input"])[0].log_softmax(-1)
    expected, words = 0.0, 0.0
    for row, (number, target) in enumerate(zip(sample["id"].tolist(), sample["target"].tolist())):
        for place, token in enumerate(token for token in target if token != 1):
            expected -= (1 if number < 40 else 0.25) * float(log_p[row, place, token])
            words += 1 if number < 40 else 0.25
    assert losses == [loss]
    assert (float(loss), size) == (pytest.approx(expected, rel=1e-5), words)


def test_weights_that_do_not_fit_are_refused(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert weights_of_sets("1,0.5", [2, 1]).tolist() == [1, 1, 0.5]
    with pytest.raises(
        UserError, match=r"must have a weight for each of the 2 training sets \(40, 8 pairs\), but has 1"
    ):
        weights_of_sets("1", [40, 8])
    number = r"^--set-weights must be finite numbers of at least 0, one of them above 0, such as 1,0.5, but is "
    with pytest.raises(UserError, match=number + "1,x"):
        train_until(monkeypatch, [str(data), *COMMAND], tmp_path / "save", "--set-weights=1,x")
    with pytest.raises(UserError, match=r"^--set-weights needs a single data folder, but DATA names several$"):
        train_until(monkeypatch, [f"{data}:{data}", *COMMAND], tmp_path / "save", "--set-weights=1,1")
    risk = "--criterion=label_smoothed_cross_entropy_mrt"
    with pytest.raises(
        UserError, match=r"^--criterion must be one of cross_entropy, .* with --set-weights, but is lab"
    ):
        train_until(monkeypatch, [str(data), *COMMAND[:1], risk, *COMMAND[3:]], tmp_path / "save", "--set-weights=1,1")
