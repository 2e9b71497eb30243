"""Larger vectors for common words: adaptive input embeddings (Baevski 2019, ICLR, arXiv 1809.10853).

The dictionary, common types first, is cut into bands. Band i has vectors e of width d / f^i, and a projection A_i:

    E(x) = A_i e(x)   for x in band i                                                           (68)

With one band, this is the plain table up to a projection. fairseq's `AdaptiveInput`, for language models, has the same
function. Its initialisation sets the row of padding to zero in every band, where other bands have a word.

Shapes: V types, C channels.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from deepnmt.literals import literal

if TYPE_CHECKING:
    from deepnmt.model.config import DLCLTransformerConfig

NONE = "none"
# Initialisers of one table as a whole.
OF_A_TABLE = ("t-fixup", "t-fixup-released")


def cutoffs_of(text: str) -> tuple[int, ...]:
    """Return the first type of each band but the first, as --encoder-embedding-cutoffs has them."""
    if text == NONE:
        return ()
    numbers = literal(text)
    return tuple(numbers) if isinstance(numbers, (tuple, list)) else (int(numbers),)


def band_widths(width: int, factor: int, bands: int) -> list[int]:
    """Return the width of each band's vectors."""
    return [width // factor**band for band in range(bands)]


class BandedEmbedding(nn.Module):
    """A table in bands, in the place of an nn.Embedding.

    Args:
        types: V
        width: C
        padding_idx: the type of padding, in the first band, whose vector is 0
        cutoffs: first types of the other bands, increasing and below V
        factor: f
    """

    def __init__(self, types: int, width: int, padding_idx: int, cutoffs: Sequence[int], factor: int) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.padding_idx = types, width, padding_idx
        self.starts = (0, *cutoffs)
        sizes = [end - start for start, end in zip(self.starts, (*cutoffs, types))]
        widths = band_widths(width, factor, len(sizes))
        self.tables = nn.ModuleList(map(nn.Embedding, sizes, widths))
        self.projections = nn.ModuleList(nn.Linear(each, width, bias=False) for each in widths)
        for table, projection in zip(self.tables, self.projections):
            nn.init.normal_(table.weight, std=table.weight.size(1) ** -0.5)  # type: ignore[arg-type,operator]
            # So that the numbers of E(x) have the size of a plain table's, d^(-1/2).
            nn.init.normal_(projection.weight, std=width**-0.5)  # type: ignore[arg-type]
        with torch.no_grad():
            self.tables[0].weight[padding_idx] = 0  # type: ignore[operator]

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors of tokens, with an axis of C after theirs."""
        ends = (*self.starts[1:], self.num_embeddings)
        found = tokens.new_zeros((*tokens.shape, self.embedding_dim), dtype=self.projections[0].weight.dtype)  # type: ignore[arg-type]
        for start, end, table, projection in zip(self.starts, ends, self.tables, self.projections):
            inside = (tokens >= start) & (tokens < end)
            vectors = projection(table((tokens - start).clamp(0, end - start - 1)))
            found = torch.where(inside.unsqueeze(-1), vectors, found)
        return found


def banding_faults(config: "DLCLTransformerConfig") -> Iterator[str]:
    """Yield the faults of --encoder-embedding-cutoffs and the options beside it."""
    option = "--encoder-embedding-cutoffs"
    cutoffs = cutoffs_of(config.encoder_embedding_cutoffs)
    if not cutoffs:
        if config.embedding_factor != 4:
            yield f"--embedding-factor needs {option}"
        return
    if config.one_table:
        yield f"{option} cannot be combined with embeddings that source and target share"
    if config.encoder_embed_path:
        yield f"{option} cannot be combined with --encoder-embed-path"
    if str(config.freeze_embeddings) in ("source", "both"):
        yield f"{option} cannot be combined with --freeze-embeddings {config.freeze_embeddings}"
    if str(config.initializer) in OF_A_TABLE:
        yield f"{option} cannot be combined with --initializer {config.initializer}"
    width, bands = config.width("encoder"), len(cutoffs) + 1
    if min(band_widths(width, config.embedding_factor, bands)) < 1:
        must = f"at most {int(width ** (1 / (bands - 1)))} for {bands} bands of --encoder-embed-dim {width}"
        yield f"--embedding-factor must be {must}, but is {config.embedding_factor}"
