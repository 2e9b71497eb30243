"""Files of embeddings are read by the names of types: one of other subwords would leave a table as it was drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairseq import utils

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.dictionary import SPECIAL_SYMBOLS


@replaces(
    utils,
    "load_embedding",
    "(embed_dict, vocab, embedding)",
    order=20,
    why="a file of --encoder-embed-path or --decoder-embed-path that has none of a dictionary's types is refused",
)
def refuse_other_types(stock: Any, embed_dict: Mapping[str, Any], vocab: Any, embedding: Any) -> Any:
    """Copy vectors into a table. Raises `UserError` if there is none for any type of the dictionary."""
    types = [type_ for type_ in vocab.symbols if type_ not in SPECIAL_SYMBOLS]
    if not any(type_ in embed_dict for type_ in types):
        name = getattr(embed_dict, "path", "--encoder-embed-path or --decoder-embed-path")
        raise UserError(
            f"{name} cannot be used with this dictionary: it has no vector for any of its {len(types)} types"
        )
    return stock(embed_dict, vocab, embedding)
