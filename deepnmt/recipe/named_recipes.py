"""Recipes that are installed with the package, by their names: `deep-12` is configs/deep-12.yaml."""

from collections.abc import Iterator
from pathlib import Path

import deepnmt
from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text

PACKAGE = Path(deepnmt.__file__).parent
ENDING = ".yaml"
# For a user's own text, by the number of pairs that they are for.
OWN_TEXT = ("tiny", "deep-12", "base", "deep-30")


def folder() -> Path:
    """Return the folder of recipes: inside an installed package, beside it in a clone."""
    return next(path for path in (PACKAGE / "configs", PACKAGE.parent / "configs") if path.is_dir())


def names() -> list[str]:
    """Return the names of all recipes, the ones for a user's own text first."""
    found = sorted(path.relative_to(folder()).with_suffix("").as_posix() for path in folder().rglob(f"*{ENDING}"))
    return [*OWN_TEXT, *(name for name in found if name not in OWN_TEXT)]


def find(name: str, option: str = "RECIPE") -> Path:
    """Return the file of a recipe, given as a file or by the name of an installed recipe.

    Raises:
        UserError: neither exists; the message names the option
    """
    if Path(name).is_file():
        return Path(name)
    path = folder() / f"{name}{ENDING}"
    if not path.is_file() or folder().resolve() not in path.resolve().parents:
        raise UserError(f"{option} must be a file, or a name that 'deepnmt recipe' lists, but there is no '{name}'")
    return path


def heading(path: Path) -> str:
    """Return the first sentence of a recipe's first comment."""
    comment = " ".join(_comment(path))
    return comment.split(". ")[0].rstrip(".")


def _comment(path: Path) -> Iterator[str]:
    for line in whole_text(path).split("\n"):
        text = line.removeprefix("#").strip()
        if not line.startswith("#") or not text:
            return
        yield text
