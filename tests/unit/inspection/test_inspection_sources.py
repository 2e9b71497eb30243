"""Inspection of recipes and checkpoints."""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import tasks
from support.inspected import RECIPE, Toy, make_toy, write_data
from support.sublayer_reference import MEASURED

from deepnmt.errors import UserError
from deepnmt.inspection import (
    inspect_checkpoint,
    inspect_model,
    inspect_recipe,
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy"))


def first_batches(task: Any, seed: int, count: int, tokens: int = 60) -> list[Any]:
    """As fairseq's trainer asks for them."""
    whole = tasks.setup_task(task)
    whole.load_dataset("train")
    iterator = whole.get_batch_iterator(
        whole.dataset("train"),
        max_tokens=tokens,
        max_positions=(1024, 1024),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=8,
        seed=seed,
    ).next_epoch_itr(shuffle=True)
    return [next(iterator) for _ in range(count)]


def test_recipe_has_the_weights_batches_and_dropout_of_a_training(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest", "--user-dir", "untouched"])
    kept, state = sys.argv, torch.get_rng_state()
    report = inspect_recipe(toy.recipe, toy.data, batches=2, seed=11)
    assert sys.argv is kept
    assert torch.get_rng_state().equal(state)
    assert (report.label, report.batches, report.depths) == ("toy", 2, {"encoder": 3, "decoder": 2})

    torch.manual_seed(11)
    model = toy.task.build_model(toy.cfg.model)
    criterion = toy.task.build_criterion(toy.cfg.criterion)
    model.train()
    want = 0.0
    for update, each in enumerate(first_batches(toy.cfg.task, 11, 2)):
        torch.manual_seed(11 + update)
        loss, size, _ = criterion(model, each)
        want += loss.item() / size / 2
    assert report.loss == pytest.approx(want, rel=1e-6)
    weight = model.encoder.layers[0].self_attn
    matrices = [weight.q_proj.weight, weight.k_proj.weight, weight.v_proj.weight, weight.out_proj.weight]
    assert report.sublayers[0].weight_max == pytest.approx(max(m.abs().max().item() for m in matrices))


def test_checkpoint_is_measured_as_it_is(toy: Toy) -> None:
    report = inspect_checkpoint(toy.checkpoint, toy.data, "mine", batches=3, seed=2)
    criterion = toy.task.build_criterion(toy.cfg.criterion)
    assert report == inspect_model(toy.model, criterion, first_batches(toy.cfg.task, 2, 3), "mine", seed=2)


def test_a_loss_that_changes_is_that_of_the_checkpoints_update(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    stock = type(toy.task).build_criterion

    def build_criterion(*args: Any, **kwargs: Any) -> Any:
        criterion = stock(*args, **kwargs)
        criterion.set_num_updates = told.append
        return criterion

    monkeypatch.setattr(type(toy.task), "build_criterion", build_criterion)
    inspect_checkpoint(toy.checkpoint, toy.data, "mine", batches=1, seed=2)
    assert told == [torch.load(toy.checkpoint, weights_only=True)["optimizer_history"][-1]["num_updates"]]


def test_a_loss_that_changes_is_that_of_a_trainings_beginning_for_a_recipe(toy: Toy, tmp_path: Path) -> None:
    recipe = tmp_path / "r_drop.yaml"
    loss = "label_smoothed_cross_entropy"
    later = f"criterion: {loss}_r_drop\nconsistency-start-update: 1"
    recipe.write_text(toy.recipe.read_text().replace(f"criterion: {loss}", later))
    begun = inspect_recipe(recipe, toy.data, batches=1, seed=11)
    plain = inspect_recipe(toy.recipe, toy.data, batches=1, seed=11)
    assert begun.loss == pytest.approx(plain.loss, rel=1e-5)


def test_a_checkpoint_with_sublayer_skipping_is_measured_by_the_seed(toy: Toy, tmp_path: Path) -> None:
    state = torch.load(toy.checkpoint, weights_only=False)
    state["cfg"]["model"]["encoder_skip"] = 0.5
    torch.save(state, tmp_path / "skipping.pt")
    reports = []
    for seed_before in (1, 2):
        torch.manual_seed(seed_before)
        reports.append(inspect_checkpoint(tmp_path / "skipping.pt", toy.data, batches=2, seed=3))
    assert reports[0] == reports[1]
    assert reports[0].loss != inspect_checkpoint(toy.checkpoint, toy.data, "skipping", batches=2, seed=3).loss


def test_checkpoint_without_a_bound_on_batches(toy: Toy, tmp_path: Path) -> None:
    """An imported one was trained with batches of nobody knows which size: all sentences would be one of them."""
    data = write_data(tmp_path / "data", pairs=1600)
    state = torch.load(toy.checkpoint, weights_only=False)
    state["cfg"]["dataset"].update(max_tokens=None, batch_size=None)
    torch.save(state, tmp_path / "imported.pt")
    report = inspect_checkpoint(tmp_path / "imported.pt", data, batches=2, seed=3)
    task = copy.deepcopy(toy.cfg.task)
    task.data = str(data)
    batches = first_batches(task, 3, 2, tokens=4096)
    criterion = toy.task.build_criterion(toy.cfg.criterion)
    assert report == inspect_model(toy.model, criterion, batches, "imported", seed=3)


def test_every_batch_where_more_are_asked_for_than_there_are(toy: Toy) -> None:
    report = inspect_checkpoint(toy.checkpoint, toy.data, batches=1000)
    assert 3 < report.batches < 40
    with pytest.raises(UserError, match=r"the subset long: no sentence of at most \(60, 60\) tokens found"):
        inspect_checkpoint(toy.checkpoint, toy.data, subset="long")


def test_fairseqs_architecture_as_a_recipe(toy: Toy, tmp_path: Path) -> None:
    path = tmp_path / "stock.yaml"
    path.write_text("arch: transformer_tiny\ncriterion: cross_entropy\nbatch-size: 8\n", encoding="utf-8")
    report = inspect_recipe(path, toy.data, batches=1, options={"encoder-layers": "3"})
    assert report.depths == {"encoder": 3, "decoder": 2}
    assert all(getattr(sublayer, name) > 0 for sublayer in report.sublayers for name in MEASURED)


def test_a_model_that_is_not_autoregressive_is_refused(toy: Toy, tmp_path: Path) -> None:
    """Its task makes the inputs anew in each update."""
    lines = [line for line in RECIPE.splitlines() if not re.match("arch|criterion|(en|de)coder-norm|checkpoint", line)]
    lines += ["arch: cmlm_transformer", "criterion: nat_loss", "task: translation_lev", "noise: full_mask"]
    (tmp_path / "nat.yaml").write_text("\n".join(lines) + "\n", "utf-8")
    message = "^inspection needs an autoregressive model, but this is a CMLMNATransformerModel$"
    with pytest.raises(UserError, match=message):
        inspect_recipe(tmp_path / "nat.yaml", toy.data, batches=1)


def test_admin_is_profiled_before_it_is_measured(toy: Toy) -> None:
    post = {"encoder-norm": "post", "decoder-norm": "post", "encoder-groups": "none", "decoder-groups": "none"}
    post |= {"residual-scale": "admin", "dropout": "0"}
    before = inspect_recipe(toy.recipe, toy.data, options=post, batches=1)
    after = inspect_recipe(toy.recipe, toy.data, options={**post, "initializer": "admin"}, batches=1)
    # (14): w of a stack's first sublayer is 1, and of those that follow more than that.
    assert after.sublayers[0].branch_share == pytest.approx(before.sublayers[0].branch_share, rel=1e-6)
    for stack in ("encoder", "decoder"):
        shares = [[s.branch_share for s in report.sublayers if s.stack == stack] for report in (before, after)]
        assert all(later < plain for plain, later in list(zip(*shares))[2:])
