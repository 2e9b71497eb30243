"""Check a recipe and the command line, together, against the options that fairseq-train accepts."""

import argparse
import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Optional

from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from deepnmt.errors import UserError
from deepnmt.model import validate
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.options.dual_rules import missing
from deepnmt.options.option_table import TRAINING, Fault, literal_faults, range_faults
from deepnmt.recipe.combinations import TEXT_TASKS, precision_faults, rule_faults
from deepnmt.recipe.own_keys import OWN_KEYS, to_arguments, without_own, without_replaced
from deepnmt.recipe.parser import PARTS, actions, inverted_flags, parse, training_parser
from deepnmt.recipe.recipe_file import EXTENDS, STAGES, Option

# Given by the commands that run recipes.
TAKEN = {
    "save-dir": "the command's SAVE",
    "user-dir": "the plug-in",
    "nprocs-per-node": "the command's PROCESSES",
    "distributed-rank": "the command's NODE",
    "distributed-init-method": "the command's MASTER",
    "distributed-port": "the port of the command's MASTER",
}
# Others give a model of this package no two dictionaries.
TASKS = ("dummy_mt", "translation_multi_simple_epoch")
# fairseq's title of an architecture's options.
MODEL_OPTIONS = "Model-specific configuration"
# Arguments of a model of sentence pairs, and parts of the names of modules with other arguments.
PAIRS = ("src_tokens", "src_lengths", "prev_output_tokens")
SPEECH = {"hubert", "speech_to_speech", "speech_to_text", "text_to_speech", "wav2vec"}
# Kinds of translation that train several models at once, or a model of their own.
OTHER_TRANSLATION = ("online_backtranslation", "translation_from_pretrained_xlm")


def check_recipe(
    path: Path, options: dict[str, Option], extra: Sequence[str], optimizer: bool = True, model: bool = True
) -> argparse.Namespace:
    """Check a recipe and the command line, together, against fairseq-train's own parser and against the ranges.

    Args:
        path: the recipe, for messages
        options: result of `read_recipe`
        extra: further arguments of the command line, which override the recipe's
        optimizer: whether an optimizer must be named
        model: whether to check the model's options here, and not in the caller

    Returns:
        all options as fairseq understands them

    Raises:
        UserError: every unknown, unreadable or out-of-range option, a line each with the recipe's file and line, or its
            name on the command line
    """
    parser = training_parser()
    sources, stray = _sources(parser, options, extra)
    faults = [*_missing(path, sources, optimizer), *_taken(options, extra)]
    unknown_parts = [fault for name in PARTS if (fault := _value_fault(actions(parser)[name], name[2:], sources))]
    if unknown_parts or "arch" not in sources or sources["arch"].value in ("", "false"):
        # Which options there are depends on them.
        raise UserError(*faults, *unknown_parts)
    parts = [f"{name}={sources[name[2:]].value}" for name in PARTS if name[2:] in sources]
    try:
        inverted = inverted_flags(parse(parser, parts))
        sources, stray = _sources(parser, options, extra)
        known = actions(parser)
        faults += _unknown(sources, stray, known)
        # Overridden options of the recipe reach fairseq's parser too.
        recipe = without_own(without_replaced(options, sources))
        overridden = {name: option for name, option in recipe.items() if sources.get(name) != option}
        faults += [
            fault
            for each in (sources, overridden)
            for name in each
            if f"--{name}" in known and (fault := _value_fault(known[f"--{name}"], name, each))
        ]
        chosen = [name for name, source in sources.items() if source.value == "true"]
        faults += [f"{sources[name].place(name)} {rest}" for name, rest in precision_faults(chosen)]
        if faults:
            raise UserError(*faults)
        arguments = to_arguments(without_replaced(options, sources), inverted=inverted)
        parsed = parse(training_parser(), [*arguments, *extra])
    except UserError:
        raise
    except Exception as error:  # whatever fairseq raises where it reads a text
        raise UserError(f"{path}: fairseq cannot read these options: {error}") from error
    by_dest = {known[f"--{name}"].dest: (name, source) for name, source in sources.items() if f"--{name}" in known}
    values = {"adam_betas": None, **vars(parsed)}
    written = {name: values.get(name) for name in by_dest}
    found: list[Fault] = [*range_faults(values, TRAINING), *literal_faults(values), *rule_faults(values, written)]
    found += _task_faults(parsed)
    found += _literal_faults(sources, known, parsed)
    if model:
        found += _model_faults(parsed)
    if found:
        # A training would look for its files later.
        found += [(name, rest) for name, rest in missing(values) if name.endswith(":")]
        raise UserError(*dict.fromkeys(_line(name, rest, by_dest) for name, rest in found))
    return parsed


