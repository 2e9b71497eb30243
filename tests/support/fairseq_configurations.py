"""What fairseq makes of a training's command line."""

from __future__ import annotations

import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

FIXED = ["--arch=dlcl_transformer_tiny", "--optimizer=adam", "--lr=0.01", "--lr-scheduler=inverse_sqrt", "--cpu"]
FIXED += ["--criterion=label_smoothed_cross_entropy", "--max-tokens=100"]


@cache
def parsed(*words: str) -> Any:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", ["fairseq-train"])
        args = options.parse_args_and_arch(options.get_training_parser(), ["DATA", *FIXED, *words])
    return convert_namespace_to_omegaconf(args)


def configuration(data: Path | str, *words: str, **changes: Any) -> Any:
    """What fairseq makes of a command line; `dataset__max_tokens=4` changes it, for less time than parsing takes."""
    cfg = deepcopy(parsed(*words))
    cfg.task.data = str(data)
    for name, value in changes.items():
        OmegaConf.update(cfg, name.replace("__", "."), value)
    return cfg
