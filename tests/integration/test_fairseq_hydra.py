"""fairseq-hydra-train knows this package's groups when it composes and shows the configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from support.models import ROOT

import deepnmt
from hydra_plugins.deepnmt_groups import Groups

OVERRIDES = [
    "model=dlcl_transformer_wmt_en_de", "task=deep_translation", "criterion=label_smoothed_cross_entropy_r_drop",
    "lr_scheduler=inverse_sqrt_reset", "optimizer=adam",
]  # fmt: skip


def test_hydra_finds_the_plug_in() -> None:
    # By its name: Hydra imports it once more.
    found = [plugin.__module__ for plugin in Plugins.instance().discover(SearchPathPlugin)]
    assert Groups.__module__ in found


@pytest.mark.slow
def test_groups_compose(tmp_path: Path) -> None:
    command = [Path(sys.executable).parent / "fairseq-hydra-train", f"common.user_dir={ROOT / 'deepnmt'}"]
    # Hydra looks for plug-ins on the whole path, as the installed package has them.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *OVERRIDES, "--cfg", "job"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = yaml.safe_load(done.stdout)
    assert [shown[name.partition("=")[0]]["_name"] for name in OVERRIDES] == [
        name.partition("=")[2] for name in OVERRIDES
    ]
    names = {"model": "encoder_groups", "task": "length_penalty", "criterion": "r_drop_alpha"}
    assert [group for group, name in names.items() if name not in shown[group]] == []
    assert "reset_updates" in shown["lr_scheduler"]


@pytest.mark.parametrize(
    ("program", "word", "registers"),
    [
        ("fairseq_cli.hydra_train", f"common.user_dir={ROOT}/deepnmt", True),
        ("fairseq_cli.hydra_train", f"+common.user_dir={ROOT}/deepnmt/", True),
        ("fairseq_cli.hydra_train", "common.user_dir=/another", False),
        ("fairseq_cli.hydra_train", "--help", False),
        ("another", f"common.user_dir={ROOT}/deepnmt", False),
    ],
)
def test_who_gets_the_groups(program: str, word: str, registers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(deepnmt, "register", lambda: calls.append(1))
    monkeypatch.delitem(sys.modules, "fairseq_cli.hydra_train", raising=False)
    monkeypatch.setitem(sys.modules, program, sys)
    monkeypatch.setattr(sys, "argv", ["program", word])
    search_path: ConfigSearchPath = object()  # type: ignore[assignment]
    Groups().manipulate_search_path(search_path)
    assert bool(calls) == registers
