"""Hold the stages of a recipe against fairseq's options and against each other, before the first one starts."""

import contextlib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Optional

from fairseq.models import MODEL_DATACLASS_REGISTRY

from deepnmt.checkpoints.grow import Growth, plan_growth
from deepnmt.checkpoints.plans import grown_layers
from deepnmt.checkpoints.rewrite import RESETTABLE
from deepnmt.checkpoints.trained_model import whole_faults
from deepnmt.errors import UserError
from deepnmt.model import validate
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.frozen_layers import freeze_text
from deepnmt.model.groups import CHAINED
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import NAME
from deepnmt.options.option_table import LAYERS, dashed
from deepnmt.progressive.stages import (
    ENDS,
    OLD,
    STAGE_KEYS,
    Stage,
    default_groups,
    default_strategy,
    key_faults,
    merged,
)
from deepnmt.recipe import Option, Recipe, read_stages
from deepnmt.recipe.checking import check_recipe
from deepnmt.recipe.parser import actions, training_parser

# Options the runner sets itself, or that would delete, rename or delay the checkpoints it resumes from.
TAKEN = (
    "save-dir",
    "user-dir",
    "restore-file",
    "finetune-from-model",
    "continue-once",
    "no-save",
    "no-last-checkpoints",
    "no-save-optimizer-state",
    "checkpoint-suffix",
    "write-checkpoints-asynchronously",
    "reset-dataloader",
    "reset-lr-scheduler",
    "reset-meters",
    "reset-optimizer",
    "stop-time-hours",
    "encoder-freeze",
    "decoder-freeze",
)
# Keys that define a stage, and so are in the recipe alone.
OF_STAGES = ("encoder-layers", "decoder-layers", "encoder-groups", "decoder-groups", *ENDS)
# Optimizers whose state a grown model cannot get: of several groups of parameters, or with moments of other shapes.
SEVERAL_GROUPS, FACTORED = "composite", "adafactor"


def plan_stages(path: Path, extra: Sequence[str] = ()) -> list[Stage]:
    """Return the stages of a recipe, all of them possible.

    Args:
        path: the recipe
        extra: arguments of fairseq-train, which override the recipe's

    Raises:
        UserError: names impossible settings, a line per fault
    """
    recipe = read_stages(path)
    if not recipe.stages:
        raise UserError(f"{path}: a recipe for deepnmt train-progressive must list its stages (stages:), but does not")
    faults = [*key_faults(recipe), *_taken_faults(path, recipe, extra)]
    if faults:
        raise UserError(*faults)
    entries = merged(recipe)
    parsed = _parsed(path, [options for options, _ in entries], extra)
    configs = [_config(path, arguments) for arguments in parsed]
    _give_default_groups(path, [options for options, _ in entries], configs)
    stages: list[Stage] = []
    for number, ((options, own), arguments, config) in enumerate(zip(entries, parsed, configs), start=1):
        growth = _growth(stages[-1].config, config, own) if stages else None
        if growth is not None and growth.freeze_old:
            config = _frozen(path, options, stages[-1].config, config, growth)
        stages.append(Stage(number, options, own, config, growth, (arguments.max_tokens, arguments.batch_size)))
    faults = [
        f"{path}: stage {stage.number}: {fault}"
        for stage, before, arguments in zip(stages, [None, *stages], parsed)
        for fault in (
            *_own_faults(stage, before, arguments),
            *_end_faults(stage, before, arguments),
            *_model_faults(stage, before),
        )
    ]
    if faults:
        raise UserError(*faults)
    return stages


def _parsed(path: Path, entries: Sequence[dict[str, Option]], extra: Sequence[str]) -> list[Namespace]:
    """Return all options of each stage as fairseq understands them; the faults of all stages at once."""
    parsed, faults = [], []
    for options in entries:
        try:
            # The model's options follow, with a stage's defaults.
            parsed.append(check_recipe(path, options, extra, model=False))
        except UserError as error:
            faults += str(error).splitlines()
    if faults:
        raise UserError(*dict.fromkeys(faults))
    return parsed


def _taken_faults(path: Path, recipe: Recipe, extra: Sequence[str]) -> Iterator[str]:
    """Yield the options that are not the user's to set, in the recipe or on the command line, by whichever name."""
    known = actions(training_parser())

    def dest(key: str) -> str:
        return known[f"--{key}"].dest if f"--{key}" in known else key

    taken, staged = set(map(dest, TAKEN)), {dest(key) for key in (*OF_STAGES, *chain(*recipe.stages))}
    for key, option in recipe.options.items():
        if dest(key) in taken and option.value not in ("", "false"):
            yield f"{option}: '{key}' must not be set in progressive training"
    for argument in extra:
        key = argument.split("=")[0][2:] if argument.startswith("--") else ""
        if dest(key) in taken:
            yield f"--{key} must not be set in progressive training"
        elif dest(key) in staged:
            yield f"--{key} must be set in {path}, which lists the stages, and not on the command line"


def _config(path: Path, arguments: Namespace) -> DLCLTransformerConfig:
    kind = MODEL_DATACLASS_REGISTRY.get(arguments.arch)
    if not (isinstance(kind, type) and issubclass(kind, DLCLTransformerConfig)):
        raise UserError(f"{path}: arch must be one of {NAME}, since no other can grow, but is {arguments.arch}")
    return kind.from_options(arguments)


