"""`deepnmt recipe`: list the installed recipes, or print one merged with its base recipes."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from deepnmt.console import Parser, program
from deepnmt.recipe import named_recipes
from deepnmt.recipe.recipe_file import Option, read_stages

DESCRIPTION = "List the installed recipes, or print one, merged with the recipes that it extends."
EPILOG = """The printed recipe can be saved, edited and trained: deepnmt recipe deep-12 > my.yaml

examples:
  deepnmt recipe
  deepnmt recipe deep-30"""


def main(words: Sequence[str] | None = None) -> None:
    """List recipes, or print the one that a command line names."""
    parser = Parser(program("recipe"), DESCRIPTION, EPILOG)
    parser.add_argument("recipe", nargs="?", metavar="RECIPE", help="recipe's name or file (default: list all names)")
    given = parser.parse_args(words)
    print(listing() if given.recipe is None else merged(named_recipes.find(given.recipe)))


def listing() -> str:
    """Return a line per recipe: its name and the first sentence of its comment."""
    folder, names = named_recipes.folder(), named_recipes.names()
    width = max(map(len, names))
    return "\n".join(f"{name:<{width}}  {named_recipes.heading(folder / f'{name}.yaml')}" for name in names)


def merged(path: Path) -> str:
    """Return a recipe merged with its base recipes, and the origin of each value, as YAML."""
    recipe = read_stages(path)
    lines = _lines(recipe.options)
    for number, stage in enumerate(recipe.stages):
        lines += [] if number else ["stages:"]
        first, *rest = _lines(stage)
        lines += [f"  - {first}", *(f"    {line}" for line in rest)]
    return "\n".join(lines)


def _lines(options: dict[str, Option]) -> list[str]:
    pairs = [f"{key}: {_scalar(option.value)}" for key, option in options.items()]
    width = max(map(len, pairs), default=0)
    origins = [f"{_place(option.path)}:{option.line}" for option in options.values()]
    return [f"{pair:<{width}}  # {origin}" for pair, origin in zip(pairs, origins)]


def _scalar(value: str) -> str:
    """Return a value in a form that YAML reads back: unquoted if that is plain, else in single quotes."""
    try:
        node = yaml.compose(f"key: {value}", Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        node = None
    read = node.value[0][1] if isinstance(node, yaml.MappingNode) and len(node.value) == 1 else None
    plain = isinstance(read, yaml.ScalarNode) and read.value == value and read.style is None
    return value if plain else "'" + value.replace("'", "''") + "'"


def _place(path: Path) -> str:
    try:
        return path.resolve().relative_to(named_recipes.folder().resolve()).as_posix()
    except ValueError:
        return str(path)
