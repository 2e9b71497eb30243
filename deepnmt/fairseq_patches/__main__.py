"""Print the package's changes to fairseq: target, order, file and reason of each."""

import inspect
from pathlib import Path

from tabulate import tabulate

import deepnmt
from deepnmt.console import run
from deepnmt.fairseq_patches.patch import Patch, declared


def row(patch: Patch) -> tuple[str, int, str, str]:
    """Return one line of the table."""
    function = inspect.unwrap(patch.function)
    path = Path(function.__code__.co_filename)
    return patch.target, patch.order, f"{path.parent.name}/{path.name}: {function.__name__}", patch.why


def main() -> None:
    """Print the table."""
    deepnmt.register()
    print(tabulate([row(patch) for patch in declared()], headers=("target", "order", "file", "why")))


if __name__ == "__main__":
    run(main, "deepnmt.fairseq_patches")
