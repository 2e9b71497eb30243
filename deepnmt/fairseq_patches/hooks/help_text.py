"""`--help` of fairseq's commands with `--user-dir deepnmt`: all options of the chosen parts, this package's first.

fairseq prints its help before it knows the options that architecture, criterion, optimizer, schedule and task add.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn, Optional

from fairseq import options
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.model.config import FlatTransformerConfig

HELP = {"-h", "--help"}
PACKAGE = "deepnmt"


class Incomplete(Exception):
    """fairseq's parser has refused a command line, such as one without a data folder."""


@replaces(options, "parse_args_and_arch", order=5, why="--help lacks options of architecture, task and criterion")
def show_all_options(
    stock: Any, parser: argparse.ArgumentParser, input_args: Optional[Sequence[str]] = None, *args: Any, **kwargs: Any
) -> Any:
    """Parse a command line, or print the help on all options that belong to it, and exit."""
    words = sys.argv[1:] if input_args is None else input_args
    if HELP.isdisjoint(words):
        return stock(parser, input_args, *args, **kwargs)
    chosen = _choices(parser, words)
    if "arch" in chosen and chosen["arch"] is None:
        # fairseq looks it up where it finds the attribute.
        next(action for action in parser._actions if action.dest == "arch").default = argparse.SUPPRESS
    refuse = parser.error
    parser.error = _raise  # type: ignore[method-assign]
    try:
        given = [f"--{name.replace('_', '-')}={value}" for name, value in chosen.items() if value is not None]
        stock(parser, given, parse_known=True)
    except Incomplete as error:
        if "invalid choice" in str(error):
            refuse(str(error))
        # Else an option is missing, which is found when all have been added.
    except KeyError as error:
        if error.args != (None,):  # fairseq-validate asks for a task, and has no default
            raise
    _put_own_first(parser, chosen)
    _escape_percents(parser)
    parser.print_help()
    parser.exit()


def _raise(message: str) -> NoReturn:
    raise Incomplete(message)


def _choices(parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, Optional[str]]:
    """Return the choices that determine the other options, by the names of their options."""
    known = {action.dest: action for action in parser._actions}
    lenient = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("arch", "task", *REGISTRIES):
        if name in known:
            lenient.add_argument(*known[name].option_strings, dest=name, default=known[name].default, nargs="?")
    return vars(lenient.parse_known_args(words)[0])


def _put_own_first(parser: argparse.ArgumentParser, chosen: dict[str, Optional[str]]) -> None:
    """Move the package's options to groups of their own before the others, and name the other options in a line."""
    known = {action.dest: action for action in parser._actions}
    own: list[Any] = [group for group in parser._action_groups if group.title == PACKAGE]
    for part, value, names in _own_options(chosen):
        group = parser.add_argument_group(f"{PACKAGE}: options of --{part.replace('_', '-')} {value}")
        group._group_actions = [known[name] for name in names if name in known]
        for other in parser._action_groups:
            if other is not group:
                other._group_actions = [each for each in other._group_actions if each not in group._group_actions]
        own.append(group)
    parser._action_groups = [*own, *(group for group in parser._action_groups if group not in own)]
    positionals = [str(action.metavar or action.dest) for action in parser._actions if not action.option_strings]
    parser.usage = " ".join(["%(prog)s", *positionals, "[OPTION]..."])
    listed = "; ".join(f"--{part.replace('_', '-')} {', '.join(known)}" for part, known in _own_names(chosen))
    parser.description = f"{PACKAGE} adds, each with options of its own, which --help lists beside it: {listed}"


def _own_options(chosen: dict[str, Optional[str]]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each part for which the package has a choice, the choice, and the names of the options that it adds."""
    for part, value in chosen.items():
        if value is None:
            continue
        if part == "arch":
            kind = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY.get(value))
        elif part == "task":
            kind = TASK_DATACLASS_REGISTRY.get(value)
        else:
            kind = REGISTRIES[part]["dataclass_registry"].get(value)
        if kind is not None and _is_own(kind):
            stock = {name for base in kind.__mro__ if not _is_own(base) for name in _names(base)}
            yield part, value, [name for name in _names(kind) if name not in stock]


def _own_names(chosen: dict[str, Optional[str]]) -> Iterator[tuple[str, list[str]]]:
    registries = {"arch": ARCH_MODEL_REGISTRY, "task": TASK_REGISTRY}
    registries |= {name: each["registry"] for name, each in REGISTRIES.items()}
    # The commands that read a checkpoint's model read its criterion and schedule there, too.
    for part in chosen if "arch" in chosen else ("task",):
        if own := [name for name, kind in registries[part].items() if _is_own(kind)]:
            yield part, own


def _is_own(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == PACKAGE and kind is not FlatTransformerConfig


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)] if is_dataclass(kind) else []


def _escape_percents(parser: argparse.ArgumentParser) -> None:
    """Keep argparse from expanding a "10%" in fairseq's help texts, which it has never printed before."""
    formatter = parser._get_formatter()
    for action in parser._actions:
        try:
            formatter._expand_help(action)
        except (ValueError, TypeError, KeyError):
            action.help = (action.help or "").replace("%", "%%")
