"""DLCL and group-dense connections against the plain stack: time and memory of the encoder's forward and backward."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import torch
from common import Row, Step, compare, interleaved, main, megabytes, note, peak_memory

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel

WIDTH, INNER, HEADS = 512, 2048, 8
SENTENCES, LENGTH = 32, 32
TYPES = 1000
CONNECTIONS = {"plain": "none", "DLCL": "1", "p=6": "6"}


def encoder_step(groups: str, layers: int, norm: str, keep_gradients: bool) -> Step:
    """Forward and backward of an encoder, 1,024 tokens, no dropout.

    Args:
        groups: --encoder-groups
        layers: --encoder-layers
        norm: --encoder-norm
        keep_gradients: add to the gradients of the step before, so that memory shows the activations alone
    """
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for index in range(TYPES):
        dictionary.add_symbol(str(index))
    config = DLCLTransformerConfig(
        encoder_layers=layers,
        encoder_embed_dim=WIDTH,
        encoder_ffn_embed_dim=INNER,
        encoder_attention_heads=HEADS,
        encoder_norm=norm,
        encoder_groups=groups,
        decoder_layers=1,
        decoder_groups="none",
        decoder_embed_dim=WIDTH,
        dropout=0.0,
    )
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(1)
    encoder = DLCLTransformerModel.build_model(config, task).encoder.train()
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (SENTENCES, LENGTH))
    gradient = torch.randn(LENGTH, SENTENCES, WIDTH)

    def step() -> None:
        if not keep_gradients:
            encoder.zero_grad(set_to_none=True)
        encoder(tokens)["encoder_out"][0].backward(gradient)

    return step


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    norm = options.norm
    what = f"{norm}-norm encoder, width {WIDTH}, {SENTENCES * LENGTH} tokens, float32"
    steps = {name: encoder_step(groups, 48, norm, False) for name, groups in CONNECTIONS.items()}
    note(f"history: timing {options.repetitions} repetitions of {len(steps)} cases")
    timings = interleaved(steps, options.repetitions)
    steps.clear()
    yield compare(f"time, 48 layers, DLCL / plain, {what}", "<= 1.05", timings, "DLCL", "plain")
    yield compare("time, 48 layers, group-dense p=6 / plain, the same", "<= 1.01", timings, "p=6", "plain")
    for layers in options.depths:
        note(f"history: memory at {layers} layers")
        peak = {name: peak_memory(encoder_step, groups, layers, norm, True) for name, groups in CONNECTIONS.items()}
        for name, other in (("DLCL", ""), ("p=6", "")):
            detail = f"{name} {megabytes(peak[name])}, plain {megabytes(peak['plain'])}"
            target = {"DLCL": "<= 1.10", "p=6": "<= 1.01"}[name] + other
            yield Row(f"peak memory, {layers} layers, {name} / plain", peak[name] / peak["plain"], target, detail)


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--norm", default="pre", choices=["pre", "post"], help="of the encoder (default: pre)")
    parser.add_argument("--depths", type=int, nargs="*", default=[48], help="at which memory is measured (48)")


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
