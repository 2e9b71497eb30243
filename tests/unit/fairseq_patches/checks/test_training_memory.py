"""What a training needs at the least is held against the memory that is there."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.data_folders import data_folder
from support.fairseq_configurations import configuration
from support.models import SIZE, dictionary, task

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks import training_checks
from deepnmt.fairseq_patches.checks.training_checks import check_memory, check_training
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.memory import least_parameters
from deepnmt.model.transformer import DLCLTransformerModel


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data") / "de-en")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"share_all_embeddings": True},
        {"merge_src_tgt_embed": True},
        {"share_decoder_input_output_embed": True, "encoder_embed_dim": 32},
        {"merged_attention": True},
        {"decoder_groups": "none", "no_cross_attention": True},
    ],
    ids=str,
)
def test_parameters_are_bounded_from_below(options: dict[str, Any]) -> None:
    size = {name: value * 4 if name.endswith("dim") else value for name, value in SIZE.items()}
    config = DLCLTransformerConfig(**{**size, **options})
    one = dictionary(300)
    both = (one, one) if {"share_all_embeddings", "merge_src_tgt_embed"} & options.keys() else (one, dictionary(200))
    model = DLCLTransformerModel.build_model(config, task(*both))
    exact = sum(parameter.numel() for parameter in model.parameters())
    assert 0.95 * exact < least_parameters(config, (len(both[0]), len(both[1]))) <= exact


HUGE = {
    "model__encoder_layers": 10_000,
    "model__encoder_embed_dim": 1 << 20,
    "model__encoder_ffn_embed_dim": 1 << 20,
    "model__share_all_embeddings": False,
}


def test_what_cannot_fit_is_refused_with_both_numbers(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UserError, match=r"GB of this machine, but training needs at least 1,055,5.* GB: .*--encoder-layers 10000"
    ):
        check_training(configuration(data, **HUGE))
    config = DLCLTransformerConfig(
        encoder_layers=1, decoder_layers=1, encoder_embed_dim=8, decoder_embed_dim=8,
        encoder_ffn_embed_dim=16, decoder_ffn_embed_dim=16, share_all_embeddings=True,
    )  # fmt: skip
    # Three attentions of four matrices, two pairs of feed-forward matrices, a table of twelve types.
    needed = 16 * (3 * 4 * 8 * 8 + 2 * 2 * 8 * 16 + 12 * 8)
    for there in (needed, needed - 1):
        sizes = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": there}
        monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
        if there == needed:
            check_memory(configuration(data), config, (12, 12))
    with pytest.raises(UserError, match="16 bytes for each of 1,376 parameters"):
        check_memory(configuration(data), config, (12, 12))


def test_memory_of_the_gpu(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = configuration(data, common__cpu=False, model__encoder_embed_dim=512, model__decoder_embed_dim=512)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    sizes = {0: 10**12, 1: 10**8}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=sizes[device]))
    config = training_checks.model_config(cfg)
    assert config is not None
    with pytest.raises(UserError, match=r"must fit into the 0\.1 GB of the GPU, but training needs at least"):
        check_memory(cfg, config, (12, 12))
    monkeypatch.setenv("LOCAL_RANK", "0")
    check_memory(cfg, config, (12, 12))


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({}, 16),
        ({"optimizer___name": "sgd"}, 8),
        ({"common__fp16": True}, 20),
        ({"common__bf16": True, "common__memory_efficient_bf16": True}, 12),
        ({"common__fp16": True, "optimizer__fp16_adam_stats": True}, 16),
        ({"distributed_training__zero_sharding": "os"}, 8),
    ],
    ids=str,
)
def test_bytes_of_a_parameter(changes: dict[str, Any], size: int, data: Path) -> None:
    assert training_checks.bytes_of_parameter(configuration(data, **changes)) == size