def _line(name: str, rest: str, by_dest: Mapping[str, tuple[str, Option]]) -> str:
    # "--encoder-groups: must be ..." has the words of a part that does not know the option.
    key = name.rstrip(":")
    written, source = by_dest.get(key.replace("-", "_"), (key, Option("")))
    return f"{source.place(written)}{name[len(key) :]} {rest}"


def _sources(
    parser: argparse.ArgumentParser, options: Mapping[str, Option], extra: Sequence[str]
) -> tuple[dict[str, Option], list[str]]:
    """Return where each option comes from, the command line's winning, and the words there that are no option."""
    known, given, stray = actions(parser), {}, []
    words = list(extra)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        action = known.get(name)
        if action is None:
            stray.append(word)
            while words and not words[0].startswith("-"):
                words.pop(0)
            continue
        takes = action.nargs != 0
        if takes and not equals and words and (action.nargs is None or not words[0].startswith("-")):
            value = words.pop(0)
            equals = "="
        long = next(each for each in action.option_strings if each.startswith("--"))
        given[long[2:]] = Option(value if equals else "true")
    rest = without_replaced(options, given)
    dests = {known[f"--{name}"].dest for name in given}
    read = {
        name: option
        for name, option in without_own(rest).items()
        if f"--{name}" not in known or known[f"--{name}"].dest not in dests
    }
    return {**read, **given}, stray


def _missing(path: Path, sources: Mapping[str, Option], optimizer: bool) -> Iterator[str]:
    present = {name for name, source in sources.items() if source.value not in ("", "false")}
    if "arch" not in present:
        yield f"{path}: a recipe must name an architecture (arch:), but does not"
    if optimizer and "optimizer" not in present:
        yield f"{path}: a recipe must name an optimizer (optimizer:), but does not"
    if not {"max-tokens", "batch-size", "max-sentences"} & present:
        yield f"{path}: a recipe must have max-tokens or batch-size, but has neither"


def _taken(options: Mapping[str, Option], extra: Sequence[str]) -> Iterator[str]:
    for name, what in TAKEN.items():
        if name in options and options[name].value not in ("", "false"):
            yield f"{options[name]}: {name} must not be set in a recipe: it is {what}"
        if any(word.split("=")[0] == f"--{name}" for word in extra):
            yield f"--{name} must not be set on the command line: it is {what}"


def _unknown(
    sources: Mapping[str, Option], stray: Sequence[str], known: Mapping[str, argparse.Action]
) -> Iterator[str]:
    names = [name[2:] for name in known if name.startswith("--")]
    for name, source in sources.items():
        if name not in [*names, *OWN_KEYS]:
            yield f"{source}: '{name}' is not an option of fairseq-train for this recipe{_hint(name, names)}"
    for word in stray:
        option = word.split("=")[0]
        name = option.lstrip("-")
        if name in OWN_KEYS:
            instead = " or ".join(f"--{other}" for other in OWN_KEYS[name].yields_to)
            yield f"{option} must stand in a recipe; on the command line give {instead} instead"
        elif name in (EXTENDS, STAGES):
            yield f"{option} must stand in a recipe, not on the command line"
        else:
            yield f"{option} is not an option of fairseq-train for this recipe{_hint(name, names)}"


