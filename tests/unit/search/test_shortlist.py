"""The lists of sentences against sets, and their file."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepnmt.errors import UserError
from deepnmt.search.shortlist import Shortlist
from deepnmt.text.record import SHORTLIST

# Of 7 source types the special symbols have no candidates; 5 has two, 4 a common one.
CANDIDATES = [[2, 2], [2, 2], [2, 2], [2, 2], [8, 2], [9, 6], [6, 2]]
LISTS = Shortlist(np.array([8, 4]), np.array(CANDIDATES), 11)
COMMON = {0, 1, 2, 3, 4, 8}


def test_each_sentence_has_its_own_list() -> None:
    sources = [[4, 2, 1], [5, 6, 2], [3, 2, 1], [6, 4, 2]]
    expected = [[], [6, 9], [], [6]]
    assert LISTS.common.tolist() == sorted(COMMON)
    further = LISTS.further(np.array(sources))
    assert further.types.shape == further.used.shape == (4, 2)
    for types, used, wanted in zip(further.types.tolist(), further.used.tolist(), expected, strict=True):
        assert [number for number, on in zip(types, used, strict=True) if on] == wanted
        assert types[len(wanted) :] == [2] * (2 - len(wanted))
    assert LISTS.rest().tolist() == [5, 6, 7, 9, 10]


def test_a_place_is_left_where_nothing_is_further() -> None:
    further = LISTS.further(np.array([[4, 2]]))
    assert (further.types.tolist(), further.used.tolist()) == ([[2]], [[False]])
    assert Shortlist(np.arange(11), np.array(CANDIDATES), 11).rest().tolist() == []


def test_written_and_read(tmp_path: Path) -> None:
    LISTS.write(tmp_path / SHORTLIST)
    found = Shortlist.read(tmp_path / SHORTLIST, 7, 11)
    assert found.frequent.tolist() == [8, 4]
    assert found.candidates.tolist() == CANDIDATES
    assert found.types == 11
    assert [path.name for path in tmp_path.iterdir()] == [SHORTLIST]


def arrays(path: Path, **given: Any) -> None:
    whole = {"frequent": np.array([4], np.int32), "candidates": np.full((7, 2), 2, np.int32)}
    with path.open("wb") as file:
        np.savez(file, **{name: array for name, array in {**whole, **given}.items() if array is not None})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"frequent": None}, "must be a shortlist, but cannot be read"),
        ({"candidates": np.array([["a"]], dtype=object)}, "must be a shortlist, but cannot be read"),
        ({"frequent": np.array([4.0])}, "must have whole numbers for 7 source types, but has others"),
        ({"frequent": np.array([[4]], np.int32)}, "must have whole numbers for 7 source types, but has others"),
        ({"candidates": np.full((6, 2), 2, np.int32)}, "must have whole numbers for 7 source types, but has others"),
        ({"candidates": np.full(7, 2, np.int32)}, "must have whole numbers for 7 source types, but has others"),
        ({"frequent": np.array([11], np.int32)}, "must have numbers below 11, the target types, but has others"),
        ({"candidates": np.full((7, 2), -1, np.int32)}, "must have numbers below 11, the target types, but has others"),
    ],
)
def test_a_faulty_file(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / SHORTLIST
    arrays(path, **given)
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: {message}"):
        Shortlist.read(path, 7, 11)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / SHORTLIST
    LISTS.write(path)
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"must be a shortlist, but cannot be read; export the model again$"):
            Shortlist.read(path, 7, 11)
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        with contextlib.suppress(UserError):
            Shortlist.read(path, 7, 11)
