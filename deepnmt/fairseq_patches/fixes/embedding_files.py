"""Files of embeddings: `--encoder-embed-path`, `--decoder-embed-path`, for each of fairseq's models that reads one.

A file has a line for each type, the type and its numbers between spaces. A header, the number of types and of numbers a
type, may come first.
"""

import logging
import math
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from torch import Tensor, nn

from deepnmt.errors import UserError, in_place_of, os_message
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.lines import open_file, without_mark

logger = logging.getLogger(__name__)


class Vectors(dict[str, Tensor]):
    """The vectors of a file by their types.

    Args:
        path: the file
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.width = 0


@replaces(utils, "parse_embedding", order=10, why="name faulty lines; without a header, the first type is lost")
def read_vectors(stock: Any, embed_path: str) -> Vectors:
    """Return the vectors of a file.

    Raises:
        UserError: the file is missing or not UTF-8, or a line has other than its type and the numbers of the others
    """
    vectors, types = Vectors(embed_path), None
    try:
        with open_file(Path(embed_path)) as file:
            for number, raw in enumerate(file, start=1):
                line = (without_mark(raw, embed_path) if number == 1 else raw).decode("utf-8")
                if number == 1 and (header := _header(line)):
                    types, vectors.width = header
                else:
                    _add(vectors, number, line)
    except OSError as error:
        raise in_place_of(type(error), f"embeddings cannot be read: {os_message(error)}") from error
    except UnicodeDecodeError as error:
        raise in_place_of(UnicodeDecodeError, f"{embed_path}: embeddings must be UTF-8, but are not") from error
    if not vectors:
        raise in_place_of(StopIteration, f"{embed_path}: embeddings must have a line for each type, but there is none")
    if types not in (None, len(vectors)):
        logger.warning(f"{embed_path}: the first line announces {types} types, but {len(vectors)} follow")
    return vectors


def _header(line: str) -> tuple[int, int] | None:
    words = line.split()
    return (int(words[0]), int(words[1])) if len(words) == 2 and all(map(str.isdecimal, words)) else None


def _add(vectors: Vectors, number: int, line: str) -> None:
    place, (type_, *words) = f"{vectors.path}:{number}", line.rstrip().split(" ")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [math.nan]
    if not numbers or not all(map(math.isfinite, numbers)):
        shown = line.strip()[:60]
        raise in_place_of(ValueError, f"{place}: must be a type and finite numbers between spaces, but is '{shown}'")
    if vectors.width and len(numbers) != vectors.width:
        raise in_place_of(
            RuntimeError, f"{place}: must have {vectors.width} numbers, as the lines above say, but has {len(numbers)}"
        )
    vectors.width = len(numbers)
    vectors[type_] = torch.tensor(numbers)


@replaces(utils, "load_embedding", order=10, why="refuse other widths and types; a single number fills a vector")
def copy_vectors(stock: Any, embed_dict: dict[str, Tensor], vocab: Any, embedding: nn.Embedding) -> Any:
    """Copy vectors into a table, as fairseq does.

    Raises:
        UserError: their width is not the table's, or no type of the dictionary has one
    """
    if isinstance(embed_dict, Vectors):
        if embed_dict.width != embedding.embedding_dim:
            raise in_place_of(
                RuntimeError,
                f"{embed_dict.path}: embeddings must have {embedding.embedding_dim} numbers a type, as the model's "
                f"(--encoder-embed-dim, --decoder-embed-dim), but have {embed_dict.width}",
            )
        # A file of other subwords would leave the table as it was drawn.
        types = [type_ for type_ in vocab.symbols if type_ not in SPECIAL_SYMBOLS]
        if not any(type_ in embed_dict for type_ in types):
            raise UserError(
                f"{embed_dict.path} cannot be used with this dictionary: it has no vector for any of its "
                f"{len(types)} types"
            )
    return stock(embed_dict, vocab, embedding)
