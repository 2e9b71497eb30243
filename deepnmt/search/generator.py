"""Beam search with the results of fairseq's `SequenceGenerator`, in less time.

Shapes: N sentences of M hypotheses (1 in the first step, then the beam K); V types in W columns; n candidates.

    caches      keys and values are written where they stay; the source's are computed once (`attention.py`)
    first step  one hypothesis stands for all K
    candidates  the 2 K best of K V are found among the best blocks (`candidates.py`)
    sentences   those that are done leave the batch; the last ones move into their places (`hypotheses.py`)

What it does not do itself it leaves to fairseq's: sampling, constraints, prefixes, language models, models other than
the Transformer with cached attention.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from deepnmt.kernels.malloc import keep_freed_memory
from deepnmt.search.candidates import best_candidates, whole_blocks
from deepnmt.search.hypotheses import Hypotheses, Hypothesis
from deepnmt.search.incremental.attention_steps import Step
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.supported import supported


class BeamGenerator(SequenceGenerator):  # type: ignore[misc]
    """fairseq's generator, with a beam search of its own where the options and the models allow it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plain = (
            type(self.search) is search.BeamSearch
            and self.lm_model is None
            and self.repeat_ngram_blocker is None
            and not self.match_source_len
        )
        self.scratch = torch.empty(0)

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> list[list[Hypothesis]]:
        """Called by fairseq's `generate` and `forward`."""
        if (
            self.plain
            and prefix_tokens is None
            and constraints is None
            and "src_tokens" in sample["net_input"]
            and all(supported(model) for model in self.model.models)
        ):
            found = self._search(sample["net_input"], self.eos if bos_token is None else bos_token)
            if found is not None:
                return found
        result: list[list[Hypothesis]] = super()._generate(sample, prefix_tokens, constraints, bos_token)
        return result

    def _search(self, net_input: dict[str, Tensor], bos: int) -> Optional[list[list[Hypothesis]]]:
        """The finished hypotheses; None where a log-probability is not a number, which fairseq's search can treat."""
        source = net_input["src_tokens"]
        beam = self.beam_size
        if source.device.type == "cpu":
            keep_freed_memory()
        max_len = min(int(self.max_len_a * source.size(1) + self.max_len_b), self.max_len - 1)
        assert self.min_len <= max_len, "min_len cannot be larger than max_len, please adjust these!"
        outputs = self.model.forward_encoder(net_input)
        decoders = [
            DecoderSteps(model.decoder, out, beam, max_len + 1) for model, out in zip(self.model.models, outputs)
        ]
        first = torch.full((len(source),), bos, device=source.device)
        hypotheses = Hypotheses(first, beam, max_len + 2, self.eos, self.normalize_scores, self.len_penalty)
        # Of short steps, two fifths of the time are calls, which this makes cheaper. The results are tensors as usual.
        with torch.inference_mode():
            found = self._steps(decoders, hypotheses, max_len)
        return hypotheses.best() if found else None

    def _steps(self, decoders: list[DecoderSteps], hypotheses: Hypotheses, max_len: int) -> bool:
        """Search until all sentences are done; False where a log-probability is not a number."""
        beam = self.beam_size
        for number in range(max_len + 1):
            step = Step(
                number, hypotheses.count, beam if number else 1, hypotheses.mask(number), parents=hypotheses.parents
            )
            log_probs = self._log_probs(decoders, hypotheses, step)
            self._constrain(log_probs, number, max_len)
            # One less than there are, since pad is never chosen.
            most = min(2 * beam, step.hypotheses * self.vocab_size - 1)
            sums, tokens, places = best_candidates(
                log_probs, hypotheses.last_sums(number), hypotheses.count, self.vocab_size, most
            )
            if bool(sums.isnan().any()):
                return False
            ending = tokens.eq(self.eos) & sums.ne(-math.inf)
            if hypotheses.ignored is not None:
                ending[:, :beam] &= ~hypotheses.ignored
            now = ending[:, :beam]
            if bool(now.any()):
                done = hypotheses.finish(number, now, places[:, :beam], sums[:, :beam], last=number == max_len)
                if bool(done.all()):
                    return True
                if bool(done.any()):
                    left, holes, movers = hypotheses.remove(done)
                    for decoder in decoders:
                        decoder.keep(hypotheses.count, holes, movers)
                    sums, tokens, places, ending = (kept[left] for kept in (sums, tokens, places, ending))
            assert number < max_len, f"{number} < {max_len}"
            if hypotheses.ignored is not None:
                ending[:, :beam] |= hypotheses.ignored
            hypotheses.advance(number, sums, tokens, places, ending)
        raise AssertionError("the last step ends the search")

    def _log_probs(self, decoders: list[DecoderSteps], hypotheses: Hypotheses, step: Step) -> Tensor:
        """NM x W in float32, the mean probability of the models; their attention is recorded."""
        tokens = hypotheses.last_tokens(step.position)
        log_probs: list[Tensor] = []
        attention: list[Tensor] = []
        for model, decoder in zip(self.model.models, decoders):
            log_probs.append(self._output(model, decoder(tokens, step)))
            weights = decoder.attention(step)
            if weights is not None:
                attention.append(weights)
        if attention:
            mean = attention[0] if len(attention) == 1 else torch.stack(attention).mean(0)
            hypotheses.record_attention(step.position, mean)
        if len(log_probs) == 1:
            return log_probs[0]
        return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))

    def _output(self, model: Any, features: Tensor) -> Tensor:
        """NM x W from features NM x C, -inf from column V on."""
        projection = model.decoder.output_projection
        on_cpu = features.device.type == "cpu" and features.dtype == torch.float32
        if type(projection) is not nn.Linear or len(self.model.models) > 1 or not on_cpu:
            logits = model.decoder.output_layer(features.unsqueeze(1)).div_(self.temperature)
            result: Tensor = model.get_normalized_probs((logits, None), log_probs=True)[:, -1]
            types = result.size(1)
            return F.pad(result, (0, whole_blocks(types) - types), value=-math.inf)
        log_probs = self._scratch(len(features), projection.weight)
        logits = log_probs[:, : len(projection.weight)]
        log_probs[:, len(projection.weight) :] = -math.inf
        torch.mm(features, projection.weight.t(), out=logits)
        if projection.bias is not None:
            logits += projection.bias
        if self.temperature != 1.0:
            logits /= self.temperature
        return torch.log_softmax(log_probs, -1, out=log_probs)

    def _scratch(self, rows: int, weight: Tensor) -> Tensor:
        """Rows x W: the largest tensor of a step, for which new memory would cost much of it."""
        size = rows * whole_blocks(len(weight))
        if self.scratch.numel() < size:
            self.scratch = weight.new_empty(size)
        return self.scratch[:size].view(rows, -1)

    def _constrain(self, log_probs: Tensor, step: int, max_len: int) -> None:
        """fairseq's rules on what may come next, in place."""
        log_probs[:, self.pad] = -math.inf
        if self.unk_penalty:
            log_probs[:, self.unk] -= self.unk_penalty
        if step >= max_len:
            log_probs[:, : self.eos] = -math.inf
            log_probs[:, self.eos + 1 :] = -math.inf
        elif step < self.min_len:
            log_probs[:, self.eos] = -math.inf
        if self.token_indices_to_suppress is not None:
            log_probs[:, self.token_indices_to_suppress] = -math.inf
