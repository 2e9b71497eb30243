"""Options of the learning-rate schedules, and trainings of fairseq's with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import fairseq.benchmark  # noqa: F401  registers the task dummy_mt
import pytest
import torch
from fairseq import options
from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim.lr_scheduler import build_lr_scheduler
from fairseq.trainer import Trainer
from fairseq_cli.train import main as train
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from support.models import SIZE
from support.schedules import CLOSE, adam, build, rates, reset_formula

import deepnmt.lr_schedulers  # noqa: F401  registers the schedules
from deepnmt.errors import UserError
from deepnmt.lr_schedulers.inverse_sqrt_no_warmup import InverseSqrtNoWarmupConfig
from deepnmt.lr_schedulers.inverse_sqrt_reset import InverseSqrtReset, InverseSqrtResetConfig, with_reset

pytestmark = [
    pytest.mark.filterwarnings("ignore:\\s*'schedule_test' is validated against ConfigStore:UserWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.cuda.amp.autocast:FutureWarning"),
]

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("inverse_sqrt_no_warmup", {"decay_period": 0}, "--decay-period must be at least 1, but is 0"),
    ("inverse_sqrt_no_warmup", {"decay_period": -3}, "--decay-period must be at least 1, but is -3"),
    ("inverse_sqrt_no_warmup", {"lr": [0.1, 0.2]}, "--lr must be one rate, but is 0.1,0.2"),
    ("inverse_sqrt_no_warmup", {"lr": []}, "--lr must be one rate, but is empty"),
    ("inverse_sqrt_no_warmup", {"lr": -0.1}, "--lr must be a finite number of at least 0, but is -0.1"),
    ("inverse_sqrt_reset", {"lr": float("nan")}, "--lr must be a finite number of at least 0, but is nan"),
    ("inverse_sqrt_reset", {"lr": float("inf")}, "--lr must be a finite number of at least 0, but is inf"),
    ("inverse_sqrt_reset", {"lr": [0.1, 0.2]}, "--lr must be one rate, but is 0.1,0.2"),
    ("inverse_sqrt_reset", {"warmup_updates": -1}, "--warmup-updates must be at least 0, but is -1"),
    ("inverse_sqrt_reset", {"decay_period": -1}, "--decay-period must be at least 0, but is -1"),
    (
        "inverse_sqrt_reset",
        {"warmup_updates": 0},
        "--decay-period must be at least 1 with --warmup-updates 0, but is 0",
    ),
    (
        "inverse_sqrt_reset",
        {"warmup_updates": 0, "decay_period": 5, "warmup_init_lr": 1e-7},
        "--warmup-init-lr needs --warmup-updates of at least 1, but is 1e-07",
    ),
    ("inverse_sqrt_reset", {"warmup_init_lr": float("nan")}, "--warmup-init-lr must be a finite number, but is nan"),
    ("inverse_sqrt_no_warmup", {"cooldown_updates": -1}, "--cooldown-updates must be at least 0, but is -1"),
    (
        "inverse_sqrt_no_warmup",
        {"cooldown_updates": 11, "max_update": 10},
        "--cooldown-updates must be at most --max-update, 10, but is 11",
    ),
    ("inverse_sqrt_reset", {"cooldown_updates": 5}, "--cooldown-updates must be at most --max-update, 0, but is 5"),
    ("inverse_sqrt_reset", {"reset_updates": "3,3"}, "--reset-updates must be increasing numbers .*, but is 3,3"),
    ("inverse_sqrt_reset", {"reset_updates": [9, 3]}, "--reset-updates must be increasing numbers .*, but is 9,3"),
    ("inverse_sqrt_reset", {"reset_updates": 0}, "--reset-updates must be .* of at least 1, but is 0"),
    ("inverse_sqrt_reset", {"reset_updates": "-5"}, "--reset-updates must be .* of at least 1, but is -5"),
    ("inverse_sqrt_reset", {"reset_updates": "5,,6"}, "--reset-updates must be numbers .* 10000,20000, but is 5,,6"),
    ("inverse_sqrt_reset", {"reset_updates": "1e4"}, "--reset-updates must be numbers of .*, but is 1e4"),
    ("inverse_sqrt_reset", {"reset_updates": 2.5}, "--reset-updates must be numbers of .*, but is 2.5"),
    ("inverse_sqrt_reset", {"reset_updates": True}, "--reset-updates must be numbers of .*, but is True"),
]


@pytest.mark.parametrize(("name", "settings", "message"), FAULTS)
def test_options_out_of_range_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}$"):
        build(name, **settings)


def test_all_faults_come_at_once() -> None:
    with pytest.raises(UserError, match="must") as refused:
        build("inverse_sqrt_no_warmup", lr=[0.1, 0.2], decay_period=0)
    assert str(refused.value).splitlines() == [
        "--lr must be one rate, but is 0.1,0.2",
        "--decay-period must be at least 1, but is 0",
    ]
    with pytest.raises(UserError, match="must") as refused:
        build("inverse_sqrt_reset", lr=-1, warmup_updates=-2, decay_period=-3, reset_updates="a")
    assert [line.split()[0] for line in str(refused.value).splitlines()] == [
        "--lr",
        "--warmup-updates",
        "--decay-period",
        "--reset-updates",
    ]


@pytest.mark.parametrize(
    ("in_file", "override", "resets"),
    [
        ("''", None, []),
        ("[]", None, []),
        ("500", None, [500]),
        ("500,1000", None, [500, 1000]),
        ("500, 1000", None, [500, 1000]),
        ("[500, 1000]", None, [500, 1000]),
        ("''", "700", [700]),
        ("500", "'700,900'", [700, 900]),
        ("500,1000", "[700,900]", [700, 900]),
    ],
)
def test_resets_in_a_hydra_configuration(in_file: str, override: str | None, resets: list[int], tmp_path: Path) -> None:
    schedule = f"\n  _name: inverse_sqrt_reset\n  warmup_updates: 400\n  reset_updates: {in_file}"
    text = f"optimization: {{lr: [0.003], max_update: 0}}\noptimizer: {{_name: adam}}\nlr_scheduler: {schedule}\n"
    (tmp_path / "schedule_test.yaml").write_text(text, encoding="utf-8")
    # As fairseq-hydra-train reads it.
    hydra_init("schedule_test")
    overrides = [] if override is None else [f"lr_scheduler.reset_updates={override}"]
    with initialize_config_dir(str(tmp_path), version_base="1.1"):
        cfg = compose("schedule_test", overrides=overrides)
    add_defaults(cfg)
    cfg = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True, enum_to_str=True))
    scheduler = build_lr_scheduler(cfg.lr_scheduler, adam(cfg))
    expected = reset_formula(2000, 400, -1, 0, resets)
    assert rates(scheduler, range(2000)) == pytest.approx(expected, **CLOSE)


def command_line(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """The whole configuration of a fairseq-train command."""
    monkeypatch.setattr(sys, "argv", ["fairseq-train"])
    args = options.parse_args_and_arch(options.get_training_parser(), list(arguments))
    return convert_namespace_to_omegaconf(args)


PARSED: list[tuple[list[str], dict[str, Any]]] = [
    (["inverse_sqrt_no_warmup"], {"decay_period": 4000}),
    (["inverse_sqrt_no_warmup", "--decay-period=70"], {"decay_period": 70}),
    (
        ["inverse_sqrt_reset"],
        {"warmup_updates": 4000, "warmup_init_lr": -1, "decay_period": 0, "reset_updates": ""},
    ),
    (
        ["inverse_sqrt_reset", "--warmup-updates=40", "--warmup-init-lr=1e-7", "--reset-updates=80,90"],
        {"warmup_updates": 40, "warmup_init_lr": 1e-7, "decay_period": 0, "reset_updates": "80,90"},
    ),
    (
        ["inverse_sqrt_reset", "--warmup-updates=0", "--decay-period=50", "--reset-updates", "7"],
        {"warmup_updates": 0, "warmup_init_lr": -1, "decay_period": 50, "reset_updates": "7"},
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), PARSED)
def test_options_on_the_command_line(
    arguments: list[str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ["DATA", "--arch=transformer", "--optimizer=adam", "--lr=0.003"]
    cfg = command_line(monkeypatch, *common, "--lr-scheduler", *arguments)
    name = arguments[0]
    given = {"_name": name, "lr": [0.003], "cooldown_updates": 0, "max_update": 0}
    assert dict(cfg.lr_scheduler) == {**given, **expected}
    scheduler = build_lr_scheduler(cfg.lr_scheduler, adam(cfg))
    if isinstance(scheduler, InverseSqrtReset):
        resets = [int(number) for number in expected["reset_updates"].split(",") if number]
        settings = (expected["warmup_updates"], expected["warmup_init_lr"], expected["decay_period"])
        formula = reset_formula(6000, *settings, resets)
    else:
        period = expected["decay_period"]
        formula = [0.003 * (period / (period + t)) ** 0.5 for t in range(6000)]
    assert rates(scheduler, range(6000)) == pytest.approx(formula, **CLOSE)


@pytest.mark.parametrize("config", [InverseSqrtNoWarmupConfig, InverseSqrtResetConfig])
def test_every_option_has_a_help_text(config: Any) -> None:
    names = [name for name in config.__dataclass_fields__ if name not in ("_name", "lr", "max_update")]
    assert names
    assert all(config()._get_help(name) for name in names)


def train_on_dummies(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> dict[int, float]:
    """Train a tiny model with fairseq's trainer; the rate of each update, by the number of updates before it."""
    used: dict[int, float] = {}
    stock = Trainer.train_step

    def train_step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        used[self.get_num_updates()] = self.get_lr()
        return stock(self, *args, **kwargs)

    size = [f"--{name.replace('_', '-')}={value}" for name, value in SIZE.items()]
    data = ["--task=dummy_mt", "--dict-size=20", "--dataset-size=16", "--src-len=4", "--tgt-len=4", "--batch-size=2"]
    fixed = ["--arch=transformer", "--optimizer=adam", "--lr=0.003", "--cpu", "--disable-validation", "--num-workers=0"]
    saving = [f"--save-dir={folder}", "--no-epoch-checkpoints", "--save-interval-updates=1"]
    cfg = command_line(monkeypatch, *size, *data, *fixed, *saving, *arguments)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", train_step)
        train(cfg)
    return used


