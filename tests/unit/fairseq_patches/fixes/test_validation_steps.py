"""--max-valid-steps N validates N batches, each time; the help of --skip-remainder-batch says what it does."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass.configs import OptimizationConfig
from torch.utils.data import Dataset

from deepnmt.fairseq_patches.fixes.validation_steps import take_as_many_as_asked
from deepnmt.fairseq_patches.patch import declared


class Numbers(Dataset[int]):
    """A data set of numbers."""

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(("most", "buffered"), [(None, 10), (1, 10), (2, 0), (9, 10)])
def test_as_many_batches_as_asked(most: int | None, buffered: int) -> None:
    batches = EpochBatchIterator(Numbers(), list, [[0, 1], [2], [3, 4], [5]], buffer_size=buffered)
    trainer = Namespace(cfg=Namespace(dataset=Namespace(max_valid_steps=most)))
    for _ in range(2):
        # As fairseq does, which keeps the object.
        iterator = take_as_many_as_asked(lambda trainer, subset: batches, trainer, "valid")
        found: list[Any] = list(iterator.next_epoch_itr(shuffle=False))
        assert found == [[0, 1], [2], [3, 4], [5]][:most]


def test_the_trainer_asks_for_them() -> None:
    patched = [patch.target for patch in declared() if patch.function is take_as_many_as_asked]
    assert patched == ["fairseq.trainer.Trainer.get_valid_iterator"]


def test_the_help_of_the_last_batch() -> None:
    field = OptimizationConfig.__dataclass_fields__["skip_remainder_batch"]
    assert field.metadata["help"].startswith("leave the last batch of each epoch out")
