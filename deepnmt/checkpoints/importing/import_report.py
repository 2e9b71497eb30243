"""Says what an imported model is, a line a fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deepnmt.model.stack import STACKS


def model_lines(options: Mapping[str, Any]) -> Iterator[str]:
    """The options that were found or given."""
    for stack in STACKS:
        own = {name: options.get(f"{stack}_{name}") for name in ("layers", "embed_dim", "ffn_embed_dim")}
        yield (
            f"{stack}: {own['layers']} layers, width {own['embed_dim']}, feed-forward {own['ffn_embed_dim']}, "
            f"{options[f'{stack}_attention_heads']} heads, {options[f'{stack}_norm']}-norm, "
            f"groups {options[f'{stack}_groups']}, relative positions {options.get(f'{stack}_max_relative_length', 0)}"
        )
    others = {name: value for name, value in options.items() if not name.startswith(STACKS) or name.endswith("_pos")}
    for name, value in others.items():
        yield f"{name.replace('_', '-')}: {'yes' if value is True else value}"