def _hint(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""


def _value_fault(action: argparse.Action, name: str, sources: Mapping[str, Option]) -> Optional[str]:
    """Return the fault of an option's text, before fairseq reads it."""
    source = sources.get(name)
    if source is None or (source.is_read and source.value in ("", "false")):
        return None  # a recipe's way to leave an option out
    text = source.value
    if action.nargs == 0:
        return None if text == "true" else f"{source.place(name)} must be true or false, but is '{text}'"
    if text == "true" and action.nargs is None:
        return f"{source.place(name)} must have a value, but has none"
    if action.choices is not None:
        choices = list(map(str, action.choices))
        if text in choices:
            return None
        shown = ", ".join(choices) if len(choices) <= 12 else f"the {len(choices)} that fairseq-train --help lists"
        return f"{source.place(name)} must be one of {shown}, but is '{text}'{_hint(text, choices)}"
    kind = "a whole number" if action.type is int else "a number" if action.type is float else "numbers"
    try:
        written = None
        if action.type not in (None, int, float, str):
            # fairseq evaluates such a text as an expression of Python's.
            written = ast.literal_eval(text)
        read = action.type(text) if callable(action.type) else None
        if isinstance(read, list) and read != (list(written) if isinstance(written, (list, tuple)) else [written]):
            kind = "whole numbers"  # it would cut the digits after the point
            raise ValueError
    except Exception:  # whatever fairseq raises where it reads a text
        return f"{source.place(name)} must be {kind}, but is '{text[:200]}'"
    return None


def _literal_faults(
    sources: Mapping[str, Option], known: Mapping[str, argparse.Action], parsed: argparse.Namespace
) -> Iterator[Fault]:
    """Yield each recipe's `true` or `false` that fairseq does not arrive at: the architecture decides, or a default."""
    for name, source in sources.items():
        action = known.get(f"--{name}")
        if action is None or not source.is_read or source.value not in ("true", "false"):
            continue
        # Options of an architecture with a dataclass are absent where they have its default.
        default = getattr(MODEL_DATACLASS_REGISTRY.get(parsed.arch), action.dest, None)
        value = getattr(parsed, action.dest, default)
        of_model = getattr(getattr(action, "container", None), "title", "") == MODEL_OPTIONS
        if action.nargs == 0 and of_model and bool(value) != (source.value == "true"):
            yield name, f"cannot be {source.value} with arch {parsed.arch}, which makes it {str(bool(value)).lower()}"
        elif action.metavar == "BOOL" and str(value).lower() != source.value:
            yield name, f"must be written {source.value.capitalize()}, but is {source.value}"


def _takes_pairs(model: Any) -> bool:
    """Return whether a model takes the contents of a batch of sentence pairs, and is no speech model."""
    each = signature(model.forward).parameters.values()
    needed = [one.name for one in each if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]
    return needed == ["self", *PAIRS] and not SPEECH & {*model.__module__.split(".")}


def _task_faults(parsed: argparse.Namespace) -> Iterator[Fault]:
    if parsed.task in TEXT_TASKS and not _takes_pairs(ARCH_MODEL_REGISTRY[parsed.arch]):
        must = f"a model of sentence pairs, such as transformer, with task {parsed.task}"
        yield "arch", f"must be {must}, but is {parsed.arch}"
    config, task = MODEL_DATACLASS_REGISTRY.get(parsed.arch), TASK_REGISTRY[parsed.task]
    if not (isinstance(config, type) and issubclass(config, DLCLTransformerConfig)):
        return
    translates = issubclass(task, TranslationTask) and parsed.task not in OTHER_TRANSLATION
    if not translates and parsed.task not in TASKS:
        yield "task", f"must be translation or a kind of it for {parsed.arch}, but is {parsed.task}"


def _model_faults(parsed: argparse.Namespace) -> Iterator[Fault]:
    config = MODEL_DATACLASS_REGISTRY.get(parsed.arch)
    if not (isinstance(config, type) and issubclass(config, DLCLTransformerConfig)):
        return
    try:
        # Whether source and target share a dictionary shows when the data is read.
        validate.check(config.from_options(parsed), joined=True)
    except UserError as error:
        for line in str(error).splitlines():
            name, _, rest = line.removeprefix("--").partition(" ")
            yield name, rest