def _give_default_groups(
    path: Path, options: Sequence[dict[str, Option]], configs: list[DLCLTransformerConfig]
) -> None:
    """Set the groups of a growing stack, if a stage has no groups and the architecture has connections."""
    for stack in STACKS:
        key, depths = f"{stack}-groups", [config.depth(stack) for config in configs]
        plain = getattr(configs[0], f"{stack}_groups") in CHAINED
        # Decreasing or invalid depths are faults of their own.
        possible = depths == sorted(depths) and all(map(LAYERS.holds, depths))
        if plain or len(set(depths)) == 1 or not possible:
            continue
        for number, groups in enumerate(default_groups(depths)):
            if key not in options[number]:
                change: dict[str, Any] = {f"{stack}_groups": groups}
                configs[number] = replace(configs[number], **change)
                options[number][key] = Option(groups, path, 0)


def _growth(old: DLCLTransformerConfig, new: DLCLTransformerConfig, own: dict[str, str]) -> Growth:
    growing = [stack for stack in STACKS if new.depth(stack) != old.depth(stack)]
    return Growth(
        depths={stack: new.depth(stack) for stack in growing},
        groups={stack: str(getattr(new, f"{stack}_groups")) for stack in growing},
        strategy=own.get("strategy", default_strategy(old, new)),
        function_preserving=own.get("function-preserving") == "true",
        freeze_old=own.get("freeze") == OLD,
    )


def _frozen(
    path: Path, options: dict[str, Option], old: DLCLTransformerConfig, new: DLCLTransformerConfig, growth: Growth
) -> DLCLTransformerConfig:
    """Set the options that freeze a stage's old layers, and return its configuration with them."""
    change: dict[str, Any] = {}
    for stack in growth.depths:
        # An impossible growth is a fault of its own, and so is an unknown strategy.
        with contextlib.suppress(KeyError, ValueError):
            layers = grown_layers(growth.strategy, old.depth(stack), new.depth(stack))
            change[f"{stack}_freeze"] = freeze_text(layers.old_layers())
    options.update({dashed(name): Option(text, path, 0) for name, text in change.items()})
    return replace(new, **change)


def _own_faults(stage: Stage, before: Optional[Stage], arguments: Namespace) -> Iterator[str]:
    faulty = {key.name: fault for key in STAGE_KEYS if (fault := key.fault(stage.own.get(key.name)))}
    yield from (f"{name} {fault}" for name, fault in faulty.items())
    average = stage.own.get("average", "1")
    kept = min((n for n in (arguments.keep_last_epochs, arguments.keep_interval_updates) if n > 0), default=0)
    if "average" not in faulty and 0 < kept < int(average):
        yield f"average must be at most the {kept} checkpoints that are kept, but is {average}"
    if not stage.growth:
        return
    schedule, optimizer = arguments.lr_scheduler, arguments.optimizer
    if not stage.flag("keep-schedule") and schedule != RESETTABLE:
        yield f"lr-scheduler must be {RESETTABLE}, or keep-schedule be true, but it is {schedule}"
    if optimizer == SEVERAL_GROUPS:
        yield f"optimizer must be one for all parameters, such as adam, for a model to grow, but is {optimizer}"
    if before is not None and before.own.get("freeze") == OLD and stage.flag("carry-moments"):
        yield "carry-moments cannot follow a stage with 'freeze: old', which has no moments of its frozen layers"
    if optimizer == FACTORED and stage.flag("carry-moments"):
        yield f"optimizer must have moments of its parameters' shapes, as adam has, to carry them, but is {optimizer}"


def _end_faults(stage: Stage, before: Optional[Stage], arguments: Namespace) -> Iterator[str]:
    if not any(stage.end(key) > 0 for key in ENDS):
        yield f"one of {', '.join(ENDS)} must be at least 1, but none is given"
    for key in ENDS[:2]:
        end, other = stage.end(key), before.end(key) if before else 0
        # Where the stage before may end otherwise, the two may have one and the same bound.
        alone = before is not None and all(before.end(name) <= 0 for name in ENDS if name != key)
        if 0 < end < other or (0 < end == other and alone):
            yield f"{key} counts from the first stage on and must be above the {other} of the one before, but is {end}"
    every, epochs = arguments.save_interval, stage.end("max-epoch")
    if epochs % every:
        yield f"max-epoch must be a multiple of save-interval {every}, but is {epochs}"


def _model_faults(stage: Stage, before: Optional[Stage]) -> Iterator[str]:
    try:
        # Whether source and target share a dictionary shows when the data is read.
        validate.check(stage.config, joined=True)
    except UserError as error:
        yield from str(error).splitlines()
        return
    if before is None or stage.growth is None:
        return
    if not stage.growth.depths:
        depths = " and ".join(f"{stack} {before.config.depth(stack)}" for stack in STACKS)
        yield f"encoder-layers or decoder-layers must be above those of the stage before, but are the same ({depths})"
        return
    yield from (f"{dashed(option)} {rest}; such a model cannot grow" for option, rest in whole_faults(before.config))
    try:
        plan_growth(before.config, stage.growth)
    except UserError as error:
        yield from str(error).splitlines()
