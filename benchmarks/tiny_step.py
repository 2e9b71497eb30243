"""Updates of Transformer-Tiny on Multi30k against those of fairseq's own model and criterion: speed and memory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common import DATA, Row, Step, compare, in_process, interleaved, main, megabytes, note, peak_memory

STACK = {"layers": "4", "embed-dim": "128", "ffn-embed-dim": "256", "attention-heads": "4"}
OPTIONS = [
    *(f"--{stack}-{key}={value}" for stack in ("encoder", "decoder") for key, value in STACK.items()),
    "--cpu", "--task", "translation", "--share-all-embeddings", "--dropout", "0.3",
    "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "0.005", "--lr-scheduler", "inverse_sqrt",
    "--warmup-updates", "2000", "--label-smoothing", "0.1", "--max-tokens", "4096", "--num-workers", "0", "--seed", "1",
]  # fmt: skip
PLUGIN = [
    "--arch", "dlcl_transformer", "--encoder-groups", "none", "--decoder-groups", "none", "--fast-dropout",
    "--criterion", "label_smoothed_cross_entropy_fused",
]  # fmt: skip
STOCK = ["--arch", "transformer", "--criterion", "label_smoothed_cross_entropy"]
# What the plug-in tells the C library by itself.
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1000000000000", "MALLOC_TOP_PAD_": "100000000"}


def updates(data: str, case: str, batches: int, more: Sequence[str] = ()) -> Step:
    """A step that makes so many updates, of the same batches each time.

    Args:
        data: folder of binarised data
        case: "fairseq", which does without the plug-in, or "deepnmt"
        batches: how many
        more: further options, which win
    """
    import logging
    import warnings

    warnings.simplefilter("ignore")

    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.trainer import Trainer

    if case == "deepnmt":
        import deepnmt  # noqa: F401  registers its model and criterion

    logging.disable(logging.INFO)
    arguments = [data, *OPTIONS, *(PLUGIN if case == "deepnmt" else STOCK), *more]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
    task = tasks.setup_task(cfg.task)
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    task.load_dataset("train")
    iterator = trainer.get_train_iterator(epoch=1, load_dataset=False).next_epoch_itr()
    chosen: list[Any] = [next(iterator) for _ in range(batches)]
    note(f"tiny_step: {case} has {sum(batch['ntokens'] for batch in chosen)} target tokens in {batches} batches")

    def step() -> None:
        for batch in chosen:
            trainer.train_step([batch])

    return step


def check_data(data: str) -> None:
    """Stop if a folder has no data."""
    if not Path(data, "dict.en.txt").is_file():
        raise SystemExit(f"--data must be a folder of binarised Multi30k (see benchmarks/run.sh), but is {data}")


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    check_data(options.data)
    note(f"tiny_step: timing {options.repetitions} repetitions of 3 cases, {options.batches} updates each")
    with (
        in_process(updates, options.data, "fairseq", options.batches) as stock,
        in_process(updates, options.data, "fairseq", options.batches, environment=KEEP) as kept,
        in_process(updates, options.data, "deepnmt", options.batches) as deepnmt,
    ):
        cases = {"fairseq": stock, "fairseq with KEEP": kept, "deepnmt": deepnmt}
        timings = interleaved(cases, options.repetitions)
    what = "Transformer-Tiny (4 + 4, width 128), Multi30k, 4,096 tokens, dropout 0.3"
    yield compare(f"updates per second, deepnmt / fairseq, {what}", ">= 2.0", timings, "fairseq", "deepnmt")
    same = "the same, fairseq's freed memory kept as the plug-in keeps it"
    yield compare(same, "", timings, "fairseq with KEEP", "deepnmt")
    note("tiny_step: memory")
    peak = {case: peak_memory(updates, options.data, case, 1) for case in ("fairseq", "deepnmt")}
    detail = ", ".join(f"{case} {megabytes(size)}" for case, size in peak.items())
    yield Row("peak memory of an update, the same", peak["deepnmt"] / peak["fairseq"], "<= 0.6", detail)


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--data", default=str(DATA), help="binarised Multi30k (default: $DATA or that of the example)")
    parser.add_argument("--batches", type=int, default=4, help="updates in a repetition (default: 4)")


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
