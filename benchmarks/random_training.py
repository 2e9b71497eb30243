"""fairseq's trainer on random sentence pairs whose lengths are distributed as in Multi30k: updates without a corpus.

The cost of an update depends on the lengths of a batch's sentences, not on their words. Multi30k's lengths are nearly
log-normal: with 10,000 joint merges the mean is 13.7 subwords, the logarithm's standard deviation 0.32. The logarithm
of target over source length has a standard deviation of 0.17. In batches of 4,096 tokens, 12 % of the target positions
are padding (Multi30k: 10 %), and half a per cent of the source's (0.6 %).
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from random_model import EOS, FIRST, TYPES, dictionary
from torch import Tensor

PAIRS, LONGEST = 29_000, 48
MEAN, SPREAD, RATIO = 13.7, 0.32, 0.17
OPTIONS = [
    "--task", "translation", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.005",
    "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "2000", "--label-smoothing", "0.1", "--num-workers", "0",
    "--share-all-embeddings", "--seed", "1", "--source-lang", "de", "--target-lang", "en",
]  # fmt: skip
STOCK = ["--arch", "transformer", "--criterion", "label_smoothed_cross_entropy"]
PLUGIN = ["--arch", "dlcl_transformer", "--criterion", "label_smoothed_cross_entropy_fused"]


class Training(NamedTuple):
    """A trainer, its task and its options, and the batches of the first updates."""

    trainer: Any
    task: Any
    cfg: Any
    batches: list[Any]


def training(arguments: Sequence[str], batches: int, plugin: bool) -> Training:
    """A new training with further options; the plug-in is registered if it is asked for, and for good."""
    warnings.simplefilter("ignore")

    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.tasks.translation import TranslationTask
    from fairseq.trainer import Trainer

    if plugin:
        import deepnmt

        deepnmt.register()
    logging.disable(logging.INFO)
    given = ["data", *OPTIONS, *(PLUGIN if plugin else STOCK), *arguments]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), given))
    cfg.common.tpu = False  # fairseq takes --bf16 for a TPU
    words = dictionary()
    task = TranslationTask(cfg.task, words, words)
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    task.datasets["train"] = pairs(words)
    iterator = trainer.get_train_iterator(epoch=1, load_dataset=False).next_epoch_itr()
    return Training(trainer, task, cfg, [next(iterator) for _ in range(batches)])


def sizes(encoder: int, decoder: int, width: int, heads: int = 4) -> list[str]:
    """Options of both stacks; their inner width is twice the width."""
    shape = {"embed-dim": width, "ffn-embed-dim": 2 * width, "attention-heads": heads}
    options = [f"--{stack}-{key}={value}" for stack in ("encoder", "decoder") for key, value in shape.items()]
    return [f"--encoder-layers={encoder}", f"--decoder-layers={decoder}", *options]


def pairs(words: Any) -> Any:
    """A training set in this dictionary of `TYPES` types, the same in every process."""
    from fairseq.data import LanguagePairDataset

    draw = torch.Generator().manual_seed(1)
    source = torch.randn(PAIRS, generator=draw) * SPREAD + math.log(MEAN) - SPREAD**2 / 2
    target = source + torch.randn(PAIRS, generator=draw) * RATIO
    sides = [_sentences(logarithms, draw) for logarithms in (source, target)]
    (sources, lengths), (targets, target_lengths) = sides
    return LanguagePairDataset(sources, lengths, words, targets, target_lengths, words)


def _sentences(logarithms: Tensor, draw: torch.Generator) -> tuple[tuple[Tensor, ...], Any]:
    """Sentences with these logarithms of their lengths, and the lengths with the end symbol."""
    lengths = logarithms.exp().round().long().clamp(1, LONGEST) + 1
    tokens = torch.randint(FIRST, TYPES, (int(lengths.sum()),), generator=draw)
    tokens[lengths.cumsum(0) - 1] = EOS
    return tokens.split(lengths.tolist()), lengths.numpy()
