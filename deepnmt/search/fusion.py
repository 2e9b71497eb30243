"""Fusion with a language model of the target language (Gulcehre 2015, arXiv 1503.03535).

    log P(y_j | y_<j, x) + l log P_LM(y_j | y_<j)                                                      (32)

The model's keys and values stay cached while a sentence is searched, like the translation model's.

Shapes: N sentences of M hypotheses; V types in W columns; C channels. Rows are sentence-major.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary
from fairseq.models import FairseqLanguageModel
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.search.incremental.attention_steps import Step
from deepnmt.search.incremental.decoder_steps import DecoderSteps
from deepnmt.search.incremental.maps import maps_of
from deepnmt.search.incremental.output_steps import OutputSteps
from deepnmt.text.dictionary import LM_DICTIONARY, other_types


class FusedModel:
    """A language model of weight l during the search of one batch of N sources: beam K, limited number of steps."""

    def __init__(self, model: Any, weight: float, source: Tensor, beam: int, longest: int) -> None:
        self.model, self.weight = model, weight
        width = model.decoder.embed_tokens.weight.new_zeros(1, len(source), 1)
        nothing = {"encoder_out": [width], "encoder_padding_mask": [source.new_zeros(len(source), 1)]}
        self.decoder = DecoderSteps(model.decoder, nothing, beam, longest, maps_of(model))
        self.output = OutputSteps(1.0, shared=True)  # the temperature is the translation model's

    def add(self, log_probs: Tensor, tokens: Tensor, step: Step) -> None:
        """Add the model's log-probabilities of the next token to the translation model's, NM x W, in place."""
        log_probs.add_(self.output(self.model, self.decoder(tokens, step), self.decoder), alpha=self.weight)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """As `DecoderSteps.keep`."""
        self.decoder.keep(sentences, holes, movers)


def longest(model: Any) -> int:
    """Return how many tokens, the end symbol included, a language model can read: its number of positions."""
    positions = model.decoder.embed_positions
    return int(positions.max_positions) if isinstance(positions, LearnedPositionalEmbedding) else sys.maxsize


def option_faults(args: Any, model: Optional[Any], dictionary: Dictionary) -> Iterator[str]:
    """Yield each fault of a language model, if one is given, and of the fairseq options that belong to it.

    Missing options have their defaults; the dictionary belongs to the target language.
    """
    weight = getattr(args, "lm_weight", 0.0)
    if model is None:
        if weight:
            yield f"--lm-weight {weight} needs --lm-path"
        return
    if not 0 <= weight < math.inf:
        yield f"--lm-weight: must be at least 0, but is {weight}"
    if getattr(args, "score_reference", False):
        yield "--lm-path cannot be combined with --score-reference"
    if not isinstance(model, FairseqLanguageModel):
        yield f"--lm-path: must be a language model, but is a {type(model).__name__}"
        return
    own = model.decoder.dictionary
    if len(own) != len(dictionary):
        yield f"--lm-path: must be of the target's dictionary, {len(dictionary)} types, but is of {len(own)} types"
    elif fault := other_types(dictionary.symbols, own.symbols):
        yield f"--lm-path: must be of the target's dictionary, {fault}"


def load_language_model(path: str, data: str, like: Tensor) -> Any:
    """Return the language model of a checkpoint, on the device and in the type of `like`.

    The first of the translation's data folders may have the dictionary.

    Raises:
        UserError: the checkpoint or its dictionary cannot be read, or it was trained with other subwords
    """
    # With this package, fairseq looks for the dictionary by `dictionary_folder`.
    (model,), _ = checkpoint_utils.load_model_ensemble([path], arg_overrides={"data": data})
    return model.to(like.device, like.dtype)


def dictionary_folder(path: str, data: str) -> str:
    """Return the folder with a language model's dictionary: its checkpoint's, or the first of `data`.

    Raises:
        UserError: neither has one
    """
    folders = [str(Path(path).parent), *utils.split_paths(data)[:1]]
    for folder in folders:
        if (Path(folder) / LM_DICTIONARY).is_file():
            return str(folder)
    raise UserError(
        f"--lm-path: {LM_DICTIONARY}, the dictionary of the language model, must be in {' or '.join(folders)}, "
        "but is not"
    )
