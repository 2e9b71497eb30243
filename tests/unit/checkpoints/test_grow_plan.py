"""Which layer, group, output and row becomes which, against tables written out here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deepnmt.checkpoints.plans import (
    STRATEGIES,
    HistoryPlan,
    LayerPlan,
    cuts_a_group,
    fitting_groups,
    grown_groups,
    grown_history,
    grown_layers,
)
from deepnmt.checkpoints.tensors import grow_weight, kept_weight, sources

# strategy, old depth, new depth: the old layer of each new one, and which of the new ones are added, all from 1
LAYERS: list[tuple[str, int, int, list[int], list[int]]] = [
    ("stack", 3, 6, [1, 2, 3, 1, 2, 3], [4, 5, 6]),
    ("stack", 2, 6, [1, 2, 1, 2, 1, 2], [3, 4, 5, 6]),
    ("stack", 1, 2, [1, 1], [2]),
    ("top", 3, 5, [1, 2, 3, 2, 3], [4, 5]),
    ("top", 3, 6, [1, 2, 3, 1, 2, 3], [4, 5, 6]),
    ("top", 3, 4, [1, 2, 3, 3], [4]),
    ("repeat-top", 3, 5, [1, 2, 3, 3, 3], [4, 5]),
    ("repeat-top", 2, 7, [1, 2, 2, 2, 2, 2, 2], [3, 4, 5, 6, 7]),
    ("interleave", 3, 6, [1, 1, 2, 2, 3, 3], [2, 4, 6]),
    ("interleave", 2, 6, [1, 1, 1, 2, 2, 2], [2, 3, 5, 6]),
]


@pytest.mark.parametrize(("strategy", "old", "new", "origin", "added"), LAYERS)
def test_layers(strategy: str, old: int, new: int, origin: list[int], added: list[int]) -> None:
    plan = grown_layers(strategy, old, new)
    assert [source + 1 for source in plan.sources] == origin
    assert [layer + 1 for layer in range(new) if plan.added(layer)] == added


UNREACHABLE = [
    ("stack", 6, 10, "must be a multiple of the present depth, 6, with --strategy stack, but is 10"),
    ("interleave", 6, 9, "must be a multiple of the present depth, 6, with --strategy interleave, but is 9"),
    ("top", 6, 13, "must be at most twice the present depth, 6, with --strategy top, but is 13"),
    *((strategy, 6, 6, "must be above the present depth, 6, but is 6") for strategy in STRATEGIES),
    *((strategy, 6, 3, "must be above the present depth, 6, but is 3") for strategy in STRATEGIES),
    ("repeat-top", 6, -1, "must be above the present depth, 6, but is -1"),
]


@pytest.mark.parametrize(("strategy", "old", "new", "message"), UNREACHABLE)
def test_depths_out_of_reach(strategy: str, old: int, new: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        grown_layers(strategy, old, new)


# strategy, old depth, new depth, old groups: the new groups, and the boundaries that surely fit
GROUPS = [
    ("stack", 6, 12, "none", "none", None),
    ("interleave", 6, 12, "none", "none", None),
    ("stack", 6, 12, "1", "1", "0,1,2,3,4,5,6,12"),
    ("stack", 6, 12, "6", "6", "0,6,12"),
    ("stack", 6, 12, "3", "3", "0,3,6,12"),
    ("top", 6, 10, "6", "6", "0,6,10"),
    ("repeat-top", 6, 8, "2", "2", "0,2,4,6,8"),
    ("stack", 6, 12, "0,4,6", "0,4,6,12", "0,4,6,12"),
    ("top", 8, 12, "0,6,8", "0,6,8,12", "0,6,8,12"),
    ("interleave", 6, 12, "1", "1", "0,2,4,6,8,10,12"),
    ("interleave", 6, 12, "4", "4", "0,8,12"),
    ("interleave", 3, 9, "0,1,3", "0,3,9", "0,3,9"),
]


@pytest.mark.parametrize(("strategy", "old", "new", "groups", "expected", "fitting"), GROUPS)
def test_groups(strategy: str, old: int, new: int, groups: str, expected: str, fitting: Optional[str]) -> None:
    layers = grown_layers(strategy, old, new)
    assert grown_groups(groups, layers) == expected
    if fitting is not None:
        assert fitting_groups(groups, layers) == fitting
        assert grown_groups(groups, layers, fitting) == fitting


def test_groups_given() -> None:
    layers = grown_layers("stack", 6, 12)
    for wanted in ("2", "0,6,12", "0,6,9,12", "0,3,6,12"):
        assert grown_groups("6", layers, wanted) == wanted
    assert grown_groups("0,6", layers, "3") == "3"


# strategy, old depth, new depth, old groups, groups asked for
MISFITS: list[tuple[str, int, int, str, Optional[str], str]] = [
    (
        "top", 8, 12, "6", None,
        "must end a group after layer 8, where a present one ends, but is '6'; '0,6,8,12' does",
    ),
    (
        "stack", 6, 12, "6", "0,4,8,12",
        "must end a group after layer 6, where a present one ends, but is '0,4,8,12'; '0,6,12' does",
    ),
    (
        "stack", 6, 12, "2", "3",
        "must end a group after layer 2, where a present one ends, but is '3'; '0,2,4,6,12' does",
    ),
    (
        "interleave", 3, 6, "1", "0,1,4,6",
        "must end a group after layer 2, where a present one ends, but is '0,1,4,6'; '0,2,4,6' does",
    ),
    ("stack", 6, 12, "none", "6", "must be none as before, but is '6'"),
    ("stack", 6, 12, "6", "none", "must be groups as before, but is 'none'"),
    ("stack", 6, 12, "6", "0,6", "boundaries must go from 0 to the depth, 12, but are '0,6'"),
    ("stack", 6, 12, "6", "six", "must be 'none', a group size or boundaries such as '0,6,12', but is 'six'"),
    ("stack", 6, 12, "6", "13", "must be from 1 to the depth, 12, but is 13"),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "old", "new", "groups", "wanted", "message"), MISFITS)
def test_groups_that_do_not_fit(
    strategy: str, old: int, new: int, groups: str, wanted: Optional[str], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        grown_groups(groups, grown_layers(strategy, old, new), wanted)


def everything(row: int) -> int:
    """What a row reads without a window: all from output 0 on."""
    return 0


def last_two(row: int) -> int:
    """The same with a window of two."""
    return max(0, row - 2)


Oldest = Callable[[int], int]
# What, the layers, old and new boundaries, the window, whether copies are left unread; then which old output each new
# one is (from 0), which old row each new one is (from 1), and which old norm (from 1).
HISTORIES: dict[str, tuple[LayerPlan, str, str, Oldest, bool, list[Any], list[Any], list[int]]] = {
    "dlcl": (
        grown_layers("stack", 2, 4), "0,1,2", "0,1,2,3,4", everything, False,
        [0, 1, 2, None, None], [1, 2, 3, None, None], [1, 2, 2, 2],
    ),
    "group": (
        grown_layers("stack", 6, 12), "0,6", "0,6,12", everything, False,
        [0, 1, None], [1, 2, None], [1, 1],
    ),
    "groups-of-two": (
        grown_layers("top", 4, 6), "0,2,4", "0,2,4,6", everything, False,
        [0, 1, 2, None], [1, 2, 3, None], [1, 2, 2],
    ),
    "ragged": (
        grown_layers("repeat-top", 3, 5), "0,1,3", "0,1,3,5", everything, False,
        [0, 1, 2, None], [1, 2, 3, None], [1, 2, 2],
    ),
    "divided": (
        grown_layers("stack", 4, 8), "0,4", "0,2,4,6,8", everything, False,
        [0, None, 1, None, None], [1, None, 2, None, None], [1, 1, 1, 1],
    ),
    "window-on-top": (
        grown_layers("stack", 2, 4), "0,1,2", "0,1,2,3,4", last_two, False,
        [0, 1, 2, None, None], [1, 2, 3, None, None], [1, 2, 2, 2],
    ),
    "interleaved": (
        grown_layers("interleave", 2, 4), "0,1,2", "0,1,2,3,4", everything, False,
        [0, None, 1, None, 2], [1, None, 2, None, 3], [1, 1, 2, 2],
    ),
    "interleaved-groups": (
        grown_layers("interleave", 4, 8), "0,2,4", "0,2,4,6,8", everything, False,
        [0, None, 1, None, 2], [1, None, 2, None, 3], [1, 1, 2, 2],
    ),
    "interleaved-scaled": (
        grown_layers("interleave", 3, 6), "0,1,3", "0,2,6", everything, False,
        [0, 1, 2], [1, 2, 3], [1, 2],
    ),
    # Old row 3 read outputs 1 and 2, which are 2 and 4 now: new row 5 reads 3 and 4 only.
    "interleaved-window": (
        grown_layers("interleave", 2, 4), "0,1,2", "0,1,2,3,4", last_two, False,
        [0, None, 1, None, 2], [1, None, None, None, None], [1, 1, 2, 2],
    ),
    "bypass": (
        grown_layers("stack", 2, 4), "0,1,2", "0,1,2,3,4", everything, True,
        [0, 1, 2, None, None], [1, 2, 3, None, 3], [1, 2, 2, 2],
    ),
    "bypass-window": (
        grown_layers("stack", 2, 4), "0,1,2", "0,1,2,3,4", last_two, True,
        [0, 1, 2, None, None], [1, 2, 3, None, None], [1, 2, 2, 2],
    ),
    "bypass-interleaved": (
        grown_layers("interleave", 2, 4), "0,1,2", "0,1,2,3,4", everything, True,
        [0, 1, None, 2, None], [1, None, 2, None, 3], [1, 1, 2, 2],
    ),
    "bypass-interleaved-groups": (
        grown_layers("interleave", 2, 6), "0,2", "0,4,5,6", everything, True,
        [0, 1, None, None], [1, None, None, 2], [1, 1, 1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HISTORIES.values(), ids=HISTORIES)
def test_history(case: tuple[LayerPlan, str, str, Oldest, bool, list[Any], list[Any], list[int]]) -> None:
    layers, old, new, oldest, bypass, outputs, rows, norms = case
    before, after = (tuple(map(int, text.split(","))) for text in (old, new))
    plan = grown_history(layers, before, after, oldest, bypass)
    assert list(plan.outputs) == outputs
    assert list(plan.rows) == rows
    assert list(plan.norms) == norms


@pytest.mark.parametrize(
    ("strategy", "old", "new", "before", "after", "cut"),
    [
        ("stack", 4, 8, (0, 4), (0, 4, 8), False),
        ("stack", 4, 8, (0, 4), (0, 2, 4, 8), True),
        ("stack", 4, 8, (0, 4), (0, 4, 6, 8), False),
        ("interleave", 2, 4, (0, 1, 2), (0, 1, 2, 3, 4), False),
        ("interleave", 2, 4, (0, 2), (0, 2, 4), True),
        ("interleave", 2, 4, (0, 2), (0, 1, 4), True),
        ("interleave", 2, 4, (0, 2), (0, 3, 4), False),
    ],
)
def test_divided_groups(
    strategy: str, old: int, new: int, before: tuple[int, ...], after: tuple[int, ...], cut: bool
) -> None:
    assert cuts_a_group(grown_layers(strategy, old, new), before, after) == cut


@given(st.data())
def test_any_growth_keeps_every_old_row_and_output(data: st.DataObject) -> None:
    depth = data.draw(st.integers(1, 6))
    strategy = data.draw(st.sampled_from(STRATEGIES))
    new = depth * data.draw(st.integers(2, 3)) if strategy in ("stack", "interleave") else depth + 1
    layers = grown_layers(strategy, depth, new)
    before = (0, *sorted(data.draw(st.sets(st.integers(1, depth)))))
    before = before if before[-1] == depth else (*before, depth)
    fitting = {int(end) for end in fitting_groups(",".join(map(str, before)), layers).split(",")}
    after = sorted(fitting | data.draw(st.sets(st.integers(1, new))))
    plan = grown_history(layers, before, after, everything)
    # Each old row and output once, in their order, each row right after the output before it.
    assert [row for row in plan.rows if row is not None] == list(range(1, len(before) + 1))
    assert [output for output in plan.outputs if output is not None] == list(range(len(before)))
    assert [None if row is None else row - 1 for row in plan.rows] == list(plan.outputs)
    # An old layer is in a new group with the norm of its old group.
    for layer, source in enumerate(layers.sources):
        if not layers.added(layer):
            group = sum(start <= layer for start in after) - 1
            assert plan.norms[group] == sum(start <= source for start in before)


def test_names() -> None:
    names = [
        "encoder.version",
        "encoder.layers.0.fc1.weight",
        "encoder.layers.0.fc1.bias",
        "encoder.layers.1.fc1.weight",
        "encoder.layers.1.fc1.bias",
        "encoder.layer_norm.weight",
        "encoder.history.weight",
        "encoder.history.layer_norms.0.weight",
        "encoder.history.layer_norms.1.weight",
        "encoder.history.embedding_norm.weight",
        "decoder.layers.0.fc1.weight",
    ]
    plan = HistoryPlan((0, 1, 2, None), (1, 2, 3, None), (1, 2, 2))
    found = sources(names, "encoder", grown_layers("repeat-top", 2, 3), plan)
    assert list(found.items()) == [
        ("encoder.version", "encoder.version"),
        ("encoder.layers.0.fc1.weight", "encoder.layers.0.fc1.weight"),
        ("encoder.layers.0.fc1.bias", "encoder.layers.0.fc1.bias"),
        ("encoder.layers.1.fc1.weight", "encoder.layers.1.fc1.weight"),
        ("encoder.layers.1.fc1.bias", "encoder.layers.1.fc1.bias"),
        ("encoder.layers.2.fc1.weight", "encoder.layers.1.fc1.weight"),
        ("encoder.layers.2.fc1.bias", "encoder.layers.1.fc1.bias"),
        ("encoder.layer_norm.weight", "encoder.layer_norm.weight"),
        ("encoder.history.weight", "encoder.history.weight"),
        ("encoder.history.layer_norms.0.weight", "encoder.history.layer_norms.0.weight"),
        ("encoder.history.layer_norms.1.weight", "encoder.history.layer_norms.1.weight"),
        ("encoder.history.layer_norms.2.weight", "encoder.history.layer_norms.1.weight"),
        ("encoder.history.embedding_norm.weight", "encoder.history.embedding_norm.weight"),
        ("decoder.layers.0.fc1.weight", "decoder.layers.0.fc1.weight"),
    ]


# An old W of two groups: 11 is row 1, output 0; 21 and 22 are row 2, and so on. Stale numbers stand where no row reads.
OLD = torch.tensor([[11.0, 7, 7], [21, 22, 7], [31, 32, 33]]).unsqueeze(-1)
# name: history of the table above, softmax, chained, the new W
WEIGHTS: dict[str, tuple[str, bool, bool, list[list[float]]]] = {
    "dlcl": (
        "dlcl", False, False,
        [[11, 0, 0, 0, 0], [21, 22, 0, 0, 0], [31, 32, 33, 0, 0], [1 / 4] * 4 + [0], [1 / 5] * 5],
    ),
    "window-on-top": (
        "window-on-top", False, False,
        [[11, 0, 0, 0, 0], [21, 22, 0, 0, 0], [0, 32, 33, 0, 0], [0, 0, 1 / 2, 1 / 2, 0], [0, 0, 0, 1 / 2, 1 / 2]],
    ),
    "interleaved": (
        "interleaved", False, False,
        [[11, 0, 0, 0, 0], [1 / 2, 1 / 2, 0, 0, 0], [21, 0, 22, 0, 0], [1 / 4] * 4 + [0], [31, 0, 32, 0, 33]],
    ),
    "interleaved-window": (
        "interleaved-window", False, False,
        [[11, 0, 0, 0, 0], [1 / 2, 1 / 2, 0, 0, 0], [0, 1 / 2, 1 / 2, 0, 0], [0, 0, 1 / 2, 1 / 2, 0],
         [0, 0, 0, 1 / 2, 1 / 2]],
    ),
    "softmax": (
        "dlcl", True, False,
        [[11, 0, 0, 0, 0], [21, 22, 0, 0, 0], [31, 32, 33, 0, 0], [0] * 5, [0] * 5],
    ),
    "softmax-interleaved": (
        "interleaved", True, False,
        [[11, 0, 0, 0, 0], [0] * 5, [21, 22 - 20, 22, 0, 0], [0] * 5, [31, 33 - 20, 32, 33 - 20, 33]],
    ),
    "chained": (
        "dlcl", False, True,
        [[11, 0, 0, 0, 0], [21, 22, 0, 0, 0], [31, 32, 33, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    ),
    "softmax-chained": (
        "dlcl", True, True,
        [[11, 0, 0, 0, 0], [21, 22, 0, 0, 0], [31, 32, 33, 0, 0], [-20, -20, -20, 0, 0], [-20] * 4 + [0]],
    ),
    "bypass": (
        "bypass", False, False,
        [[11, 0, 0, 0, 0], [21, 22, 0, 0, 0], [31, 32, 33, 0, 0], [1 / 4] * 4 + [0], [31, 32, 33, 0, 0]],
    ),
    "bypass-interleaved": (
        "bypass-interleaved", False, False,
        [[11, 0, 0, 0, 0], [1 / 2, 1 / 2, 0, 0, 0], [21, 22, 0, 0, 0], [1 / 4] * 4 + [0], [31, 32, 0, 33, 0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("case", WEIGHTS.values(), ids=WEIGHTS)
def test_weights(case: tuple[str, bool, bool, list[list[float]]], slices: int) -> None:
    history, softmax, chained, rows = case
    layers, old, new, oldest, bypass, *_ = HISTORIES[history]
    before, after = (tuple(map(int, text.split(","))) for text in (old, new))
    plan = grown_history(layers, before, after, oldest, bypass)
    expected = torch.tensor(rows).unsqueeze(-1).expand(-1, -1, slices)
    grown = grow_weight(OLD.expand(-1, -1, slices), plan, oldest, softmax, chained)
    assert torch.equal(grown, expected)
    half = grow_weight(OLD.expand(-1, -1, slices).half(), plan, oldest, softmax, chained)
    assert half.dtype == torch.float16
    assert torch.equal(half, expected.half())
    # What an optimizer keeps beside W: nothing yet for what is new.
    moment = kept_weight(OLD.expand(-1, -1, slices), plan, oldest)
    assert torch.equal(moment, torch.where(torch.isin(expected, OLD), expected, torch.zeros(())))
