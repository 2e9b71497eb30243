"""What the plug-in mends in fairseq."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
from fairseq.data import FairseqDataset, data_utils, iterators
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train
from omegaconf import OmegaConf
from support.checkpoints import load, run_main
from support.models import ROOT
from support.trainings import DUMMY

import deepnmt  # noqa: F401  mends at import
from deepnmt.errors import UserError


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


def test_a_position_beyond_the_epoch_is_named() -> None:
    data = FairseqDataset()
    batches = iterators.EpochBatchIterator(data, lambda batch: batch, [[0], [1], [2]])
    for position in (3, 10**12):
        must = rf"^extra_state\.train_iterator\.iterations_in_epoch of .* must be below 3, .* is {position}; "
        with pytest.raises(UserError, match=must):
            batches.load_state_dict({"version": 2, "epoch": 1, "iterations_in_epoch": position})


def test_root_logger_is_not_left_at_debug() -> None:
    assert logging.getLogger().level != logging.DEBUG


def test_plugin_path_does_not_hide_fairseq() -> None:
    assert not sys.path or Path(sys.path[0]).resolve() != ROOT


@pytest.mark.parametrize("option", ["bf16", "memory-efficient-bf16"])
def test_bf16_trains_without_a_tpu(option: str, tmp_path: Path) -> None:
    options = ["--arch=dlcl_transformer_tiny", "--optimizer=adam", "--lr=0.001", "--max-update=2", "--num-workers=0"]
    run_main(train.cli_main, "fairseq-train", *DUMMY, "--cpu", f"--{option}", *options, f"--save-dir={tmp_path}")
    state = load(tmp_path / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 2
    common = state["cfg"]["common"]
    assert (common["bf16"], common["tpu"], common["memory_efficient_bf16"]) == (True, False, option != "bf16")


@pytest.mark.parametrize(("xla", "tpu"), [(None, False), ("torch_xla", True)])
def test_bf16_means_a_tpu_where_there_may_be_one(xla: Any, tpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_utils, "xm", xla)
    cfg, seen = OmegaConf.structured(FairseqConfig()), []
    cfg.common.update(cpu=True, bf16=True, tpu=True)
    cfg.distributed_training.update(tpu=True, distributed_world_size=1)
    cfg.optimizer = {"_name": "adam", "tpu": True}
    distributed_utils.call_main(cfg, seen.append)
    assert [(cfg.common.tpu, cfg.distributed_training.tpu, cfg.optimizer.tpu) for cfg in seen] == [(tpu, tpu, tpu)]


def test_no_sentence_left_is_one_line() -> None:
    none = numpy.array([], dtype=numpy.int64)
    with pytest.raises(UserError, match="must admit some sentences of the data, but admit none"):
        data_utils.batch_by_size(none, lambda index: 1, none, max_tokens=4, required_batch_size_multiple=8)
