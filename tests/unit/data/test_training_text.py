"""`--batch-order`: every pair once in each epoch, and the lengths that share a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.trainings import binarised_text

from deepnmt.recipe.order_rules import order_faults
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("text"))


def task(data: Path, **more: Any) -> DeepTranslationTask:
    fixed = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "seed": 1}
    return DeepTranslationTask.setup_task(DeepTranslationConfig(data=str(data), **{**fixed, **more}))


def batches(made: DeepTranslationTask, epoch: int) -> list[list[int]]:
    if "train" not in made.datasets:
        made.load_dataset("train", combine=True)
    iterator = made.get_batch_iterator(made.dataset("train"), max_tokens=40, seed=1, epoch=epoch)
    return [batch["id"].tolist() for batch in iterator.next_epoch_itr()]


def padding(made: DeepTranslationTask, found: list[list[int]]) -> int:
    """The source positions of batches that hold no token."""
    sizes = made.dataset("train").sizes[:, 0]
    return sum(int(len(batch) * sizes[batch].max() - sizes[batch].sum()) for batch in found)


def test_batches_in_random_order_have_every_pair_once(data: Path) -> None:
    plain, made = task(data), task(data, batch_order="random")
    ordered, first, second = batches(plain, 1), batches(made, 1), batches(made, 2)
    for found in (ordered, first, second):
        assert sorted(number for batch in found for number in batch) == list(range(40))
    assert len({str(sorted(map(sorted, found))) for found in (ordered, first, second)}) == 3
    assert padding(made, first) > padding(plain, ordered)
    # After a restart, too.
    assert batches(task(data, batch_order="random"), 2) == second


def test_random_batches_in_buckets_are_refused() -> None:
    # fairseq's buckets fail with today's numpy anyway.
    faults = order_faults({"batch_order": "random", "num_batch_buckets": 2})
    assert list(faults) == [("batch-order", "cannot be combined with --num-batch-buckets")]
