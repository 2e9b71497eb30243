"""--replace-unk: unknown words of a translation are replaced by the source words to which they are aligned."""

from collections.abc import Sequence
from typing import Any, Optional

from fairseq import utils

from deepnmt.fairseq_patches.patch import replaces

# The value that fairseq's parser gives the option by itself; it is the default of --remove-bpe.
NO_VALUE = "@@ "


@replaces(utils, "load_align_dict", order=10, why="--replace-unk without a file opens '@@ ' (issue 3533)")
def copy_without_a_file(stock: Any, replace_unk: Optional[str]) -> Optional[dict[str, str]]:
    """Return a dictionary of words; an empty one, by which source words are copied, if no file is given."""
    dictionary: Optional[dict[str, str]] = stock("" if replace_unk == NO_VALUE else replace_unk)
    return dictionary


@replaces(utils, "replace_unk", order=10, why="--replace-unk takes alignments for a list of positions (issue 3533)")
def replace_aligned(
    stock: Any, hypo_str: str, src_str: str, alignment: Sequence[tuple[int, int]], align_dict: dict[str, str], unk: str
) -> str:
    """Replace unknown words; `alignment` is of a source and a target position each, as the generators make it."""
    source_of = {target: source for source, target in alignment}
    # fairseq appends a symbol for the end of the source, which stands for a word without an alignment.
    sources, targets = src_str.split(), hypo_str.split()
    places = [source_of.get(place, len(sources)) for place in range(len(targets))]
    replaced: str = stock(hypo_str, src_str, places, align_dict, unk)
    return replaced
