"""Updates of Transformer-Tiny on Multi30k against those of fairseq's own model and criterion: speed and memory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import DATA, Row, Step, compare, interleaved, main, megabytes, note, peak_memory

STACK = {"layers": "4", "embed-dim": "128", "ffn-embed-dim": "256", "attention-heads": "4"}
OPTIONS = [
    *(f"--{stack}-{key}={value}" for stack in ("encoder", "decoder") for key, value in STACK.items()),
    "--cpu", "--task", "translation", "--share-all-embeddings", "--dropout", "0.3",
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.005", "--lr-scheduler", "inverse_sqrt",
    "--warmup-updates", "2000", "--label-smoothing", "0.1", "--max-tokens", "4096", "--num-workers", "0", "--seed", "1",
]  # fmt: skip
CASES = {
    "fairseq": ["--arch", "transformer", "--criterion", "label_smoothed_cross_entropy"],
    "deepnmt": [
        "--arch", "dlcl_transformer", "--encoder-groups", "none", "--decoder-groups", "none", "--fast-dropout",
        "--criterion", "label_smoothed_cross_entropy_fused",
    ],
}  # fmt: skip


def updates(data: str, case: str, batches: int) -> Step:
    """A step that makes so many updates, of the same batches each time.

    Args:
        data: folder of binarised data
        case: a key of `CASES`
        batches: how many
    """
    import logging

    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.trainer import Trainer

    import deepnmt  # noqa: F401  registers its model and criterion

    logging.disable(logging.INFO)
    arguments = [data, *OPTIONS, *CASES[case]]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
    task = tasks.setup_task(cfg.task)
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    task.load_dataset("train")
    iterator = trainer.get_train_iterator(epoch=1, load_dataset=False).next_epoch_itr()
    chosen: list[Any] = [next(iterator) for _ in range(batches)]

    def step() -> None:
        for batch in chosen:
            trainer.train_step([batch])

    return step


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    if not Path(options.data, "dict.en.txt").is_file():
        raise SystemExit(
            f"--data must be a folder of binarised Multi30k (see benchmarks/run.sh), but is {options.data}"
        )
    steps = {case: updates(options.data, case, options.batches) for case in CASES}
    note(f"tiny_step: timing {options.repetitions} repetitions of {len(steps)} cases, {options.batches} updates each")
    timings = interleaved(steps, options.repetitions)
    steps.clear()
    what = "Transformer-Tiny (4 + 4, width 128), Multi30k, 4,096 tokens, dropout 0.3"
    yield compare(f"updates per second, deepnmt / fairseq, {what}", ">= 2.0", timings, "fairseq", "deepnmt")
    note("tiny_step: memory")
    peak = {case: peak_memory(updates, options.data, case, 1) for case in CASES}
    detail = ", ".join(f"{case} {megabytes(size)}" for case, size in peak.items())
    yield Row("peak memory of an update, the same", peak["deepnmt"] / peak["fairseq"], "<= 0.6", detail)


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--data", default=str(DATA), help="binarised Multi30k (default: $DATA or that of the example)")
    parser.add_argument("--batches", type=int, default=4, help="updates in a repetition (default: 4)")


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
