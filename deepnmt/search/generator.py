"""Beam search with the results of fairseq's `SequenceGenerator`, in less time.

    caches      keys and values are written where they stay; the source's are computed once (`incremental/`)
    first step  one hypothesis stands for all K
    candidates  the 2 K best of K V are found among the best blocks (`candidates.py`)
    sentences   those that are done leave the batch; the last ones move into their places (`hypotheses.py`)

The loop is `beam.py`; its parts are step rules (`constraints.py`), scores (`scores.py`), and ensembles (`ensemble.py`).
Sampling, constraints, prefixes, language models, and models other than the Transformer with cached attention are left
to fairseq's search.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from deepnmt.kernels.fast_path import may_take
from deepnmt.kernels.malloc import keep_freed_memory
from deepnmt.search.beam import beam_search
from deepnmt.search.constraints import Forbidden, LengthRange, StepRule, UnknownPenalty
from deepnmt.search.ensemble import EnsembleSteps, MeanProbability
from deepnmt.search.hypotheses import Hypotheses, Hypothesis
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.incremental.output_steps import OutputSteps
from deepnmt.search.scores import HypothesisScore, PowerNormalized, Unnormalized
from deepnmt.search.supported import generator_obstacle, model_obstacle


class BeamGenerator(SequenceGenerator):  # type: ignore[misc]
    """fairseq's generator, with a beam search of its own where the options and the models allow it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.output = OutputSteps(self.temperature, shared=len(self.model.models) == 1)

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> list[list[Hypothesis]]:
        """Called by fairseq's `generate` and `forward`."""
        if may_take("fast beam search", self._obstacle(sample["net_input"], prefix_tokens, constraints)):
            found = self._search(sample["net_input"], self.eos if bos_token is None else bos_token)
            if found is not None:
                return found
        result: list[list[Hypothesis]] = super()._generate(sample, prefix_tokens, constraints, bos_token)
        return result

    def _obstacle(
        self, net_input: dict[str, Tensor], prefix_tokens: Optional[Tensor], constraints: Optional[Tensor]
    ) -> Optional[str]:
        """Return why the batch is left to fairseq's search, or None."""
        if prefix_tokens is not None:
            return "translations have a given prefix"
        if constraints is not None:
            return "translations have constraints"
        if "src_tokens" not in net_input:
            return "the source is no text"
        obstacles = (generator_obstacle(self), *map(model_obstacle, self.model.models))
        return next((obstacle for obstacle in obstacles if obstacle is not None), None)

    def _search(self, net_input: dict[str, Tensor], bos: int) -> Optional[list[list[Hypothesis]]]:
        """Return the finished hypotheses, or None where a log-probability is not a number, which fairseq can treat."""
        source = net_input["src_tokens"]
        if source.device.type == "cpu":
            keep_freed_memory()
        longest = min(int(self.max_len_a * source.size(1) + self.max_len_b), self.max_len - 1)
        assert self.min_len <= longest, "min_len cannot be larger than max_len, please adjust these!"
        models, outputs = self.model.models, self.model.forward_encoder(net_input)
        decoders = [
            DecoderSteps(model.decoder, out, self.beam_size, longest + 1) for model, out in zip(models, outputs)
        ]
        first = torch.full((len(source),), bos, device=source.device)
        hypotheses = Hypotheses(first, self.beam_size, longest, self.eos, self._score())
        # Of short steps, two fifths of the time are calls, which this makes cheaper. The results are tensors as usual.
        with torch.inference_mode():
            steps = EnsembleSteps(models, decoders, self.output, MeanProbability())
            found = beam_search(steps, hypotheses, self._rules(longest), self.vocab_size)
        return hypotheses.best() if found else None

    def _score(self) -> HypothesisScore:
        """Return the score that the options ask for."""
        return PowerNormalized(self.len_penalty) if self.normalize_scores else Unnormalized()

    def _rules(self, longest: int) -> list[StepRule]:
        """Return the rules that the options ask for."""
        rules: list[StepRule] = [Forbidden(self.pad)]
        if self.unk_penalty:
            rules.append(UnknownPenalty(self.unk, self.unk_penalty))
        rules.append(LengthRange(self.eos, self.min_len, longest))
        if self.token_indices_to_suppress is not None:
            rules.append(Forbidden(self.token_indices_to_suppress))
        return rules
