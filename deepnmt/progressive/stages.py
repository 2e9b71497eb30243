"""The stages of a recipe: what each has from the recipe and from its own entry, and its groups by default."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from deepnmt.checkpoints.grow import Growth
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.groups import group_boundaries
from deepnmt.model.stack import STACKS
from deepnmt.recipe import Option, Recipe

# What decides when a stage ends.
ENDS = ("max-update", "max-epoch", "patience")
# What is not fairseq's: how a stage grows out of the one before, and how it is scored.
OWN = ("strategy", "function-preserving", "carry-moments", "keep-schedule", "average", "translate")
# What a stage may have of its own; the rest is one for all, in the recipe.
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
    *OWN,
)


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        number: from 1
        options: of fairseq-train, all of them
        own: the values of `OWN` that are given
        config: options of the model
        growth: how it comes from the stage before; None for the first
        batch: most tokens and sentences of a batch
    """

    number: int
    options: dict[str, Option]
    own: dict[str, str]
    config: DLCLTransformerConfig
    growth: Optional[Growth]
    batch: tuple[Optional[int], Optional[int]]

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"stage-{self.number}-{self.config.encoder_layers}"

    def flag(self, key: str) -> bool:
        """Whether one of `OWN` is set."""
        return self.own.get(key) == "true"

    def end(self, key: str) -> int:
        """The value of one of `ENDS`; 0 where there is none."""
        option = self.options.get(key)
        return int(option.value) if option is not None and option.value not in ("", "false") else 0


def key_faults(recipe: Recipe) -> Iterator[str]:
    """The keys that a stage must not have, a line each."""
    for number, stage in enumerate(recipe.stages, start=1):
        for key, option in stage.items():
            if key not in KEYS:
                near = difflib.get_close_matches(key, KEYS, n=1)
                hint = f" (did you mean '{near[0]}'?)" if near else f", which has {', '.join(KEYS)}"
                yield f"{option}: stage {number}: '{key}' must stand beside the stages or be an option of a stage{hint}"


def merged(recipe: Recipe) -> list[tuple[dict[str, Option], dict[str, str]]]:
    """For each stage the options of fairseq-train and the values of `OWN`; the stage's own win over the recipe's."""
    result = []
    for stage in recipe.stages:
        options = {**recipe.options, **stage}
        own = {key: options.pop(key).value for key in OWN if key in options}
        result.append((options, {key: value for key, value in own.items() if value not in ("", "false")}))
    return result


def default_groups(depths: Sequence[int]) -> list[str]:
    """The groups of a stack in each stage, as the option's text: p = h, the layers that the first growth adds.

    The layers of each growth are cut into groups of p, so that a stage ends where a group does: boundaries instead of a
    size where a depth is no multiple of p.

    Args:
        depths: of the stack, by stage; at least two of them differ
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
    """The whole stack again where that gives the new depths, else its top."""
    whole = all(new.depth(s) % max(1, old.depth(s)) == 0 for s in STACKS)
    return "stack" if whole else "top"
