"""Whoever edits a layer of the model is told of the files that compute it elsewhere, and the other way round."""

from __future__ import annotations

import re
from pathlib import Path

import deepnmt

ROOT = Path(deepnmt.__file__).parent.parent


def named_in(folder: str) -> set[tuple[str, str]]:
    """The files of a folder, each with a twin that it names."""
    found = set()
    for path in (ROOT / folder).glob("*.py"):
        lines = [line for line in path.read_text("utf-8").splitlines() if re.match(r"(# )?Twins?: deepnmt/", line)]
        twins = [twin for line in lines for twin in re.findall(r"deepnmt/\S+\.py", line)]
        found |= {(str(path.relative_to(ROOT)), twin) for twin in twins}
    return found


def test_each_file_names_its_twins() -> None:
    search, graphs = named_in("deepnmt/search/incremental"), named_in("deepnmt/engines/onnx")
    assert (len(search), len(graphs)) == (11, 11)
    assert search | graphs == {(other, file) for file, other in named_in("deepnmt/model")}
    assert all((ROOT / file).is_file() and (ROOT / twin).is_file() for file, twin in search | graphs)
