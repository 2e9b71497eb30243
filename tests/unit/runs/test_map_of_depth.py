"""The map's results in `deepnmt plan`: of the text that is nearest in size, with their uncertainty."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.runs import map_of_depth
from deepnmt.runs.map_of_depth import Gain, advice

SMALL = Gain(43_490, 1.0, "dlcl_4", "dlcl_24", -1.25, 0.5, 0.004, 3)
LARGE = Gain(387_480, 1.0, "pre_4", "dlcl_12", 0.625, math.nan, 0.03, 1)


def test_the_nearest_text_counts() -> None:
    assert advice(29_000, [LARGE, SMALL]) == [
        "map, on the text nearest to 29,000 pairs in size:",
        "    dlcl_24 less dlcl_4: -1.25 ± 0.50 BLEU on 43,490 pairs (core hours of each: 1, seeds: 3, p 0.004)",
    ]
    # By the ratio: 140,000 is 3.2 times the smaller one, and the larger one is 2.8 times 140,000.
    assert advice(140_000, [LARGE, SMALL])[1:] == [
        "    dlcl_12 less pre_4: +0.62 BLEU on 387,480 pairs (core hours of each: 1, seeds: 1, p 0.030)"
    ]
    assert advice(0, [SMALL, SMALL])[1:] == [f"    {SMALL}"] * 2


def test_without_results_it_says_so(tmp_path: Path) -> None:
    assert advice(29_000, map_of_depth.read(tmp_path / "none.tsv")) == ["map: docs/depth-map.md has no results yet"]


def test_the_file_has_a_line_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "depth_map").mkdir()
    path = tmp_path / "depth_map" / "gains.tsv"
    map_of_depth.write([SMALL, LARGE], path)
    head, first, _ = path.read_text("utf-8").splitlines()
    assert head.split("\t") == ["pairs", "hours", "shallow", "deep", "difference", "error", "p", "seeds"]
    assert first == "43490\t1.0\tdlcl_4\tdlcl_24\t-1.25\t0.5\t0.004\t3"
    # It is installed with the recipes.
    monkeypatch.setattr(map_of_depth, "folder", lambda: tmp_path)
    small, large = map_of_depth.read()
    assert small == SMALL
    assert math.isnan(large.error)
    changes = {"3": "x", "43490": "0", "1.0\t": "nan\t", "-1.25": "nan", "0.004": "1.5", "0.5": "-0.5", "\t3": "\t0"}
    for line in ("", "1", *(first.replace(old, new) for old, new in changes.items())):
        path.write_text(f"{head}\n{first}\n{line}\n", encoding="utf-8")
        with pytest.raises(UserError, match=r"gains\.tsv:3: must be pairs, hours, .* with tabs, but is "):
            map_of_depth.read()
    # Another file, whose first line would be lost.
    path.write_text(f"{first}\n{first}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"gains\.tsv:1: must be pairs, hours, .* with tabs, but is '43490\t"):
        map_of_depth.read()
