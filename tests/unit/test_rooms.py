"""The rooms of the package: names that say where a thing is."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "deepnmt"


def test_each_file_has_a_name_of_its_own() -> None:
    # Engines are laid out alike, so that a part of one is found from another's; subcommands are called as users do.
    own = [path for path in PACKAGE.rglob("*.py") if path.parents[1].name != "engines" and path.parent.name != "cli"]
    names = Counter(path.name for path in own)
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


# Imports all corpus tools where neither torch nor fairseq can be.
CORPUS = """
import importlib, pkgutil, sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "fairseq"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
import deepnmt.corpus
found = [module.name for module in pkgutil.walk_packages(deepnmt.corpus.__path__, "deepnmt.corpus.")]
for name in [*found, "deepnmt.cli.clean", "deepnmt.cli.align", "deepnmt.cli.ngram", "deepnmt.cli.select"]:
    importlib.import_module(name)
print(len(found))
"""


def test_corpus_tools_need_neither_torch_nor_fairseq() -> None:
    done = subprocess.run([sys.executable, "-c", CORPUS], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30
