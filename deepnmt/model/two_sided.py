"""A decoder that sees both sides of the word that it writes (Zhang 2018, AAAI, arXiv 1801.05122).

    backward decoder:   y' = greedy translation, from its last word to its first;  H' = the states that wrote it
    forward decoder:    F(x) = Att_source(x, E) + Att_backward(x, H')   in the cross-attention's sublayer         (36)

The backward decoder first translates a sentence. The forward decoder then attends to the states of that translation, in
training too: the states of the reference would reveal the next word. The states are computed once more from the
translation, all positions at a time. Gradients thus flow through them, but not through the choice of words.

The encoder owns the backward decoder, and its output includes the states: every search or scoring passes them on with
the rest. With an output projection of zeros in Att_backward, the model is the plain one.

Shapes: S x B x C is source positions, batch, channels; T target positions; L longest translation, end symbol included.
"""

from typing import Any, Optional

import torch
from torch import Tensor

from deepnmt.kernels.reversal import reversed_words
from deepnmt.model.decoder import DeepDecoder
from deepnmt.model.encoder import DeepEncoder
from deepnmt.model.sublayers import BACKWARD_PADDING, BACKWARD_STATES

# A backward translation has at most A words for each of its source, and B more. The rule is its own: neither the
# reference nor the other sentences of a batch may matter.
LONGEST_A, LONGEST_B = 2, 10


class TwoSidedEncoder(DeepEncoder):
    """The encoder, and the backward decoder's translation of its input.

    Attributes:
        backward_decoder: with the options of the forward decoder, whose embedding table it shares
    """

    backward_decoder: DeepDecoder

    def forward_scriptable(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
    ) -> dict[str, list[Tensor]]:
        """Return the plain encoder's results, and the backward states, L x B x C, with their padding, B x L."""
        found = super().forward_scriptable(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
        words = src_tokens.ne(self.padding_idx).sum(1) - 1  # without the end symbol
        decoder = self.backward_decoder
        longest = (LONGEST_A * words + LONGEST_B).clamp(max=int(decoder.max_positions()) - 1)
        tokens = greedy_translation(decoder, found, longest)
        states, _ = decoder.extract_features(tokens, encoder_out=found)
        return {**found, BACKWARD_STATES: [states.transpose(0, 1)], BACKWARD_PADDING: [tokens.eq(self.padding_idx)]}

    def backward_output(self, prev_output_tokens: Tensor, encoder_out: Any, features_only: bool = False) -> Tensor:
        """Return the backward decoder's logits, B x T x V, or features, B x T x C, for the reversed reference.

        `prev_output_tokens` are the forward decoder's, B x T.
        """
        decoder = self.backward_decoder
        tokens = reversed_words(prev_output_tokens, decoder.dictionary.eos(), self.padding_idx)
        output: Tensor = decoder(tokens, encoder_out=encoder_out, features_only=features_only)[0]
        return output


@torch.no_grad()
def greedy_translation(decoder: DeepDecoder, encoder_out: dict[str, list[Tensor]], longest: Tensor) -> Tensor:
    """Return the most probable token after token, B x L: the end symbol first, padding after the last word.

    Each translation has at most `longest` words, B. The dropout of a decoder in training rests meanwhile.
    """
    eos, pad, training = decoder.dictionary.eos(), decoder.dictionary.pad(), decoder.training
    decoder.eval()
    tokens = longest.new_full((len(longest), 1), eos)
    done = torch.zeros_like(longest, dtype=torch.bool)
    state: dict[str, dict[str, Optional[Tensor]]] = {}
    try:
        while not bool(done.all()):
            # Tokens after the end of a translation are not read again.
            before = tokens.masked_fill(tokens.eq(pad), eos)
            logits = decoder(before, encoder_out=encoder_out, incremental_state=state)[0][:, -1]
            logits[:, pad] = -torch.inf
            best = logits.argmax(1)
            done |= best.eq(eos) | (longest < tokens.size(1))
            tokens = torch.cat([tokens, best.masked_fill(done, pad).unsqueeze(1)], dim=1)
    finally:
        decoder.train(training)
    return tokens[:, :-1]  # in the last step, all translations end
