"""Read a recipe (YAML, one option a key), and the recipes that it extends."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Optional

import yaml

from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text

EXTENDS, STAGES = "extends", "stages"
# Nobody writes more by hand, and a file that parses for minutes or overflows the stack is no recipe.
MOST_BYTES, MOST_BASES = 1 << 20, 50
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
COMMAND_LINE = Path()


class Option(NamedTuple):
    """The value of one key as written in a file, or on the command line, and where it stands."""

    value: str
    path: Path = COMMAND_LINE
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.is_read else "the command line"

    @property
    def is_read(self) -> bool:
        """Whether it stands in a file."""
        return self.path != COMMAND_LINE

    def place(self, name: str) -> str:
        """Return how a message about the option begins."""
        return f"{self}: {name}" if self.is_read else f"--{name}"


class Recipe(NamedTuple):
    """Contents of a file: options, and for progressive training each stage's further options."""

    options: dict[str, Option]
    stages: list[dict[str, Option]]


def read_recipe(path: Path) -> dict[str, Option]:
    """Return the options of a recipe of one training; see `read_stages`.

    Raises:
        UserError: as `read_stages`; or it has stages
    """
    recipe = read_stages(path)
    if recipe.stages:
        raise UserError(f"{path}: a recipe with stages must be run by deepnmt train-progressive")
    return recipe.options


def read_stages(path: Path) -> Recipe:
    """Return a recipe: the options of the recipe it `extends:`, overridden by its own, and its stages or the base's.

    A value is kept as the text that stands in the file, so that `1e-9` or `(0.9, 0.98)` reach fairseq unchanged.

    Raises:
        UserError: the file is missing or no mapping, a key is written twice, or a recipe extends itself
    """
    chain, seen = [_read_file(path)], [path.resolve()]
    while (parent := chain[-1].options.pop(EXTENDS, None)) is not None:
        base = parent.path.parent / parent.value
        if not _exists(base):
            raise UserError(f"{parent}: extends must name a recipe, but {base} does not exist")
        seen.append(base.resolve())
        if seen[-1] in seen[:-1]:
            names = " -> ".join(map(str, seen))
            raise UserError(f"{parent.path}: a recipe must not extend itself, but does: {names}")
        if len(chain) == MOST_BASES:
            raise UserError(f"{parent}: extends must end within {MOST_BASES} recipes, but does not")
        chain.append(_read_file(base))
    options = {key: option for recipe in reversed(chain) for key, option in recipe.options.items()}
    return Recipe(options, next((recipe.stages for recipe in chain if recipe.stages), []))


def checksum(options: Mapping[str, Option]) -> str:
    """Return a checksum of a recipe's options, including its base recipes' options; comments do not count."""
    values = {key: option.value for key, option in options.items()}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long a name
        return False


def _read_file(path: Path) -> Recipe:
    root = _compose(path, _text(path))
    if root is None:
        return Recipe({}, [])
    if not isinstance(root, yaml.MappingNode):
        raise UserError(f"{path}:1: a recipe must be a mapping of options, but is not")
    lists = [value for key, value in root.value if key.value == STAGES]
    stages = [stage for value in lists for stage in _stages(path, value)]
    root.value = [(key, value) for key, value in root.value if key.value != STAGES]
    if len(lists) > 1:
        raise UserError(f"{path}:{lists[1].start_mark.line + 1}: '{STAGES}' must stand there once, but stands twice")
    return Recipe(_mapping(path, root), stages)


def _text(path: Path) -> str:
    try:
        # Reading a pipe could wait for ever.
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: a recipe must be a regular file, but is not")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise UserError(f"{path}: a recipe must have at most {MOST_BYTES} bytes, but has {size}")
        return whole_text(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: must be UTF-8, but is not (byte {error.start})") from error


def _compose(path: Path, text: str) -> Optional[yaml.Node]:
    try:
        return yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}:{line}: not valid YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(f"{path}:{line}: must be printable text, but has the character {error.character!r}") from error
    except RecursionError as error:
        raise UserError(f"{path}: a recipe must be a mapping of options, but is nested without end") from error


def _stages(path: Path, node: yaml.Node) -> list[dict[str, Option]]:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        raise UserError(f"{path}:{line}: '{STAGES}' must be a list of stages, but is not")
    for stage in node.value:
        if not isinstance(stage, yaml.MappingNode):
            raise UserError(f"{path}:{stage.start_mark.line + 1}: a stage must be a mapping of options, but is not")
    return [_mapping(path, stage) for stage in node.value]


def _mapping(path: Path, node: yaml.MappingNode) -> dict[str, Option]:
    options: dict[str, Option] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode):
            raise UserError(f"{path}:{line}: an option must have one plain value, but has a list or a mapping")
        if bad := CONTROL.search(key.value + value.value):
            raise UserError(f"{path}:{line}: an option must be one line of text, but has the character {bad[0]!r}")
        if key.value in options:
            raise UserError(f"{path}:{line}: option '{key.value}' stands here and in line {options[key.value].line}")
        options[key.value] = Option(value.value, path, line)
    return options
