"""What the plug-in mends in fairseq."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import numpy
import pytest
from fairseq.data import data_utils
from models import ROOT

import deepnmt  # noqa: F401  mends at import


@pytest.mark.parametrize("sentences", [3, 8, 20, 24])
@pytest.mark.parametrize("multiple", [1, 8])
def test_no_sentence_is_lost_between_batches(sentences: int, multiple: int) -> None:
    lengths = numpy.arange(1, sentences + 1)
    batches = data_utils.batch_by_size(
        numpy.arange(sentences),
        num_tokens_fn=lambda index: lengths[index],
        num_tokens_vec=lengths,
        max_sentences=8,
        required_batch_size_multiple=multiple,
    )
    assert [index for batch in batches for index in batch] == list(range(sentences))
    assert max(len(batch) for batch in batches) <= 8


def test_batches_of_fixed_shapes_are_fairseqs_own() -> None:
    lengths = numpy.full(5, 4)
    batches = data_utils.batch_by_size(
        numpy.arange(5), num_tokens_fn=lambda index: lengths[index], fixed_shapes=numpy.array([[2, 4]])
    )
    assert [len(batch) for batch in batches] == [2, 2, 1]


def test_root_logger_is_not_left_at_debug() -> None:
    assert logging.getLogger().level != logging.DEBUG


def test_plugin_path_does_not_hide_fairseq() -> None:
    assert not sys.path or Path(sys.path[0]).resolve() != ROOT
