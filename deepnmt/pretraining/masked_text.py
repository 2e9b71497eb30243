"""Sentences with masks for an encoder (Devlin 2019, NAACL, arXiv 1810.04805).

15 % of a sentence's tokens are chosen, at least one; its end symbol never is. The encoder reads the changed sentence,
and the loss counts the chosen positions alone.
"""

from typing import Any

import torch

from deepnmt.pretraining.corrupted_text import CorruptedText

CHOSEN = 0.15


class MaskedText(CorruptedText):
    """Each sentence with masks as the source; its target has the chosen tokens in their places, else padding."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sentence: its source and its target, both S."""
        tokens, draw = self.sentence(index)
        words = len(tokens) - 1
        chosen = draw.choice(words, min(words, max(1, round(CHOSEN * words))), replace=False)
        target = torch.full((len(tokens),), self.src_dict.pad())
        target[chosen] = torch.from_numpy(tokens[chosen])
        return {"id": index, "source": torch.from_numpy(self.corruption(tokens, chosen, draw)), "target": target}

    def collater(self, samples: list[dict[str, Any]], pad_to_length: Any = None) -> dict[str, Any]:
        """Return a batch whose target, B x S, is padded like its source."""
        return self.merged(samples, self.left_pad_source, inputs=False)
