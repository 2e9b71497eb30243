"""`--bpe-dropout`, `--unigram-sampling`: pairs that are cut anew at the start of each epoch, by seed, epoch and line.

The lengths change with the cut, so the batches are made anew, too. Everything is a function of seed and epoch. A
resumed training has the same batches, and so have several processes, which each cut the whole text.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary
from torch import Tensor

from deepnmt.data.cut_walks import Walks
from deepnmt.data.merge_walks import MergeWalks, read_merges
from deepnmt.data.recut_text import RecutText
from deepnmt.data.unigram_walks import UnigramWalks
from deepnmt.errors import UserError
from deepnmt.text.record import read_record
from deepnmt.text.settings import RECORD
from deepnmt.text.subwords import CODES, kind_of
from deepnmt.text.unigram import HEADER as UNIGRAM
from deepnmt.text.unigram import Unigram

logger = logging.getLogger(__name__)
BOTH, SOURCE, TARGET = SIDES = ("both", "source", "target")


class Side(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """The sentences of a text as tensors, for fairseq."""

    def __init__(self, text: RecutText) -> None:
        self.text = text

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, line: int) -> Tensor:
        """Return the numbers of a sentence's pieces."""
        return torch.from_numpy(self.text[line])


class RecutPairs(BaseWrapperDataset):  # type: ignore[misc]
    """The pairs of a training text, cut anew in each epoch.

    Args:
        pairs: fairseq's `LanguagePairDataset` of binarised text
        folder: data folder, which must contain the codes
        languages: of source and target
        sampling: the request
        seed: of the training
        longest: most pieces of a source and of a target

    Raises:
        UserError: the folder lacks the codes, has other codes, or has copies that were cut by dropout
    """

    # fairseq makes the batches of an epoch anew for data sets that request it.
    can_reuse_epoch_itr_across_epochs = False

    def __init__(
        self,
        pairs: Any,
        folder: Path,
        languages: tuple[str, str],
        sampling: "Sampling",
        seed: int,
        longest: tuple[int, int],
    ) -> None:
        super().__init__(pairs)
        self.sampling, self.seed, self.cut_for = sampling, seed, 0
        self.texts: dict[int, RecutText] = {}
        for number, side in sampling.sides():
            sentences = (pairs.src, pairs.tgt)[number]
            dictionary = (pairs.src_dict, pairs.tgt_dict)[number]
            walks = sampling.walks(folder, languages[number], dictionary)
            tokens = (sentences[line].tolist() for line in range(len(sentences)))
            self.texts[number] = RecutText(tokens, dictionary.symbols, walks, longest[number])
            setattr(pairs, side, Side(self.texts[number]))

    def set_epoch(self, epoch: int) -> None:
        """Cut the text for an epoch; fairseq calls this more than once per epoch."""
        if epoch == self.cut_for:
            return
        super().set_epoch(epoch)
        self.cut_for = epoch
        pairs, lengths = self.dataset, [self.dataset.src_sizes, self.dataset.tgt_sizes]
        for side, text in self.texts.items():
            text.cut((self.seed, epoch, side))
            lengths[side] = text.lengths
        pairs.src_sizes, pairs.tgt_sizes = lengths
        pairs.sizes = np.stack(lengths, axis=1)
        kept = sum(text.kept for text in self.texts.values())
        logger.info(
            f"{self.sampling}: epoch {epoch} has {pairs.src_sizes.sum()} source and {pairs.tgt_sizes.sum()} target "
            f"tokens; {kept} words kept their cut, for want of a type in the dictionary"
        )


@dataclass(frozen=True)
class Sampling:
    """A request for random cuts.

    Attributes:
        kind: the walks that draw them
        rate: the rate of BPE-dropout, above 0 and below 1, or the sharpness of unigram sampling, above 0
        which: the side that is cut anew, of `SIDES`
    """

    kind: type[Walks]
    rate: float
    which: str = BOTH

    @classmethod
    def requested(cls, cfg: Any) -> Optional["Sampling"]:
        """Return the request of a task's options, or None."""
        which = str(cfg.bpe_dropout_side)
        if cfg.bpe_dropout:
            return cls(MergeWalks, cfg.bpe_dropout, which)
        return cls(UnigramWalks, cfg.unigram_sampling, which) if cfg.unigram_sampling else None

    def __str__(self) -> str:
        return f"{self.kind.option} {self.rate}"

    def sides(self) -> Iterator[tuple[int, str]]:
        """Yield number and name, as of an attribute of fairseq's pairs, of each side that is cut anew."""
        yield from ((number, name) for number, name in enumerate(("src", "tgt")) if self.which != SIDES[2 - number])

    def check(self, folder: Path, languages: tuple[str, str]) -> None:
        """Raise `UserError` if a folder lacks the codes of the sides that are cut anew."""
        for number, _ in self.sides():
            self.walks(folder, languages[number], None)

    def walks(self, folder: Path, language: str, dictionary: Optional[Dictionary]) -> Walks:
        """Return walks by a language's codes. Raises `UserError` for missing or other codes, or copies of the text."""
        option = self.kind.option
        codes = folder / f"{CODES}.{language}"
        if not codes.is_file():
            codes = folder / CODES
        if not codes.is_file():
            raise UserError(f"{option}: {folder} lacks the file {CODES} of deepnmt preprocess")
        if (folder / RECORD).is_file() and "copies" in read_record(folder / RECORD):
            made = "deepnmt preprocess --copies"
            raise UserError(f"{option} cannot be combined with {folder}, which was made by {made}")
        symbols = [] if dictionary is None else dictionary.symbols
        types = {name: number for number, name in enumerate(symbols)}
        if self.kind is MergeWalks:
            return MergeWalks(read_merges(codes), types, self.rate)
        if kind_of(codes) != UNIGRAM:
            raise UserError(
                f"{option} needs a folder of deepnmt preprocess --subwords unigram, but {folder} has others"
            )
        return UnigramWalks(Unigram.read(codes).restricted(symbols), types, self.rate)
