"""Stages of a recipe: the options of each from the recipe and from its own entry, and its default groups."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deepnmt.checkpoints.grow import Growth
from deepnmt.checkpoints.plans import STRATEGIES
from deepnmt.limits import BEAM
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.groups import group_boundaries
from deepnmt.model.stack import STACKS
from deepnmt.recipe import Option, Recipe
from deepnmt.recipe.combinations import translate_fits
from deepnmt.recipe.own_keys import OwnKey, number_from

# Keys that decide when a stage ends.
ENDS = ("max-update", "max-epoch", "patience")
# The layers that a stage may keep as they are.
OLD = "old"
FLAG = ("true or false", ("true", "false").__contains__)
# How a stage grows out of the one before, and how it is scored.
STAGE_KEYS = (
    OwnKey("strategy", (f"one of {', '.join(STRATEGIES)}", STRATEGIES.__contains__)),
    OwnKey("function-preserving", FLAG),
    OwnKey("carry-moments", FLAG),
    OwnKey("keep-schedule", FLAG),
    OwnKey("freeze", (f"'{OLD}', for the layers of the stage before", OLD.__eq__)),
    OwnKey("average", ("a number of checkpoints of at least 1", number_from(1))),
    OwnKey("translate", (f"options of fairseq-generate, with a --beam from 1 to {BEAM}", translate_fits)),
)
# Keys a stage may override.
KEYS = (
    "encoder-layers",
    "decoder-layers",
    "encoder-groups",
    "decoder-groups",
    *ENDS,
    "max-tokens",
    "batch-size",
    "update-freq",
    "lr",
    "dropout",
    *(key.name for key in STAGE_KEYS),
)


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        number: number from 1
        options: options of fairseq-train, all of them
        own: the values of `STAGE_KEYS` that are given
        config: options of the model
        growth: its growth from the stage before; None for the first
        batch: most tokens and sentences of a batch
    """

    number: int
    options: dict[str, Option]
    own: dict[str, str]
    config: DLCLTransformerConfig
    growth: Growth | None
    batch: tuple[int | None, int | None]

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return f"stage-{self.number}-{self.config.encoder_layers}"

    def flag(self, key: str) -> bool:
        """Return whether one of `STAGE_KEYS` is set."""
        return self.own.get(key) == "true"

    def end(self, key: str) -> int:
        """Return the value of one of `ENDS`; 0 if it is not given."""
        option = self.options.get(key)
        return int(option.value) if option is not None and option.value not in ("", "false") else 0


def key_faults(recipe: Recipe) -> Iterator[str]:
    """Yield the keys that a stage must not have, a line each."""
    for number, stage in enumerate(recipe.stages, start=1):
        for key, option in stage.items():
            if key == "freeze" and number == 1:
                yield f"{option}: stage 1: 'freeze' must stand in a later stage, since the first has no old layers"
            if key not in KEYS:
                near = difflib.get_close_matches(key, KEYS, n=1)
                hint = f" (did you mean '{near[0]}'?)" if near else f", which has {', '.join(KEYS)}"
                yield f"{option}: stage {number}: '{key}' must stand beside the stages or be an option of a stage{hint}"


def merged(recipe: Recipe) -> list[tuple[dict[str, Option], dict[str, str]]]:
    """Return for each stage the options of fairseq-train and the values of `STAGE_KEYS`; the stage wins."""
    result = []
    for stage in recipe.stages:
        options = {**recipe.options, **stage}
        own = {key.name: options.pop(key.name).value for key in STAGE_KEYS if key.name in options}
        result.append((options, {key: value for key, value in own.items() if value not in ("", "false")}))
    return result


def default_groups(depths: Sequence[int]) -> list[str]:
    """Return the groups of a stack in each stage, as the option's text: p = h, the layers that the first growth adds.

    The layers of each growth are divided into groups of p: a stage then ends where a group ends. If a depth is no
    multiple of p, there are boundaries instead of a size.

    Args:
        depths: depths of the stack, by stage; at least two of them differ
    """
    size = next(high - low for low, high in zip(depths, depths[1:]) if high != low)
    ends, result = [0], []
    for depth in depths:
        if depth > ends[-1]:
            ends += [*range(ends[-1] + size, depth, size), depth]
        even = 0 < size <= depth and group_boundaries(str(size), depth) == tuple(ends)
        result.append(str(size) if even else ",".join(map(str, ends)))
    return result


def default_strategy(old: DLCLTransformerConfig, new: DLCLTransformerConfig) -> str:
    """Return the strategy: the whole stack again where that gives the new depths, else its top."""
    whole = all(new.depth(s) % max(1, old.depth(s)) == 0 for s in STACKS)
    return "stack" if whole else "top"
