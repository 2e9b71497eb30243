"""Hold the stages of a recipe against fairseq's options and against each other, before the first one starts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from fairseq.models import MODEL_DATACLASS_REGISTRY

from deepnmt.checkpoints.grow import Growth
from deepnmt.checkpoints.grow.grow_stacks import plan_growth
from deepnmt.checkpoints.rewrite import RESETTABLE
from deepnmt.errors import UserError
from deepnmt.model import validate
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.groups import PLAIN
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import NAME
from deepnmt.progressive.stages import ENDS, STAGE_KEYS, Stage, default_groups, default_strategy, key_faults, merged
from deepnmt.recipe import Option, Recipe, read_stages
from deepnmt.recipe.checking import check_recipe

# Options the runner sets itself, or that would delete the checkpoints it resumes from.
TAKEN = (
    "save-dir",
    "user-dir",
    "restore-file",
    "finetune-from-model",
    "continue-once",
    "no-save",
    "no-last-checkpoints",
    "no-save-optimizer-state",
    "reset-dataloader",
    "reset-lr-scheduler",
    "reset-meters",
    "reset-optimizer",
    "stop-time-hours",
)
# What makes a stage, and so stands in the recipe alone.
OF_STAGES = ("encoder-layers", "decoder-layers", "encoder-groups", "decoder-groups", *ENDS)


def plan_stages(path: Path, extra: Sequence[str] = ()) -> list[Stage]:
    """Return the stages of a recipe, each of them possible.

    Args:
        path: the recipe
        extra: arguments of fairseq-train, which win over the recipe's

    Raises:
        UserError: says what is not possible, a line a fault
    """
    recipe = read_stages(path)
    if not recipe.stages:
        raise UserError(f"{path}: a recipe for train_progressive.sh must list its stages (stages:), but does not")
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
        stages.append(Stage(number, options, own, config, growth, (arguments.max_tokens, arguments.batch_size)))
    faults = [
        f"{path}: stage {stage.number}: {fault}"
        for stage, before, arguments in zip(stages, [None, *stages], parsed)
        for fault in (*_own_faults(stage, arguments), *_end_faults(stage, before), *_model_faults(stage, before))
    ]
    if faults:
        raise UserError(*faults)
    return stages


def _parsed(path: Path, entries: Sequence[dict[str, Option]], extra: Sequence[str]) -> list[Namespace]:
    """Return all options of each stage as fairseq understands them; the faults of all stages at once."""
    parsed, faults = [], []
    for options in entries:
        try:
            # The model's options follow, with what a stage has by default.
            parsed.append(check_recipe(path, options, extra, model=False))
        except UserError as error:
            faults += str(error).splitlines()
    if faults:
        raise UserError(*dict.fromkeys(faults))
    return parsed


def _taken_faults(path: Path, recipe: Recipe, extra: Sequence[str]) -> Iterator[str]:
    """Yield the options that are not the user's to set, in the recipe or on the command line."""
    for key in TAKEN:
        if key in recipe.options and recipe.options[key].value not in ("", "false"):
            yield f"{recipe.options[key]}: '{key}' must not be set in progressive training"
    staged = {key for stage in recipe.stages for key in stage}
    for argument in extra:
        key = argument.split("=")[0][2:] if argument.startswith("--") else ""
        if key in TAKEN:
            yield f"--{key} must not be set in progressive training"
        elif key in staged or key in OF_STAGES:
            yield f"--{key} must be set in {path}, which lists the stages, and not on the command line"


def _config(path: Path, arguments: Namespace) -> DLCLTransformerConfig:
    kind = MODEL_DATACLASS_REGISTRY.get(arguments.arch)
    if not (isinstance(kind, type) and issubclass(kind, DLCLTransformerConfig)):
        raise UserError(f"{path}: arch must be one of {NAME}, since no other can grow, but is {arguments.arch}")
    return kind.from_options(arguments)


def _give_default_groups(
    path: Path, options: Sequence[dict[str, Option]], configs: list[DLCLTransformerConfig]
) -> None:
    """Set the groups of a stack that grows, where a stage has none and the architecture has connections."""
    for stack in STACKS:
        key, depths = f"{stack}-groups", [config.depth(stack) for config in configs]
        plain = getattr(configs[0], f"{stack}_groups") == PLAIN
        # Depths that fall, or are none, are faults of their own.
        possible = depths == sorted(depths) and depths[0] >= 1 and depths[-1] <= validate.MOST_LAYERS
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
    )


def _own_faults(stage: Stage, arguments: Namespace) -> Iterator[str]:
    faulty = {key.name: fault for key in STAGE_KEYS if (fault := key.fault(stage.own.get(key.name)))}
    yield from (f"{name} {fault}" for name, fault in faulty.items())
    average = stage.own.get("average", "1")
    if "average" not in faulty and 0 < (kept := min(filter(lambda n: n > 0, _kept(stage)), default=0)) < int(average):
        yield f"average must be at most the {kept} checkpoints that are kept, but is {average}"
    schedule = arguments.lr_scheduler
    if stage.growth and not stage.flag("keep-schedule") and schedule != RESETTABLE:
        yield f"lr-scheduler must be {RESETTABLE}, or keep-schedule be true, but it is {schedule}"


def _kept(stage: Stage) -> Iterator[int]:
    for key in ("keep-last-epochs", "keep-interval-updates"):
        option = stage.options.get(key)
        if option is not None and option.value.isdecimal():
            yield int(option.value)


def _end_faults(stage: Stage, before: Optional[Stage]) -> Iterator[str]:
    if not any(stage.end(key) > 0 for key in ENDS):
        yield f"one of {', '.join(ENDS)} must be at least 1, but none is given"
    for key in ENDS[:2]:
        end, other = stage.end(key), before.end(key) if before else 0
        # Where the stage before may end otherwise, the two may have one and the same bound.
        alone = before is not None and all(before.end(name) <= 0 for name in ENDS if name != key)
        if 0 < end < other or (0 < end == other and alone):
            yield f"{key} counts from the first stage on and must be above the {other} of the one before, but is {end}"
    every, epochs = stage.options.get("save-interval"), stage.end("max-epoch")
    if every is not None and every.value.isdecimal() and int(every.value) > 1 and epochs % int(every.value):
        yield f"max-epoch must be a multiple of save-interval {every.value}, but is {epochs}"


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
    try:
        plan_growth(before.config, stage.growth)
    except UserError as error:
        yield from str(error).splitlines()
