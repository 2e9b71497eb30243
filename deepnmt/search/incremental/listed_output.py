"""The output layer for one position, for the types of a batch's shortlists. Twin: `output_steps.py`.

Shapes: R rows, one for each of N sentences' M hypotheses; C channels. D common types, and P further ones of each
sentence, fill W columns: whole blocks (`candidates.py`).
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepnmt.kernels.products import product, rounded
from deepnmt.search.candidates import whole_blocks
from deepnmt.search.incremental.attention_steps import move
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.incremental.output_steps import OutputSteps
from deepnmt.search.reduced import kind_of
from deepnmt.search.shortlist import Shortlist


class ListedOutput(OutputSteps):
    """Log-probabilities of the types on each sentence's own list, -inf in unused columns.

    Args:
        shortlist: of the models
        source: tokens of the batch, N x S
        models: whose output layers are linear maps without bias (`supported.shortlist_obstacle`)
        temperature: of the softmax
    """

    def __init__(self, shortlist: Shortlist, source: Tensor, models: Sequence[Any], temperature: float = 1.0) -> None:
        super().__init__(temperature, shared=False)
        further = shortlist.further(source.cpu().numpy())
        common = torch.from_numpy(shortlist.common).to(source.device)
        self.width = whole_blocks(len(common) + further.types.shape[1])
        missing = self.width - len(common) - further.types.shape[1]
        types = F.pad(torch.from_numpy(further.types), (0, missing)).to(source.device)
        unused = ~F.pad(torch.from_numpy(further.used), (0, missing)).to(source.device)
        self.types = torch.cat([common.expand(len(types), -1), types], dim=1)  # N x W
        self.hidden = torch.zeros(unused.shape, device=source.device).masked_fill_(unused, -math.inf)  # N x P
        self.products = {id(model): _Products(model.decoder.output_projection, common, types) for model in models}

    def __call__(self, model: Any, features: Tensor, decoder: DecoderSteps) -> Tensor:
        """Return R x W for features R x C."""
        common, further = self.products[id(model)](features)  # R x D, N x M x P
        further = (further.float() + self.hidden.unsqueeze(1)).flatten(0, 1)
        logits = torch.cat([common.float(), further], dim=1)
        if self.temperature != 1.0:
            logits /= self.temperature
        return torch.log_softmax(logits, -1, out=logits)

    def types_of(self, columns: Tensor) -> Tensor:
        """Return the types of columns, N x n each."""
        return self.types.gather(1, columns)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """See `DecoderSteps.keep`."""
        for tensor in (self.types, self.hidden, *(each.further for each in self.products.values())):
            move(tensor, holes, movers)
        self.types, self.hidden = self.types[:sentences], self.hidden[:sentences]
        for each in self.products.values():
            each.further = each.further[:sentences]


class _Products:
    """The logits of the common types, D, and of the further ones, N x P."""

    @torch.no_grad()
    def __init__(self, projection: nn.Linear, common: Tensor, further: Tensor) -> None:
        self.kind, weight = kind_of(projection), projection.weight
        self.common = product(self.kind, weight[common], None)
        self.further = rounded(self.kind, weight[further.flatten()]).view(*further.shape, -1)  # N x P x C

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return R x D and N x M x P for x, R x C."""
        by_sentence = rounded(self.kind, x).view(len(self.further), -1, x.size(1))
        return self.common(x), torch.bmm(by_sentence, self.further.mT)
