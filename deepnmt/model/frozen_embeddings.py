"""`--freeze-embeddings`: embedding tables that keep their initial values."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepnmt.model.config import DLCLTransformerConfig

# The stacks whose tables each value freezes.
FROZEN_STACKS = {"source": ("encoder",), "target": ("decoder",), "both": ("encoder", "decoder")}


def freeze_embeddings(model: Any, config: "DLCLTransformerConfig") -> None:
    """Let the tables that the options name have no gradients."""
    for stack in FROZEN_STACKS.get(str(config.freeze_embeddings), ()):
        for parameter in getattr(model, stack).embed_tokens.parameters():
            parameter.requires_grad_(requires_grad=False)


def frozen_tables(config: "DLCLTransformerConfig") -> Iterator[str]:
    """Yield the names of the parameters, in a checkpoint, that are not trained."""
    frozen = FROZEN_STACKS.get(str(config.freeze_embeddings), ())
    yield from (f"{stack}.embed_tokens.weight" for stack in frozen)
    if "decoder" in frozen and (config.one_table or config.share_decoder_input_output_embed):
        yield "decoder.output_projection.weight"


def freezing_faults(config: "DLCLTransformerConfig") -> Iterator[str]:
    """Yield the fault of freezing one of two embeddings that share a table."""
    frozen = str(config.freeze_embeddings)
    if config.one_table and frozen not in ("none", "both"):
        option = "--share-all-embeddings" if config.share_all_embeddings else "--merge-src-tgt-embed"
        yield f"--freeze-embeddings must be both with {option}, but is {frozen}"
