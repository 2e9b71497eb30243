"""Several models that predict each token together.

Shapes: N sentences of M hypotheses (1 in the first step, then the beam); V types in W columns, -inf from column V on;
C channels; S source positions. Rows are sentence-major: all hypotheses of the first sentence, then those of the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Protocol

import torch
from torch import Tensor

from deepnmt.search.incremental.attention_steps import Step
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.incremental.output_steps import OutputSteps


class Ensemble(Protocol):
    """Combines the predictions of models."""

    def __call__(self, log_probs: Sequence[Tensor]) -> Tensor:
        """Return the log-probabilities, NM x W, that follow from those of each of two or more models."""


class MeanProbability:
    """log (1/K) sum_k P_k, of K models."""

    def __call__(self, log_probs: Sequence[Tensor]) -> Tensor:
        """See `Ensemble`."""
        return torch.logsumexp(torch.stack(list(log_probs)), dim=0) - math.log(len(log_probs))


@dataclass(frozen=True)
class EnsembleSteps:
    """One or more models during the search of a batch.

    Attributes:
        models: fairseq's or this package's
        decoders: the decoder of each
        output: turns the features of one model into its log-probabilities
        ensemble: combines them
    """

    models: Sequence[Any]
    decoders: Sequence[DecoderSteps]
    output: OutputSteps
    ensemble: Ensemble

    def __call__(self, tokens: Tensor, step: Step) -> tuple[Tensor, Optional[Tensor]]:
        """Predict the next token.

        Args:
            tokens: the newest of each hypothesis, N x M
            step: which step it is

        Returns:
            log-probabilities, NM x W; attention to the source, the mean of all models that have some, N x M x S
        """
        log_probs: list[Tensor] = []
        attention: list[Tensor] = []
        for model, decoder in zip(self.models, self.decoders):
            log_probs.append(self.output(model, decoder(tokens, step)))
            weights = decoder.attention(step)
            if weights is not None:
                attention.append(weights)
        mean = torch.stack(attention).mean(0) if len(attention) > 1 else attention[0] if attention else None
        return log_probs[0] if len(log_probs) == 1 else self.ensemble(log_probs), mean

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """Continue with fewer sentences, as `DecoderSteps.keep`."""
        for decoder in self.decoders:
            decoder.keep(sentences, holes, movers)
