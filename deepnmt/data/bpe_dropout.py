"""`--bpe-dropout`: pairs of sentences that are cut anew at the start of each epoch, by seed, epoch and line.

The lengths change with the cut, so the batches are made anew, too. Everything is a function of seed and epoch. A
resumed training has the same batches, and so have several processes, which each cut the whole text.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary
from torch import Tensor

from deepnmt.data.merge_walks import read_merges
from deepnmt.data.recut_text import RecutText
from deepnmt.errors import UserError
from deepnmt.text.record import read_record
from deepnmt.text.settings import RECORD
from deepnmt.text.subwords import CODES

logger = logging.getLogger(__name__)
BOTH, SOURCE, TARGET = SIDES = ("both", "source", "target")
# fairseq's options that need fixed pieces, with the values that turn them off.
NEEDS_ONE_CUT = {"truncate_source": False, "num_batch_buckets": 0, "load_alignments": False}


def option_faults(cfg: Any) -> Iterator[str]:
    """Yield the faults of --bpe-dropout and the options beside it."""
    if not 0 <= cfg.bpe_dropout < 1:
        yield f"--bpe-dropout must be at least 0 and below 1, but is {cfg.bpe_dropout}"
    elif cfg.bpe_dropout:
        for name, value in NEEDS_ONE_CUT.items():
            if getattr(cfg, name) != value:
                yield f"--{name.replace('_', '-')} cannot be combined with --bpe-dropout"
    elif cfg.bpe_dropout_side != BOTH:
        yield "--bpe-dropout-side needs --bpe-dropout"


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
        rate: probability of dropping a merge, above 0 and below 1
        seed: of the training
        longest: most pieces of a source and of a target
        which: the side that is cut anew, of `SIDES`

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
        rate: float,
        seed: int,
        longest: tuple[int, int],
        which: str = BOTH,
    ) -> None:
        super().__init__(pairs)
        self.rate, self.seed, self.cut_for = rate, seed, 0
        self.texts: dict[int, RecutText] = {}
        if which != TARGET:
            self.texts[0] = recut(pairs.src, pairs.src_dict, read_codes(folder, languages[0]), longest[0])
            pairs.src = Side(self.texts[0])
        if which != SOURCE:
            self.texts[1] = recut(pairs.tgt, pairs.tgt_dict, read_codes(folder, languages[1]), longest[1])
            pairs.tgt = Side(self.texts[1])

    def set_epoch(self, epoch: int) -> None:
        """Cut the text for an epoch; fairseq calls this more than once per epoch."""
        if epoch == self.cut_for:
            return
        super().set_epoch(epoch)
        self.cut_for = epoch
        pairs, lengths = self.dataset, [self.dataset.src_sizes, self.dataset.tgt_sizes]
        for side, text in self.texts.items():
            text.cut(self.rate, (self.seed, epoch, side))
            lengths[side] = text.lengths
        pairs.src_sizes, pairs.tgt_sizes = lengths
        pairs.sizes = np.stack(lengths, axis=1)
        kept = sum(text.kept for text in self.texts.values())
        logger.info(
            f"--bpe-dropout {self.rate}: epoch {epoch} has {pairs.src_sizes.sum()} source and {pairs.tgt_sizes.sum()} "
            f"target tokens; {kept} words kept their cut, for want of a type in the dictionary"
        )


def read_codes(folder: Path, language: str) -> dict[tuple[str, str], int]:
    """Return the ranks of a language's merges. Raises `UserError` for a missing file, or copies of the text."""
    codes = folder / f"{CODES}.{language}"
    if not codes.is_file():
        codes = folder / CODES
    if not codes.is_file():
        raise UserError(f"--bpe-dropout: {folder} lacks the file {CODES} of deepnmt preprocess")
    if (folder / RECORD).is_file() and "copies" in read_record(folder / RECORD):
        made = "deepnmt preprocess --bpe-dropout --copies"
        raise UserError(f"--bpe-dropout cannot be combined with {folder}, which was made by {made}")
    return read_merges(codes)


def check_codes(folder: Path, languages: tuple[str, str], which: str) -> None:
    """Raise `UserError` if a folder lacks the codes of the sides that are cut anew."""
    for language, other in zip(languages, (TARGET, SOURCE)):
        if which != other:
            read_codes(folder, language)


def recut(sentences: Any, dictionary: Dictionary, ranks: dict[tuple[str, str], int], longest: int) -> RecutText:
    """Return a side of fairseq's pairs as text that can be cut anew."""
    numbers = (sentences[line].tolist() for line in range(len(sentences)))
    return RecutText(numbers, dictionary.symbols, ranks, longest)
