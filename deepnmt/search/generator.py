"""Beam search with the results of fairseq's `SequenceGenerator`, in less time.

    caches      keys and values are written where they stay; the source's are computed once (`incremental/`)
    first step  one hypothesis stands for all K
    candidates  the 2 K best of K V are found among the best blocks (`candidates.py`)
    sentences   those that are done leave the batch; the last ones move into their places (`hypotheses.py`)

The loop is in `beam.py`. `parts.py` assembles the parts that the options request: step rules (`constraints.py`,
`repetition.py`), scores (`scores.py`, `coverage.py`), stop rules (`stop_rules.py`), ensembles (`ensemble.py`), and
language model fusion (`fusion.py`). fairseq's search handles --sampling, groups (`diverse_groups.py`), constraints,
prefixes, and models other than the Transformer with cached attention.
"""

from typing import Any, Optional

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.kernels.fast_path import may_take
from deepnmt.kernels.malloc import keep_freed_memory
from deepnmt.search.beam import beam_search
from deepnmt.search.ensemble import EnsembleSteps
from deepnmt.search.fusion import FusedModel, longest
from deepnmt.search.hypotheses import Hypotheses, Hypothesis
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.incremental.listed_output import ListedOutput
from deepnmt.search.incremental.maps import maps_of
from deepnmt.search.incremental.output_steps import OutputSteps
from deepnmt.search.neighbours import read_neighbours
from deepnmt.search.options import SearchOptions
from deepnmt.search.parts import check_constraints, ensemble, longest_translation, search_parts
from deepnmt.search.shortlist import Shortlist
from deepnmt.search.supported import generator_obstacle, model_obstacle


class BeamGenerator(SequenceGenerator):  # type: ignore[misc]
    """fairseq's generator, with a beam search of its own if the options and the models allow it.

    The package's options are checked. With `attention`, hypotheses hold their attention to the source, as in fairseq.
    With a `shortlist`, each translation has the types of its sentence's list alone. If it `draws`, translations are
    samples. Commands with --sampling keep fairseq's search, whose random numbers differ.
    """

    def __init__(
        self,
        *args: Any,
        options: Optional[SearchOptions] = None,
        attention: bool = True,
        shortlist: Optional[Shortlist] = None,
        draws: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if self.lm_model is not None:
            self.max_len: int = min(self.max_len, longest(self.lm_model))
        self.options, self.attention, self.shortlist = options or SearchOptions(), attention, shortlist
        self.draws = draws
        self.ensemble = ensemble(self.options, len(self.model.models))
        self.neighbours = read_neighbours(self.options, self.model.models, self.vocab_size)
        self.output = OutputSteps(self.temperature, shared=len(self.model.models) == 1)

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> list[list[Hypothesis]]:
        """Called by fairseq's `generate` and `forward`."""
        if constraints is None and self.search.supports_constraints:
            raise UserError(
                "--constraints must be given to fairseq-interactive alone, which reads them with each line, or with "
                "--constraint-file"
            )
        if self.lm_model is not None:
            # A training builds its generator before the model is on its device.
            weights = next(self.model.parameters())
            self.lm_model.to(device=weights.device, dtype=weights.dtype)
        if "src_tokens" in sample["net_input"]:
            check_constraints(constraints, longest_translation(self, sample["net_input"]["src_tokens"]))
        obstacle = self._obstacle(sample["net_input"], prefix_tokens, constraints)
        asked = [*self.options.given(), *(["--shortlist"] if self.shortlist is not None else [])]
        # fairseq's search knows none of the package's options.
        if obstacle is None if asked else may_take("fast beam search", obstacle):
            found = self._search(sample["net_input"], self.eos if bos_token is None else bos_token)
            if found is not None:
                return found
            obstacle = "a log-probability is not a number"
        asked += ["--match-source-len"] if self.match_source_len else []
        if asked:
            raise UserError(f"{', '.join(asked)} cannot be used: {obstacle}")
        result: list[list[Hypothesis]] = super()._generate(sample, prefix_tokens, constraints, bos_token)
        return result

    def _obstacle(
        self, net_input: dict[str, Tensor], prefix_tokens: Optional[Tensor], constraints: Optional[Tensor]
    ) -> Optional[str]:
        """Return the reason for leaving the batch to fairseq's search, or None."""
        if prefix_tokens is not None:
            return "translations have a given prefix"
        if constraints is not None:
            return "translations have constraints"
        if "src_tokens" not in net_input:
            return "the source is no text"
        obstacles = (generator_obstacle(self), *map(model_obstacle, self.model.models))
        return next((obstacle for obstacle in obstacles if obstacle is not None), None)

    def _search(self, net_input: dict[str, Tensor], bos: int) -> Optional[list[list[Hypothesis]]]:
        """Return the finished hypotheses, or None if a log-probability is not a number, which fairseq can treat."""
        source, beam = net_input["src_tokens"], self.beam_size
        if source.device.type == "cpu":
            keep_freed_memory()
        parts = search_parts(self, self.options, source)
        models, outputs = self.model.models, self.model.forward_encoder(net_input)
        decoders = [
            DecoderSteps(model.decoder, out, beam, parts.longest + 1, maps_of(model))
            for model, out in zip(models, outputs)
        ]
        fused = None
        if self.lm_model is not None and self.lm_weight:
            fused = FusedModel(self.lm_model, self.lm_weight, source, beam, parts.longest + 1)
        first = torch.full((len(source),), bos, device=source.device)
        hypotheses = Hypotheses(
            first, beam, parts.longest, self.eos, parts.score, parts.coverage, longest_of=parts.longest_of
        )
        covering = None
        if parts.coverage is not None:
            covering = [self.options.layers(len(decoder.layers)) for decoder in decoders]
        listed = None if self.shortlist is None else ListedOutput(self.shortlist, source, models, self.temperature)
        types = self.vocab_size if listed is None else listed.width
        # In short steps, calls take two fifths of the time; this makes them cheaper. The results are tensors as usual.
        with torch.inference_mode():
            weights = self.options.weights()
            steps = EnsembleSteps(
                models,
                decoders,
                listed or self.output,
                self.ensemble,
                weights,
                covering,
                fused,
                attended=self.attention,
                neighbours=self.neighbours,
            )
            found = beam_search(steps, hypotheses, parts.rules, parts.stop, types, listed, self.draws)
        return hypotheses.best() if found else None
