"""Each reason against a fast path is logged once, and a map's obstacle is the one that it has."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from deepnmt.kernels import fast_path
from deepnmt.kernels.fast_path import linear_obstacle, may_take


@pytest.fixture(autouse=True)
def nothing_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "logged", set())


def test_each_reason_of_each_path_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    asked = [("fast A", "x"), ("fast A", None), ("fast B", "x"), ("fast A", "y"), ("fast A", "x"), ("fast B", "x")]
    with caplog.at_level(logging.INFO):
        assert [may_take(*pair) for pair in asked] == [False, True, False, False, False, False]
    assert caplog.messages == ["fast A is not used: x", "fast B is not used: x", "fast A is not used: y"]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_obstacle_of_a_map() -> None:
    hooked = nn.Linear(2, 2)
    hooked.register_forward_pre_hook(lambda *_: None)
    assert linear_obstacle(nn.Linear(2, 2)) is None
    assert linear_obstacle(nn.Linear(2, 2).double()) is None
    for other in (
        nn.Linear(2, 2, bias=False),
        nn.Identity(),
        torch.nn.modules.linear.NonDynamicallyQuantizableLinear(2, 2),
    ):
        assert linear_obstacle(other) == "a projection is not a plain linear map with a bias"
    assert linear_obstacle(nn.Linear(2, 2).half()) == "the model is in half precision"
    assert linear_obstacle(hooked) == "a projection has hooks"
