"""A decoder that runs position by position for all hypotheses of a batch.

Twin: deepnmt/model/decoder.py

Shapes: N sentences of M hypotheses (1 in the first step, then the beam K); C channels in H heads; S source positions.
Rows are MN, hypothesis-major, inside; features leave as NM, sentence-major.
"""

import functools
from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from deepnmt.kernels.products import Product
from deepnmt.model.sublayers import BACKWARD_PADDING, BACKWARD_STATES
from deepnmt.model.transparent import part_of
from deepnmt.search.incremental.attention_steps import Memory, SelfAttentionSteps, Step
from deepnmt.search.incremental.dlcl_steps import HistorySteps
from deepnmt.search.incremental.layer_steps import LayerSteps, norm_function
from deepnmt.search.incremental.maps import Maps


class DecoderSteps:
    """One decoder during the search of one batch.

    Args:
        decoder: fairseq's or this package's
        encoder_out: the encoder's output
        beam: K
        longest: greatest number of steps
        maps: of the model
    """

    def __init__(self, decoder: Any, encoder_out: dict[str, list[Tensor]], beam: int, longest: int, maps: Maps) -> None:
        self.decoder, self.maps = decoder, maps
        heads = decoder.layers[0].nh
        source, padding = encoder_out["encoder_out"][0], encoder_out["encoder_padding_mask"][0]
        self.source, self.backward = Memory(source, padding, heads), None
        if BACKWARD_STATES in encoder_out:
            self.backward = Memory(encoder_out[BACKWARD_STATES][0], encoder_out[BACKWARD_PADDING][0], heads)
        ones = (1.0, 1.0, 1.0)
        skipping = getattr(decoder, "skipping", None)
        factors = [ones] * len(decoder.layers) if skipping is None else skipping.draw()
        self.layers: list[LayerSteps] = []
        sums = getattr(decoder, "sums", 0)
        for index, layer in enumerate(decoder.layers):
            below = self.layers[-1] if self.layers else None
            memory = self.source.with_states(part_of(source, index, sums)) if sums > 1 else self.source
            self.layers.append(LayerSteps(layer, maps, memory, self.backward, beam, factors[index], below))
        self.attends = any(isinstance(layer.self_attention, SelfAttentionSteps) for layer in self.layers)
        history = getattr(decoder, "history", None)
        self.history = HistorySteps(history) if history is not None else None
        self.norm = norm_function(decoder.layer_norm)
        self.embedded_positions: Optional[Tensor] = None  # 1 x longest x C
        if decoder.embed_positions is not None:
            # All hypotheses are equally long; fairseq only checks whether tokens are padding alone.
            self.embedded_positions = decoder.embed_positions(
                torch.full((1, longest), decoder.padding_idx + 1, device=source.device)
            )

    @functools.cached_property
    def vocabulary(self) -> Optional[Product]:
        """See `Maps.vocabulary`; the stored map is compared with the weights once per batch."""
        return self.maps.vocabulary(self.decoder.output_projection)

    def __call__(self, tokens: Tensor, step: Step) -> Tensor:
        """Return the features of one position, NM x C, sentence-major, for the newest tokens, N x M.

        The step's mask is N x M x KP.
        """
        x = self._embed(tokens.t().flatten(), step.position)
        step = step.for_heads(self.source, self.backward, x if self.attends else None)
        history = self.history
        if history is not None:
            history.start(x)
        for index, layer in enumerate(self.layers):
            x = layer(x if history is None else history.input(index, x), step)
        if history is not None:
            x = history.finish(x)
        if self.norm is not None:
            x = self.norm(x)
        x = x.view(step.hypotheses, step.sentences, -1).transpose(0, 1).flatten(0, 1)  # MN to NM
        projection: Any = self.decoder.project_out_dim
        return x if projection is None else projection(x)

    def attention(self, step: Step, layers: Sequence[int] = (-1,)) -> Optional[Tensor]:
        """Return the attention to the source in the last step, the mean of heads and layers: N x M x S.

        By default the last layer counts, as in fairseq. None: one of the layers has no cross-attention.
        """
        found = []
        for index in layers:
            attention = self.layers[index].source_attention
            if attention is None:
                return None
            weights = attention.weights.view(step.sentences, self.source.heads, step.hypotheses, -1)
            found.append(weights[..., : self.source.positions].mean(dim=1))
        return found[0] if len(found) == 1 else torch.stack(found).mean(0)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """Continue with fewer sentences.

        Args:
            sentences: their number
            holes: the places before `sentences` of finished sentences
            movers: the places from `sentences` on of unfinished sentences, which fill the holes
        """
        for part in (self.source, self.backward, *self.layers):
            if part is not None:
                part.keep(sentences, holes, movers)

    def _embed(self, tokens: Tensor, position: int) -> Tensor:
        """Return the embeddings, MN x C, of tokens, MN, hypothesis-major."""
        decoder = self.decoder
        x: Tensor = decoder.embed_scale * decoder.embed_tokens(tokens)
        if decoder.quant_noise is not None:
            x = decoder.quant_noise(x)
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if self.embedded_positions is not None:
            x = x + self.embedded_positions[:, position]
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        return x
