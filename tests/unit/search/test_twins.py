"""Whoever edits a layer of the model is told of the file that computes it in a search, and the other way round."""

from __future__ import annotations

import re
from pathlib import Path

import deepnmt

ROOT = Path(deepnmt.__file__).parent.parent


def test_each_file_names_its_twins() -> None:
    pairs = []
    for name in ("deepnmt/search/incremental", "deepnmt/model"):
        found = set()
        for path in (ROOT / name).glob("*.py"):
            lines = [line for line in path.read_text("utf-8").splitlines() if re.match(r"(# )?Twins?: deepnmt/", line)]
            found |= {
                (str(path.relative_to(ROOT)), twin) for line in lines for twin in re.findall(r"deepnmt/\S+\.py", line)
            }
        pairs.append(found)
    assert len(pairs[0]) == 6
    assert pairs[0] == {(steps, twin) for twin, steps in pairs[1]}
    assert all((ROOT / steps).is_file() and (ROOT / twin).is_file() for steps, twin in pairs[0])
