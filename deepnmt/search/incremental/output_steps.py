"""The output layer for one position. Twin: `output_layer` and `get_normalized_probs` of fairseq's Transformer.

Shapes: R rows, one for each hypothesis; C channels; V types in W columns, V in whole blocks (`candidates.py`).
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepnmt.search.candidates import whole_blocks
from deepnmt.search.incremental.decoder_steps import DecoderSteps


class OutputSteps:
    """Log-probabilities of all types, in memory that is reused in each step.

    It is not `shared` between several models, whose results are needed together.
    """

    def __init__(self, temperature: float, shared: bool) -> None:
        self.temperature = temperature
        self.shared = shared
        self.memory = torch.empty(0)

    def __call__(self, model: Any, features: Tensor, decoder: DecoderSteps) -> Tensor:
        """Return R x W for features R x C, -inf from column V on; `decoder` has given them."""
        projection = model.decoder.output_projection
        on_cpu = features.device.type == "cpu" and features.dtype == torch.float32
        if type(projection) is not nn.Linear or not self.shared or not on_cpu:
            logits = model.decoder.output_layer(features.unsqueeze(1)).div_(self.temperature)
            result: Tensor = model.get_normalized_probs((logits, None), log_probs=True)[:, -1]
            # An adaptive softmax returns half precision, whose sums would be rounded.
            result = result.to(torch.promote_types(result.dtype, torch.float32))
            types = result.size(1)
            return F.pad(result, (0, whole_blocks(types) - types), value=-math.inf)
        if decoder.vocabulary is not None:
            log_probs = decoder.vocabulary(features)
            if self.temperature != 1.0:
                log_probs /= self.temperature
            return torch.log_softmax(log_probs, -1, out=log_probs)
        log_probs = self._rows(len(features), projection.weight)
        logits = log_probs[:, : len(projection.weight)]
        log_probs[:, len(projection.weight) :] = -math.inf
        torch.mm(features, projection.weight.t(), out=logits)
        if projection.bias is not None:
            logits += projection.bias
        if self.temperature != 1.0:
            logits /= self.temperature
        return torch.log_softmax(log_probs, -1, out=log_probs)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """See `DecoderSteps.keep`; nothing here belongs to a sentence."""

    def _rows(self, rows: int, weight: Tensor) -> Tensor:
        """Return memory for R x W, the largest tensor of a step: allocating it would take much of the time."""
        size = rows * whole_blocks(len(weight))
        if self.memory.numel() < size:
            self.memory = weight.new_empty(size)
        return self.memory[:size].view(rows, -1)
