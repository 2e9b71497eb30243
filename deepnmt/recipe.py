"""Turns a recipe (YAML, one fairseq option a key) into the arguments of `fairseq-train`."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import sys
from pathlib import Path
from typing import NamedTuple, NoReturn

import yaml

import deepnmt
from deepnmt.console import run
from deepnmt.errors import UserError
from deepnmt.global_batch import KEY, share

PLUGIN = Path(__file__).resolve().parent
STAGES = "stages"


class Option(NamedTuple):
    """The value of one key as written in the file, and where it stands."""

    value: str
    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class Recipe(NamedTuple):
    """What a file says: options, and for progressive training what each stage has beside them."""

    options: dict[str, Option]
    stages: list[dict[str, Option]]


def read_recipe(path: Path) -> dict[str, Option]:
    """The options of a recipe of one training; see `read_stages`.

    Raises:
        UserError: as `read_stages`; or it has stages
    """
    recipe = read_stages(path)
    if recipe.stages:
        raise UserError(f"{path}: a recipe with stages must be run by scripts/train_progressive.sh")
    return recipe.options


def read_stages(path: Path, seen: tuple[Path, ...] = ()) -> Recipe:
    """A recipe: the options of the recipe it `extends:` first, overridden by its own; its own `stages:`, or else those.

    A value is kept as the text that stands in the file, so that `1e-9` or `(0.9, 0.98)` reach fairseq unchanged.

    Args:
        path: the YAML file
        seen: the recipes that led here by `extends:`

    Raises:
        UserError: the file is missing or no mapping, a key is written twice, or a recipe extends itself
    """
    if path.resolve() in seen:
        chain = " -> ".join(str(p) for p in (*seen, path.resolve()))
        raise UserError(f"{path}: a recipe must not extend itself, but does: {chain}")
    own = _read_file(path)
    parent = own.options.pop("extends", None)
    if parent is None:
        return own
    base = path.parent / parent.value
    if not base.is_file():
        raise UserError(f"{parent}: extends must name a recipe, but {base} does not exist")
    above = read_stages(base, (*seen, path.resolve()))
    return Recipe({**above.options, **own.options}, own.stages or above.stages)


def _read_file(path: Path) -> Recipe:
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: must be UTF-8, but is not (byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}:{line}: not valid YAML: {error.problem}") from error
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
        if key.value in options:
            raise UserError(f"{path}:{line}: option '{key.value}' stands here and in line {options[key.value].line}")
        options[key.value] = Option(value.value, path, line)
    return options


def to_arguments(options: dict[str, Option], devices: int = 1) -> list[str]:
    """Command-line arguments: `true` makes a flag, `false` and an empty value leave the option out.

    Args:
        options: of a recipe
        devices: that the batches of an update are dealt out to, see `share`
    """
    arguments: list[str] = []
    for key, option in share(options, devices).items():
        if option.value == "true":
            arguments.append(f"--{key}")
        elif option.value not in ("false", ""):
            # The form with "=" keeps a value that starts with a minus sign a value.
            arguments.append(f"--{key}={option.value}")
    return arguments


def check(path: Path, options: dict[str, Option], extra: list[str]) -> argparse.Namespace:
    """Hold the options against fairseq-train's own parser for this architecture, criterion, optimizer and schedule.

    Args:
        path: the recipe, for messages
        options: what `read_recipe` returned
        extra: further arguments of the command line, which win over the recipe's

    Returns:
        all options as fairseq understands them

    Raises:
        UserError: names every key that fairseq-train does not know, with file, line and the nearest name, or the
            first value that it refuses
    """
    # Here, since reading a recipe need not wait for the seconds that importing fairseq takes.
    from fairseq import options as fairseq_options

    deepnmt.register()
    user_dir = f"--user-dir={PLUGIN}"
    # fairseq looks for the plug-in on the real command line while it builds its parser.
    sys.argv = ["fairseq-train", user_dir]
    parser = fairseq_options.get_training_parser()

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{path}: {message}")

    parser.error = refuse
    arguments = [user_dir, "DATA", *to_arguments(options), *extra]
    parsed, _ = fairseq_options.parse_args_and_arch(parser, arguments, parse_known=True)
    names = [name[2:] for name in parser._option_string_actions if name.startswith("--")]
    faults = []
    for key, option in options.items():
        if key not in [*names, KEY]:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            faults.append(f"{option}: '{key}' is not an option of fairseq-train for this recipe{hint}")
    if faults:
        raise UserError(*faults)
    assert isinstance(parsed, argparse.Namespace)
    return parsed


def main() -> None:
    """Print the arguments of a recipe, each ended by a NUL so that a shell can read them back exactly."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Options after RECIPE win over the recipe's.", allow_abbrev=False
    )
    parser.add_argument("recipe", type=Path, help="YAML file, such as configs/demo.yaml")
    parser.add_argument("--lines", action="store_true", help="end each argument by a line feed, to look at")
    parser.add_argument("--devices", type=int, default=1, help="that an update's batches are dealt out to (default: 1)")
    known, extra = parser.parse_known_args()
    options = read_recipe(known.recipe)
    if any(argument.split("=")[0] == "--update-freq" for argument in extra):
        options.pop(KEY, None)
    with contextlib.redirect_stdout(sys.stderr):
        check(known.recipe, options, extra)
    end = "\n" if known.lines else "\0"
    for argument in [*to_arguments(options, known.devices), *extra]:
        print(argument, end=end)


if __name__ == "__main__":
    run(main)
