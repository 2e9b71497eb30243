"""Relative positions against absolute ones: time and memory of forward and backward of encoder and decoder."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

import torch
from common import Row, Step, compare, interleaved, main, megabytes, note, peak_memory
from fairseq.data import Dictionary
from torch import Tensor

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel

WIDTH, INNER, HEADS, LAYERS = 512, 2048, 8, 6
TYPES = 1000
MAX_LENGTH = 8
LENGTHS = ((10, 22), (23, 35), (36, 48), (49, 60))  # of the sentences of a batch, as batches of similar length are
TOKENS = 1024  # of a batch, padding counted


def sentences(shortest: int, longest: int, pad: int, first: int, last: int) -> Tensor:
    """B x T random types, ends padded, at most `TOKENS` of them."""
    lengths = torch.randint(shortest, longest + 1, (TOKENS // longest,))
    lengths[0] = longest
    tokens = torch.randint(first, last, (len(lengths), longest))
    return tokens.masked_fill(torch.arange(longest) >= lengths.unsqueeze(1), pad)


def model_step(max_length: int) -> Step:
    """Forward and backward of a batch of each of `LENGTHS`, up to the decoder's features, no dropout.

    Args:
        max_length: r of both stacks; 0: no relative positions
    """
    dictionary = Dictionary()
    for index in range(TYPES):
        dictionary.add_symbol(str(index))
    stacks = ("encoder", "decoder")
    sizes = {"embed_dim": WIDTH, "ffn_embed_dim": INNER, "attention_heads": HEADS, "layers": LAYERS, "groups": "none"}
    config = DLCLTransformerConfig(
        **{f"{stack}_{name}": value for stack in stacks for name, value in sizes.items()},
        **{f"{stack}_max_relative_length": max_length for stack in stacks},
        dropout=0.0,
    )
    torch.manual_seed(1)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = DLCLTransformerModel.build_model(config, task).train()
    ends = dictionary.pad(), dictionary.nspecial, len(dictionary)
    batches = [(sentences(*lengths, *ends), sentences(*lengths, *ends)) for lengths in LENGTHS]

    def step() -> None:
        for source, target in batches:
            features, _ = model(source, source.ne(dictionary.pad()).sum(1), target, features_only=True)
            features.sum().backward()

    return step


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    what = f"relative (r={MAX_LENGTH}, keys and values) / absolute, {LAYERS}+{LAYERS} layers, width {WIDTH}"
    what += ", sentences of 10 to 60 tokens"
    cases = {"relative": MAX_LENGTH, "absolute": 0}
    note(f"relative_position: timing {options.repetitions} repetitions of {len(cases)} cases")
    timings = interleaved({name: model_step(length) for name, length in cases.items()}, options.repetitions)
    yield compare(f"time, {what}", "<= 1.15", timings, "relative", "absolute")
    peak = {name: peak_memory(model_step, length) for name, length in cases.items()}
    detail = ", ".join(f"{name} {megabytes(size)}" for name, size in peak.items())
    yield Row("peak memory, the same", peak["relative"] / peak["absolute"], "", detail)


if __name__ == "__main__":
    main(__doc__ or "", measure)
