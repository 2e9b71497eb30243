"""The text of a language in data folders: sides of pairs, and text of one language (`binarise --mono`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq.data import ConcatDataset, data_utils
from fairseq.data import Dictionary as Types

from deepnmt.errors import UserError
from deepnmt.text.data_folder import SUBSET_FILE
from deepnmt.text.dictionary import check_dictionary, read_types
from deepnmt.text.index_file import Dictionary, check_side


def sides(folders: Sequence[Path], subsets: Sequence[str], language: str) -> list[Path]:
    """Return the paths, without their endings, of all text of a language in some subsets of folders.

    Raises:
        UserError: there is no such text, a file is faulty, or a folder has another dictionary than the first
    """
    first, found = folders[0] / f"dict.{language}.txt", []
    dictionary = Dictionary(first, check_dictionary(first))
    for folder in folders:
        own = folder / first.name
        if folder != folders[0] and own.is_file() and read_types(own) != read_types(first):
            raise UserError(f"{own}: must have the types of {first}, but has others")
        for path in sorted(folder.glob(f"*.{language}.idx")):
            match = SUBSET_FILE.fullmatch(path.name)
            if match and match["language"] == language and path.name.split(".")[0] in subsets:
                check_side(str(path.with_suffix("")), dictionary)
                found.append(path.with_suffix(""))
    if not found:
        places = " and ".join(map(str, folders))
        raise UserError(f"{places}: no text of {language} found in the subset {' or '.join(subsets)}")
    return found


def load_sides(paths: Sequence[Path], dictionary: Types, implementation: Any) -> Any:
    """Return fairseq's data set of all sentences in files that `sides` has found."""
    texts = [data_utils.load_indexed_dataset(str(path), dictionary, implementation) for path in paths]
    return texts[0] if len(texts) == 1 else ConcatDataset(texts)
