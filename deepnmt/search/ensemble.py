"""Several models that predict each token together.

    linear       log sum_k g_k P_k
    log-linear   log softmax( sum_k g_k log P_k ),   sum_k g_k = 1                                     (26)

Shapes: N sentences of M hypotheses (1 in the first step, then the beam); V types in W columns, -inf from column V on. C
channels; S source positions. Rows are sentence-major: all hypotheses of the first sentence, then all of the second.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Protocol

import torch
from torch import Tensor

from deepnmt.search.incremental.attention_steps import Step
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.incremental.output_steps import OutputSteps
from deepnmt.search.neighbours import Neighbours

if TYPE_CHECKING:
    from deepnmt.search.fusion import FusedModel

# Given the layers of a decoder, the layers that a coverage penalty reads.
Layers = Sequence[int]


class Ensemble(Protocol):
    """Combines the predictions of models."""

    def __call__(self, log_probs: Sequence[Tensor]) -> Tensor:
        """Combine the log-probabilities of two or more models into one distribution, NM x W."""


class MeanProbability:
    """The linear rule of (26) with equal weights: fairseq's."""

    def __call__(self, log_probs: Sequence[Tensor]) -> Tensor:
        """See `Ensemble`."""
        return torch.logsumexp(torch.stack(list(log_probs)), dim=0) - math.log(len(log_probs))


@dataclass(frozen=True)
class WeightedProbability:
    """The linear rule of (26), with weights g_k."""

    weights: Sequence[float]

    def __call__(self, log_probs: Sequence[Tensor]) -> Tensor:
        """See `Ensemble`."""
        weighted = [values + math.log(weight) for weight, values in zip(self.weights, log_probs) if weight]
        return torch.logsumexp(torch.stack(weighted), dim=0)


@dataclass(frozen=True)
class LogLinear:
    """The log-linear rule of (26), with weights g_k."""

    weights: Sequence[float]

    def __call__(self, log_probs: Sequence[Tensor]) -> Tensor:
        """See `Ensemble`."""
        # 0 times log 0 is not a number: a model without weight must not count.
        weighted = [values * weight for weight, values in zip(self.weights, log_probs) if weight]
        return torch.log_softmax(torch.stack(weighted).sum(0), -1)


class Prediction(NamedTuple):
    """The models' predictions of the next token.

    Attributes:
        log_probs: NM x W
        attention: to the source, the mean over all models with attention, N x M x S
        covering: the same for the layers that coverage counts
    """

    log_probs: Tensor
    attention: Optional[Tensor]
    covering: Optional[Tensor]


@dataclass(frozen=True)
class EnsembleSteps:
    """One or more models during the search of a batch.

    Attributes:
        models: fairseq's or this package's
        decoders: the decoder of each
        output: turns the features of one model into its log-probabilities
        ensemble: combines the log-probabilities
        weights: of the models' attention; None: equal weights
        covering: the layers of each decoder that coverage counts; None: coverage is not requested
        fused: a language model; None: no fusion
        attended: whether the results include the attention
        neighbours: of each model; empty: predictions come from the models alone
    """

    models: Sequence[Any]
    decoders: Sequence[DecoderSteps]
    output: OutputSteps
    ensemble: Ensemble
    weights: Optional[Sequence[float]] = None
    covering: Optional[Sequence[Layers]] = None
    fused: "Optional[FusedModel]" = None
    attended: bool = True
    neighbours: Sequence[Neighbours] = ()

    def __call__(self, tokens: Tensor, step: Step) -> Prediction:
        """Predict the next token from the newest of each hypothesis, N x M."""
        log_probs = []
        for number, (model, decoder) in enumerate(zip(self.models, self.decoders)):
            states = decoder(tokens, step)
            predictions = self.output(model, states, decoder)
            log_probs.append(self.neighbours[number](predictions, states) if self.neighbours else predictions)
        attention = self._mean([decoder.attention(step) for decoder in self.decoders]) if self.attended else None
        covering = None
        if self.covering is not None:
            chosen = zip(self.decoders, self.covering)
            covering = self._mean([decoder.attention(step, layers) for decoder, layers in chosen])
        predicted = log_probs[0] if len(log_probs) == 1 else self.ensemble(log_probs)
        if self.fused is not None:
            self.fused.add(predicted, tokens, step)
        return Prediction(predicted, attention, covering)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """Continue with fewer sentences, as `DecoderSteps.keep`."""
        for decoder in self.decoders:
            decoder.keep(sentences, holes, movers)
        self.output.keep(sentences, holes, movers)
        if self.fused is not None:
            self.fused.keep(sentences, holes, movers)

    def _mean(self, attention: Sequence[Optional[Tensor]]) -> Optional[Tensor]:
        """Return the mean attention of the models that have attention."""
        weights = self.weights or [1.0] * len(attention)
        found = [(weight, values) for weight, values in zip(weights, attention) if values is not None and weight]
        if len(found) <= 1:
            return found[0][1] if found else None
        if self.weights is None:
            return torch.stack([values for _, values in found]).mean(0)
        return torch.stack([values * weight for weight, values in found]).sum(0) / sum(weight for weight, _ in found)
