"""`--mono`: sentences of one language beside the pairs of a training, one of a like length beside each pair.

Pairs and sentences are ordered by length. In epoch e, the pair of rank r of N gets the sentence of rank

    floor(r M / N) + (e - 1) mod ceil(M / N)

of M, at most the last one. An epoch is one of the pairs, and all sentences have had their turn after ceil(M / N) epochs
if M is at least N. The order among equal lengths is drawn from the seed, so that everything is a function of seed and
epoch: a resumed training and several processes have the same batches.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fairseq.data import BaseWrapperDataset, Dictionary, data_utils
from fairseq.data.data_utils import collate_tokens

from deepnmt.errors import UserError
from deepnmt.text.data_folder import SUBSET_FILE
from deepnmt.text.dictionary import check_dictionary, read_types
from deepnmt.text.index_file import Dictionary as Types
from deepnmt.text.index_file import check_side

logger = logging.getLogger(__name__)
# The subset that `deepnmt binarise --mono` makes, and the entry of a batch with these sentences.
MONO = "mono"
SOURCE, TARGET = ("source", "target")
Sizes = npt.NDArray[np.integer[Any]]


class Companions(BaseWrapperDataset):  # type: ignore[misc]
    """The pairs of a training and their companions.

    Args:
        pairs: fairseq's `LanguagePairDataset`, or one around it
        texts: sentences by side, each with `sizes`, M
        lengths: of the pairs by side, N
        pad: number of the padding
        seed: of the training
    """

    def __init__(self, pairs: Any, texts: Mapping[str, Any], lengths: Mapping[str, Sizes], pad: int, seed: int) -> None:
        super().__init__(pairs)
        self.texts, self.pad, self.epoch = texts, pad, 1
        draw = np.random.default_rng(seed)
        self.ranks = {side: ranks(lengths[side], draw) for side in texts}
        self.orders = {side: order(text.sizes, draw) for side, text in texts.items()}

    def set_epoch(self, epoch: int) -> None:
        """Choose the companions of an epoch."""
        super().set_epoch(epoch)
        self.epoch = epoch

    def companion(self, side: str, pair: int) -> int:
        """Return the number of the sentence beside a pair."""
        number, total = len(self.ranks[side]), len(self.orders[side])
        rank = int(self.ranks[side][pair]) * total // number + (self.epoch - 1) % -(-total // number)
        return int(self.orders[side][min(rank, total - 1)])

    def __getitem__(self, pair: int) -> dict[str, Any]:
        """Return a pair and its companions."""
        beside = {side: text[self.companion(side, pair)] for side, text in self.texts.items()}
        return {**super().__getitem__(pair), MONO: beside}

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch, with the sentences of each side, B x T, padded on the right."""
        batch: dict[str, Any] = super().collater(samples)
        if batch:
            batch[MONO] = {
                side: collate_tokens([each[MONO][side] for each in samples], self.pad) for side in self.texts
            }
        return batch


def order(sizes: Sizes, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the numbers of sentences by length, drawn at random among equal lengths."""
    shuffled = draw.permutation(len(sizes))
    found: npt.NDArray[np.int64] = shuffled[np.argsort(np.asarray(sizes)[shuffled], kind="stable")]
    return found


def ranks(sizes: Sizes, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the place of each sentence in such an order."""
    found = np.empty(len(sizes), np.int64)
    found[order(sizes, draw)] = np.arange(len(sizes))
    return found


def languages_in(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the monolingual texts in folders: the path of each language's, without its ending.

    Raises:
        UserError: a folder is missing or has no such text, or a language has two
    """
    found: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"--mono: data folder '{folder}' not found")
        matches = ((path, SUBSET_FILE.fullmatch(path.name)) for path in sorted(folder.glob(f"{MONO}.*.idx")))
        texts = {match["language"]: path.with_suffix("") for path, match in matches if match}
        if not texts:
            raise UserError(f"--mono: {folder} has no text such as {MONO}.de-en.en.idx (deepnmt binarise --mono)")
        if twice := sorted(texts.keys() & found.keys()):
            raise UserError(f"--mono: must have one text of a language, but has several of {twice[0]}")
        found |= texts
    return found


def load_text(path: Path, data: Path, language: str, dictionary: Dictionary, longest: int) -> Any:
    """Return the sentences of a text that have at most `longest` tokens.

    Raises:
        UserError: the text is faulty, has another dictionary than the data folder's, or no such sentence
    """
    own, types = path.parent / f"dict.{language}.txt", data / f"dict.{language}.txt"
    if read_types(own) != read_types(types):
        raise UserError(f"{own}: must be the dictionary of {data}, but is another; use deepnmt binarise --like {data}")
    check_side(str(path), Types(own, check_dictionary(own)))
    text = data_utils.load_indexed_dataset(str(path), dictionary, "mmap")
    kept = np.flatnonzero(text.sizes <= longest)
    if not len(kept):
        raise UserError(f"{path}: must have a sentence of at most {longest} tokens, the longest of the pairs")
    if len(kept) < len(text):
        logger.info(f"--mono: {len(text) - len(kept)} sentences of {path} are longer than all pairs, and left out")
    return Kept(text, kept)


class Kept:
    """Some sentences of a text, by their numbers there."""

    def __init__(self, text: Any, numbers: Sizes) -> None:
        self.text, self.numbers, self.sizes = text, numbers, np.asarray(text.sizes)[numbers]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, number: int) -> Any:
        """Return the tokens of a sentence."""
        return self.text[int(self.numbers[number])].long()


def with_companions(
    pairs: Any, plain: Any, mono: str, data: Path, languages: Mapping[str, str], longest: int, seed: int
) -> Companions:
    """Return the pairs of a training beside the texts of `--mono`, folders with colons between them.

    Args:
        pairs: the pairs, `plain` or around it
        plain: fairseq's `LanguagePairDataset`
        mono: the option
        data: the first data folder of the training
        languages: of the wanted sides
        longest: most tokens of a sentence; no sentence has more than the longest side of a pair
        seed: of the training

    Raises:
        UserError: there is text of another language than the wanted ones, or a text is faulty
    """
    texts = languages_in([Path(folder) for folder in mono.split(":")])
    wanted = {side: language for side, language in languages.items() if language in texts}
    if not wanted or len(wanted) < len(texts):
        raise UserError(f"--mono must have text in {' or '.join(languages.values())}, but has {', '.join(texts)}")
    dictionaries = {SOURCE: plain.src_dict, TARGET: plain.tgt_dict}
    lengths = {SOURCE: plain.src_sizes, TARGET: plain.tgt_sizes}
    longest = min(longest, int(max(each.max() for each in lengths.values())))
    found = {
        side: load_text(texts[language], data, language, dictionaries[side], longest)
        for side, language in wanted.items()
    }
    return Companions(pairs, found, lengths, plain.src_dict.pad(), seed)
