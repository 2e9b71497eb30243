"""The check of the package's imports sees what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.import_floors import faults

FILES = {
    "deepnmt/__init__.py": "def register():\n    from deepnmt import cli\n",
    "deepnmt/errors.py": "",
    "deepnmt/kernels/__init__.py": "",
    "deepnmt/kernels/adam.py": "import deepnmt\nfrom deepnmt.errors import UserError\n",
    "deepnmt/model/__init__.py": "",
    "deepnmt/model/config.py": "from deepnmt.kernels import adam\nfrom deepnmt.model import stack\n",
    "deepnmt/model/stack.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from deepnmt.model.config import Config\n"
    ),
    "deepnmt/cli/__init__.py": "",
    "deepnmt/fairseq_patches/__init__.py": "from deepnmt.fairseq_patches.patch import install_declared\n",
    "deepnmt/fairseq_patches/patch.py": "from deepnmt.errors import UserError\n",
    "deepnmt/fairseq_patches/checks/__init__.py": "",
    "deepnmt/fairseq_patches/fixes/__init__.py": "",
    "deepnmt/fairseq_patches/fixes/batches.py": "from deepnmt.fairseq_patches import checks, patch\n",
}
CYCLE = "imports must not form a cycle, but do"
MODEL = "deepnmt/model/stack.py"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        (
            {"deepnmt/errors.py": "import os\ndef f():\n    import deepnmt.kernels.adam\n"},
            [
                "deepnmt/errors.py:3: errors must import from lower floors alone, but imports deepnmt.kernels.adam",
                f"{CYCLE}: deepnmt.errors <- deepnmt.kernels.adam <- deepnmt.errors",
            ],
        ),
        (
            {MODEL: "from deepnmt.cli import grow\n"},
            [f"{MODEL}:1: model must import from lower floors alone, but imports deepnmt.cli"],
        ),
        (
            {MODEL: "from deepnmt.model.config import Config\n"},
            [f"{CYCLE}: deepnmt.model.config <- deepnmt.model.stack <- deepnmt.model.config"],
        ),
        (
            {"deepnmt/fairseq_patches/checks/__init__.py": "from deepnmt.fairseq_patches.fixes import batches\n"},
            [
                "deepnmt/fairseq_patches/checks/__init__.py:1: fairseq_patches.checks must import from lower floors "
                "alone, but imports deepnmt.fairseq_patches.fixes.batches",
                f"{CYCLE}: deepnmt.fairseq_patches.checks <- deepnmt.fairseq_patches.fixes.batches <- "
                "deepnmt.fairseq_patches.checks",
            ],
        ),
        (
            {"deepnmt/new.py": "from deepnmt.errors import UserError\n"},
            ["deepnmt/new.py:1: new must stand on one of the floors in import_floors.py"],
        ),
    ],
    ids=["clean", "upwards", "upwards-from-package", "cycle", "within-a-room", "unknown-room"],
)
def test_faults(tmp_path: Path, changed: dict[str, str], expected: list[str]) -> None:
    for name, text in {**FILES, **changed}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def turned(line: str) -> str:
        """A cycle from its smallest name on."""
        start, _, names = line.partition("do: ")
        cycle = names.split(" <- ")[:-1]
        turn = cycle.index(min(cycle)) if cycle else 0
        return start + " ".join(cycle[turn:] + cycle[:turn])

    assert list(map(turned, faults(tmp_path))) == list(map(turned, expected))
