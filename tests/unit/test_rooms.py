"""The rooms of the package: names that say where a thing is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "deepnmt"


def test_each_file_has_a_name_of_its_own() -> None:
    names = Counter(path.name for path in PACKAGE.rglob("*.py"))
    assert len(names) > 80
    assert [name for name, number in names.items() if number > 1] == ["__init__.py", "__main__.py"]


def test_few_modules_stand_outside_the_rooms() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 9


def test_no_room_has_a_name_that_fairseq_imports_by_itself() -> None:
    # Later versions import every file of folders called so beside a plug-in's __init__.
    assert not {"models", "tasks"} & {path.name for path in PACKAGE.iterdir()}


def test_kernels_know_neither_fairseq_nor_options() -> None:
    for path in (PACKAGE / "kernels").glob("*.py"):
        imports = [
            line for line in path.read_text("utf-8").splitlines() if line.lstrip().startswith(("from ", "import "))
        ]
        assert not [line for line in imports if "fairseq" in line or "omegaconf" in line], path
