"""The configuration that tests share is fairseq's own, and what one test changes in it is not seen by another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fairseq
import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.experimental import compose, initialize_config_dir
from omegaconf import OmegaConf

COMMON = ["DATA", "--arch=dlcl_transformer", "--optimizer=adam", "--lr=0.001"]
TRAININGS = {
    "deep": [
        *COMMON,
        "--task=deep_translation",
        "--criterion=label_smoothed_cross_entropy_fused",
        "--encoder-layers=7",
    ],
    "schedule": [*COMMON, "--task=translation", "--lr-scheduler=inverse_sqrt_reset", "--cooldown-updates=9", "--fp16"],
    "stock": ["DATA", "--arch=transformer", "--optimizer=adam", "--adam-betas=(0.9, 0.98)", "--eval-bleu"],
    "language model": ["DATA", "--arch=transformer_lm", "--task=language_modeling", "--lr=0.1,0.2", "--max-tokens=64"],
}


def configuration(words: list[str]) -> Any:
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))


@pytest.mark.parametrize("words", TRAININGS.values(), ids=TRAININGS)
def test_a_shared_configuration_is_fairseqs(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shared = configuration(words)
    again = configuration(words)
    with monkeypatch.context() as stock:
        # Hydra's own work, under the function that remembers.
        stock.setattr(
            ConfigLoaderImpl,
            "_load_configuration_impl",
            ConfigLoaderImpl._load_configuration_impl.__wrapped__,  # type: ignore[attr-defined]
        )
        expected = configuration(words)
    for found in (shared, again):
        assert OmegaConf.to_yaml(found) == OmegaConf.to_yaml(expected)
        for name in expected:
            assert OmegaConf.get_type(found[name]) == OmegaConf.get_type(expected[name])


def test_what_one_asks_for_is_not_anothers() -> None:
    seeds = []
    with initialize_config_dir(config_dir=str(Path(fairseq.__file__).with_name("config"))):
        for words in (["common.seed=99"], []):
            seeds.append(compose("config", overrides=words, strict=False).common.seed)
    assert seeds == [99, 1]
