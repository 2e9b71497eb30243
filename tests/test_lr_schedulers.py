"""Learning-rate schedules against formulas written out here, across restarts, and in a training of fairseq's."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fairseq.benchmark  # noqa: F401  registers the task dummy_mt
import pytest
import torch
from fairseq import optim, options
from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim.lr_scheduler import FairseqLRScheduler, build_lr_scheduler
from fairseq.optim.lr_scheduler.inverse_square_root_schedule import InverseSquareRootSchedule
from fairseq.trainer import Trainer
from fairseq_cli.train import main as train
from hydra import compose, initialize_config_dir
from models import SIZE
from omegaconf import OmegaConf

import deepnmt.lr_schedulers  # noqa: F401  registers the schedules
from deepnmt.errors import UserError
from deepnmt.lr_schedulers.inverse_sqrt_no_warmup import InverseSqrtNoWarmupConfig
from deepnmt.lr_schedulers.inverse_sqrt_reset import InverseSqrtReset, InverseSqrtResetConfig, with_reset

pytestmark = [
    pytest.mark.filterwarnings("ignore:\\s*'schedule_test' is validated against ConfigStore:UserWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.cuda.amp.autocast:FutureWarning"),
]
CLOSE = {"rel": 1e-13, "abs": 0}

# Warm-up, its initial rate as given, decay period, resets.
RESET_CASES: dict[str, tuple[int, float, int, list[int]]] = {
    "no reset": (400, -1, 0, []),
    "resets": (400, -1, 0, [1000, 1001, 2500]),
    "own decay period": (400, -1, 90, [1000]),
    "initial rate": (400, 1e-4, 0, [600]),
    "reset in warm-up": (400, 1e-4, 700, [150, 399, 1600]),
    "reset as warm-up ends": (400, -1, 300, [400]),
    "no warm-up": (0, -1, 250, []),
    "no warm-up, resets": (0, -1, 250, [1, 900]),
    "warm-up of one": (1, -1, 0, [2]),
}


def adam(cfg: Any) -> optim.FairseqOptimizer:
    return optim.build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.ones(1))])


def build(name: str, lr: Any = 0.003, **settings: Any) -> FairseqLRScheduler:
    """The schedule as the trainer has it, from a configuration such as Hydra gives."""
    cfg = OmegaConf.create(
        {
            "common": {"tpu": False},
            "optimization": {"lr": lr if isinstance(lr, list) else [lr]},
            "optimizer": {"_name": "adam", "lr": [0.25]},
            "lr_scheduler": {"_name": name, **settings},
        }
    )
    return build_lr_scheduler(cfg.lr_scheduler, adam(cfg))


def build_reset(case: str, **settings: Any) -> FairseqLRScheduler:
    warmup, initial, period, resets = RESET_CASES[case]
    given = {"warmup_updates": warmup, "warmup_init_lr": initial, "decay_period": period, "reset_updates": resets}
    return build("inverse_sqrt_reset", **{**given, **settings})


def rates(scheduler: FairseqLRScheduler, updates: Iterable[int]) -> list[float]:
    """What the optimizer has after each of these numbers of updates."""
    result = []
    for update in updates:
        returned = scheduler.step_update(update)
        result.append(scheduler.optimizer.get_lr())
        assert returned == result[-1]
    return result


def reset_formula(updates: int, warmup: int, initial: float, period: int, resets: list[int]) -> list[float]:
    """(16) and (17), update by update, for a peak of 0.003."""
    peak, top, result = 0.003, warmup, []
    for t in range(updates):
        top = t if t in resets else top
        if t < top:
            start = initial if initial > 0 else 0.0
            result.append(start * (1 - t / warmup) + peak * t / warmup)
        else:
            result.append(peak * (1 + (t - top) / (period or warmup)) ** -0.5)
    return result


@pytest.mark.parametrize(("peak", "period"), [(0.003, 4000), (0.5, 1), (1e-5, 77)])
def test_no_warmup_is_equation_10(peak: float, period: int) -> None:
    scheduler = build("inverse_sqrt_no_warmup", lr=peak, decay_period=period)
    assert scheduler.optimizer.get_lr() == peak
    expected = [peak * period**0.5 * (period + t) ** -0.5 for t in range(6000)]
    assert rates(scheduler, range(6000)) == pytest.approx(expected, **CLOSE)


def test_no_warmup_needs_no_state() -> None:
    scheduler = build("inverse_sqrt_no_warmup")
    expected = rates(scheduler, range(2000))
    fresh = build("inverse_sqrt_no_warmup")
    fresh.load_state_dict(scheduler.state_dict())
    assert rates(fresh, range(700, 2000)) == expected[700:]


@pytest.mark.parametrize("case", RESET_CASES)
def test_reset_is_equations_16_and_17(case: str) -> None:
    scheduler = build_reset(case)
    expected = reset_formula(5000, *RESET_CASES[case])
    assert scheduler.optimizer.get_lr() == expected[0]
    assert rates(scheduler, range(5000)) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("case", ["resets", "reset in warm-up", "no warm-up, resets"])
def test_each_reset_is_at_the_peak_exactly(case: str) -> None:
    resets = RESET_CASES[case][3]
    assert rates(build_reset(case), resets) == [0.003] * len(resets)


@pytest.mark.parametrize("initial", [-1, 1e-4])
def test_without_resets_it_is_fairseqs_inverse_sqrt(initial: float) -> None:
    stock = build("inverse_sqrt", warmup_updates=300, warmup_init_lr=initial)
    assert isinstance(stock, InverseSquareRootSchedule)
    own = build("inverse_sqrt_reset", warmup_updates=300, warmup_init_lr=initial)
    expected = rates(stock, range(5000))
    got = rates(own, range(5000))
    assert got[:300] == expected[:300]
    assert got == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("case", RESET_CASES)
@pytest.mark.parametrize("stop", [0, 1, 150, 399, 400, 1001, 1700])
def test_restart_has_the_same_rates_to_the_bit(case: str, stop: int, tmp_path: Path) -> None:
    expected = rates(build_reset(case), range(2000))
    before = build_reset(case)
    rates(before, range(stop + 1))
    torch.save(before.state_dict(), tmp_path / "state.pt")
    after = build_reset(case)
    after.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert rates(after, range(stop, 2000)) == expected[stop:]


def test_state_has_the_resets_so_far() -> None:
    scheduler = build_reset("no reset", reset_updates="500,1000")
    seen = {}
    for update in (499, 500, 999, 1000):
        scheduler.step_update(update)
        seen[update] = scheduler.state_dict()["resets"]
    assert seen == {499: [], 500: [500], 999: [500], 1000: [500, 1000]}


def test_restart_keeps_past_resets_and_may_change_planned_ones() -> None:
    before = build_reset("no reset", reset_updates="500,1000")
    before.step_update(800)
    after = build_reset("no reset", reset_updates="1200")
    after.load_state_dict(before.state_dict())
    assert after.state_dict()["resets"] == [500]
    expected = reset_formula(3000, 400, -1, 0, [500, 1200])
    assert rates(after, range(800, 3000)) == pytest.approx(expected[800:], **CLOSE)
    assert after.state_dict()["resets"] == [500, 1200]


@pytest.mark.parametrize("grown", [0, 100, 400, 777])
def test_reset_added_to_a_state(grown: int) -> None:
    before = build_reset("no reset")
    before.step_update(grown)
    after = build_reset("no reset", reset_updates="2000")
    after.load_state_dict(with_reset(before.state_dict(), grown))
    expected = reset_formula(3000, 400, -1, 0, [grown, 2000])
    got = rates(after, range(grown, 3000))
    assert got[0] == 0.003
    assert got == pytest.approx(expected[grown:], **CLOSE)


def test_growing_again_and_again() -> None:
    state: dict[str, Any] = {"best": 3.5}
    for update in (900, 300, 300):
        state = with_reset(state, update)
    assert state == {"best": 3.5, "resets": [300, 900]}
    first = with_reset(state, 1500)
    assert state["resets"] == [300, 900]
    assert first["resets"] == [300, 900, 1500]


def test_reset_before_the_first_update_is_refused() -> None:
    with pytest.raises(ValueError, match=r"update must be at least 0, but is -1"):
        with_reset({}, -1)


@pytest.mark.parametrize("state", [{"best": 2.5}, {"best": None, "last_epoch": 3}, {}])
def test_state_of_another_schedule_has_no_resets(state: dict[str, Any]) -> None:
    scheduler = build_reset("resets")
    scheduler.load_state_dict(state)
    expected = reset_formula(3000, *RESET_CASES["resets"])
    assert rates(scheduler, range(3000)) == pytest.approx(expected, **CLOSE)
    assert scheduler.state_dict()["best"] == state.get("best")


def test_a_state_loaded_later_replaces_an_earlier_one() -> None:
    scheduler = build_reset("no reset")
    scheduler.load_state_dict({"best": None, "resets": [500]})
    scheduler.load_state_dict({"best": None, "resets": [600]})
    assert scheduler.state_dict()["resets"] == [600]


def test_best_loss_is_kept_as_fairseq_keeps_it() -> None:
    scheduler = build_reset("no reset")
    for epoch, loss in enumerate((4.0, 3.0, 3.5)):
        scheduler.step(epoch, loss)
    assert scheduler.state_dict() == {"best": 3.0, "resets": []}


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
    text = f"optimization: {{lr: [0.003]}}\noptimizer: {{_name: adam}}\nlr_scheduler: {schedule}\n"
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
    assert dict(cfg.lr_scheduler) == {"_name": name, "lr": [0.003], **expected}
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
    names = [name for name in config.__dataclass_fields__ if name not in ("_name", "lr")]
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
