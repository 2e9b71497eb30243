"""Learning-rate schedules against formulas written out, and across restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fairseq.benchmark  # noqa: F401  registers the task dummy_mt
import pytest
import torch
from fairseq.optim.lr_scheduler.inverse_square_root_schedule import InverseSquareRootSchedule
from support.schedules import CLOSE, RESET_CASES, build, build_reset, rates, reset_formula

import deepnmt.lr_schedulers  # noqa: F401  registers the schedules
from deepnmt.lr_schedulers.inverse_sqrt_reset import with_reset

pytestmark = [
    pytest.mark.filterwarnings("ignore:\\s*'schedule_test' is validated against ConfigStore:UserWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.cuda.amp.autocast:FutureWarning"),
]


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
def test_restart_has_the_same_rates_to_the_bit(case: str, tmp_path: Path) -> None:
    expected = rates(build_reset(case), range(2000))
    before, done = build_reset(case), 0
    for stop in (0, 1, 150, 399, 400, 1001, 1700):
        rates(before, range(done, stop + 1))
        torch.save(before.state_dict(), tmp_path / "state.pt")
        after, done = build_reset(case), stop + 1
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


@pytest.mark.parametrize("length", [1, 7, 400, 1000])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("inverse_sqrt_no_warmup", {"decay_period": 50}),
        ("inverse_sqrt_reset", {"warmup_updates": 300, "reset_updates": "500,800"}),
    ],
)
def test_the_cool_down_goes_linearly_to_zero(name: str, settings: dict[str, Any], length: int) -> None:
    plain = rates(build(name, **settings), range(1001))
    expected = [rate * (1 if t <= 1000 - length else (1000 - t) / length) for t, rate in enumerate(plain)]
    scheduler = build(name, max_update=1000, cooldown_updates=length, **settings)
    got = rates(scheduler, range(1001))
    assert got == pytest.approx(expected, **CLOSE)
    assert got[1000 - length] == plain[1000 - length]
    assert got[1000] == 0
    # Resumed with a later end, the rate is the one of that training.
    later = build(name, max_update=5000, cooldown_updates=length, **settings)
    later.load_state_dict(scheduler.state_dict())
    assert rates(later, range(900, 1001)) == plain[900:]