RESET_RUN = ["--lr-scheduler=inverse_sqrt_reset", "--warmup-updates=4"]


def test_training_and_its_restarts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = [*RESET_RUN, "--reset-updates=7"]
    expected = dict(enumerate(reset_formula(12, 4, -1, 0, [7])))
    used: dict[int, float] = {}
    # Restarts in the warm-up, before a reset, exactly at it, and between two epochs of eight updates.
    for stop in (2, 6, 7, 8, 12):
        part = train_on_dummies(monkeypatch, tmp_path, *arguments, f"--max-update={stop}")
        assert not set(part) & set(used)
        used.update(part)
    assert list(used) == list(range(12))
    assert used == pytest.approx(expected, **CLOSE)
    assert used[0] == 0
    assert used[7] == 0.003


@pytest.mark.slow
def test_training_from_a_grown_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Another schedule before: its state knows nothing of resets.
    stock = ["--lr-scheduler=inverse_sqrt", "--warmup-updates=4"]
    train_on_dummies(monkeypatch, tmp_path, *stock, "--max-update=6")
    last = tmp_path / "checkpoint_last.pt"
    checkpoint = torch.load(last, weights_only=True)
    history = checkpoint["optimizer_history"][-1]
    history["lr_scheduler_state"] = with_reset(history["lr_scheduler_state"], history["num_updates"])
    torch.save(checkpoint, last)
    used = train_on_dummies(monkeypatch, tmp_path, *RESET_RUN, "--max-update=9")
    used.update(train_on_dummies(monkeypatch, tmp_path, *RESET_RUN, "--max-update=11"))
    assert used[6] == 0.003
    expected = reset_formula(11, 4, -1, 0, [6])
    assert used == pytest.approx({t: expected[t] for t in range(6, 11)}, **CLOSE)
    state = torch.load(last, weights_only=True)["optimizer_history"][-1]["lr_scheduler_state"]
    assert state["resets"] == [6]


def test_training_with_a_cool_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = ["--lr-scheduler=inverse_sqrt_no_warmup", "--decay-period=5", "--cooldown-updates=4"]
    used = train_on_dummies(monkeypatch, tmp_path, *arguments, "--max-update=6")
    plain = [0.003 * (5 / (5 + t)) ** 0.5 for t in range(6)]
    expected = [rate * factor for rate, factor in zip(plain, (1, 1, 1, 0.75, 0.5, 0.25))]
    assert used == pytest.approx(dict(enumerate(expected)), **CLOSE)
    # A longer training from the same checkpoint is at that one's rate.
    longer = train_on_dummies(monkeypatch, tmp_path, *arguments, "--max-update=10")
    assert longer[6] == pytest.approx(0.003 * (5 / 11) ** 0.5, **CLOSE)
