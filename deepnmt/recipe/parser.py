"""fairseq-train's own parser, with the options of one architecture, task, criterion, optimizer and schedule."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from fairseq import options as fairseq_options
from fairseq.models import ARCH_MODEL_REGISTRY

import deepnmt
from deepnmt.errors import UserError

# The choices that determine the other options.
PARTS = ("--arch", "--task", "--criterion", "--optimizer", "--lr-scheduler")


@contextlib.contextmanager
def own_command_line() -> Iterator[None]:
    """Hide the process's command line from fairseq, which looks for --user-dir there while it builds a parser."""
    kept = sys.argv
    sys.argv = ["fairseq-train"]
    try:
        yield
    finally:
        sys.argv = kept


def training_parser() -> argparse.ArgumentParser:
    """Return the parser with the options that are there for every training; its errors are `UserError`s."""

    def refuse(message: str) -> NoReturn:
        # argparse: "argument -s/--source-lang: expected one argument"
        options, colon, fault = message.removeprefix("argument ").partition(": ")
        option = options.split("/")[-1]
        if fault.endswith("'???'"):  # fairseq's mark of an option that has no default
            raise UserError(f"{option} must be given, but is not")
        raise UserError(f"{option}{colon}{fault}".replace("<lambda> ", ""))

    deepnmt.register()
    with own_command_line():
        parser: argparse.ArgumentParser = fairseq_options.get_training_parser()
    parser.error = refuse  # type: ignore[method-assign]
    # fairseq looks an architecture up before it has said which there are.
    actions(parser)["--arch"].choices = ARCH_MODEL_REGISTRY.keys()
    return parser


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return all options as fairseq understands them, and give the parser the chosen parts' options.

    Raises:
        UserError: the first value that fairseq refuses
    """
    with own_command_line():
        parsed, _ = fairseq_options.parse_args_and_arch(parser, ["DATA", *arguments], parse_known=True)
    assert isinstance(parsed, argparse.Namespace)
    return parsed


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Return the parser's options, by name: `--max-tokens`."""
    return {name: each for name, each in parser._option_string_actions.items() if each.dest != "help"}


def inverted_flags(parsed: argparse.Namespace) -> set[str]:
    """Return the names of the flags that switch off the named option, for parsed options, which name the parts.

    fairseq gives an option that is true by default, such as --left-pad-source, a flag of the same name that makes it
    false. A named architecture may have such options too, where its defaults differ from its model's.
    """
    parser = training_parser()
    named = ((name, getattr(parsed, name[2:].replace("-", "_"), None)) for name in PARTS)
    parse(parser, [f"{name}={value}" for name, value in named if value is not None])
    return {name[2:] for name, each in actions(parser).items() if each.nargs == 0 and each.const is False}
