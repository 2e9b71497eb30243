"""MASS: an encoder reads a sentence without a fragment, and the decoder predicts it (Song 2019, arXiv 1905.02450).

A sentence x_1 .. x_m, its end symbol included, loses the fragment x_u .. x_v of k = v - u + 1 tokens:

    encoder    x_1 .. x_{u-1}  [M] .. [M]  x_{v+1} .. x_m
    decoder    reads [tag] x_u .. x_{v-1} at the places u .. v, and predicts x_u .. x_v

    loss = - sum_{t=u..v} log P(x_t | x_u .. x_{t-1}, the encoder's input)                      (66)

The decoder predicts just the masked tokens. The authors' code masks one place too late, and one too many. To predict
b c d of a b c d e f, it hides c d e f. As in that code, one fragment in five starts at the front, and one ends at the
end; all others are anywhere, with equal chances. The tag names the language.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import ConcatDataset, Dictionary

from deepnmt.pretraining.corrupted_text import CorruptedText, Corruption

FRONT, END = 0.2, 0.2


def fragment(length: int, share: float, draw: np.random.Generator) -> tuple[int, int]:
    """Return the first place of a sentence's fragment, from 0, and the one after its last.

    Args:
        length: m
        share: k / m, above 0 and at most 1; k is rounded, and at least 1
        draw: the generator
    """
    size = min(length, max(1, int(share * length + 0.5)))
    free, kind = length - size, draw.random()
    start = 0 if kind < FRONT else free if kind < FRONT + END else int(draw.integers(free + 1))
    return start, start + size


class Fragments(CorruptedText):
    """Sentences of one or more languages, each without its fragment, and the fragments.

    Args:
        texts: fairseq's data set of each language
        tags: the type that names each language
        dictionary: of all languages
        corruption: what may stand in the place of a token
        renewed: see `CorruptedText`
        left_pad: pad sources on the left
        share: k / m
    """

    def __init__(
        self,
        texts: Sequence[Any],
        tags: Sequence[int],
        dictionary: Dictionary,
        corruption: Corruption,
        renewed: bool,
        left_pad: bool,
        share: float,
    ) -> None:
        together = ConcatDataset(texts)
        super().__init__(together, dictionary, corruption, renewed, left_pad)
        self.tags, self.ends, self.share = tags, together.cumulative_sizes, share

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sentence: the encoder's input, the decoder's input and target, and the first place of both."""
        tokens, draw = self.sentence(index)
        start, end = fragment(len(tokens), self.share, draw)
        source = self.corruption(tokens, np.arange(start, end), draw)
        tag = self.tags[bisect_right(self.ends, index)]
        return {
            "id": index,
            "source": torch.from_numpy(source),
            "target": torch.from_numpy(tokens[start:end]),
            "prev_output_tokens": torch.from_numpy(np.r_[tag, tokens[start : end - 1]]),
            "start": start,
        }

    def collater(self, samples: list[dict[str, Any]], pad_to_length: Any = None) -> dict[str, Any]:
        """Return a batch; `places` in its net input, B x T, are the decoder's positions, from 0."""
        batch = self.merged(samples, False, inputs=True)
        if batch:
            found = {sample["id"]: (sample["start"], len(sample["target"])) for sample in samples}
            starts, lengths = torch.tensor([found[number] for number in batch["id"].tolist()]).unsqueeze(-1).unbind(1)
            offsets = torch.arange(batch["target"].size(1)).expand(len(starts), -1)
            batch["net_input"]["places"] = starts + torch.minimum(offsets, lengths - 1)
        return batch
