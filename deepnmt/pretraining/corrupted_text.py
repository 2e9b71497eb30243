"""Text that a model learns to restore, and the changes that it has to undo (Devlin 2019, NAACL, arXiv 1810.04805).

Of the chosen positions, 80 % become the mask, 10 % a random type, and 10 % stay as they are. All draws are functions of
seed, epoch and sentence. A resumed training therefore has the same text, and so has any number of processes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.language_pair_dataset import collate

Integers = npt.NDArray[np.int64]
MASKED, RANDOM = 0.8, 0.1


@dataclass(frozen=True)
class Corruption:
    """What may stand in the place of a token.

    Attributes:
        mask: the type that hides it
        first, last: the range of the types of text; `last` is not one of them
        seed: of all draws
    """

    mask: int
    first: int
    last: int
    seed: int

    def __call__(self, tokens: Integers, chosen: Integers, draw: np.random.Generator) -> Integers:
        """Return a copy of a sentence with its `chosen` positions changed."""
        result, kind = tokens.copy(), draw.random(len(chosen))
        result[chosen[kind < MASKED]] = self.mask
        other = chosen[(kind >= MASKED) & (kind < MASKED + RANDOM)]
        result[other] = draw.integers(self.first, self.last, len(other))
        return result


class CorruptedText(LanguagePairDataset):  # type: ignore[misc]
    """Sentences as pairs with themselves; subclasses define the entries.

    Args:
        text: fairseq's data set of sentences, each with its end symbol
        dictionary: of its types
        corruption: what may stand in the place of a token
        renewed: each epoch has draws of its own; else, as in validation, all have the same
        left_pad: pad sources on the left
    """

    def __init__(
        self, text: Any, dictionary: Dictionary, corruption: Corruption, renewed: bool, left_pad: bool
    ) -> None:
        super().__init__(
            text, text.sizes, dictionary, text, text.sizes, dictionary, left_pad_source=left_pad, shuffle=renewed
        )
        self.corruption, self.renewed, self.epoch = corruption, renewed, 0

    def set_epoch(self, epoch: int) -> None:
        """Take the number of the epoch; called by fairseq."""
        super().set_epoch(epoch)
        self.epoch = epoch if self.renewed else 0

    def sentence(self, index: int) -> tuple[Integers, np.random.Generator]:
        """Return the tokens of a sentence, and the generator of its draws."""
        tokens: Integers = self.src[index].numpy().astype(np.int64)
        return tokens, np.random.default_rng((self.corruption.seed, self.epoch, index))

    def merged(self, samples: list[dict[str, Any]], left_pad_target: bool, inputs: bool) -> dict[str, Any]:
        """Return a batch of entries, as fairseq makes it; without `inputs`, nothing for a decoder."""
        batch: dict[str, Any] = collate(
            samples,
            self.src_dict.pad(),
            self.src_dict.eos(),
            self.left_pad_source,
            left_pad_target,
            input_feeding=inputs,
        )
        return batch
