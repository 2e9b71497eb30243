"""Beam search against fairseq's generator, with the same models: sentences of Multi30k's test set per second."""

from __future__ import annotations

import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common import DATA, ROOT, Row, Step, compare, interleaved, main, note

# Name of the model, recipe, and for how long it is trained where there is none: hypotheses must end where sentences do.
MODELS = {
    "Tiny 4+4": ("tiny", "configs/multi30k/transformer_tiny.yaml", ["--max-update=1000"]),
    "DLCL 12+4, tiny": ("dlcl", "configs/multi30k/dlcl_12.yaml", ["--max-update=1000"]),
    "base 6+6": (
        "base",
        "configs/multi30k/transformer_tiny.yaml",
        ["--max-update=200", "--max-tokens=1024", "--lr=0.0005", "--warmup-updates=80"]
        + [f"--{stack}-layers=6" for stack in ("encoder", "decoder")]
        + [f"--{stack}-embed-dim=512" for stack in ("encoder", "decoder")]
        + [f"--{stack}-ffn-embed-dim=2048" for stack in ("encoder", "decoder")]
        + [f"--{stack}-attention-heads=8" for stack in ("encoder", "decoder")],
    ),
}
SHORT = ["--no-epoch-checkpoints", "--disable-validation"]


def checkpoint(folder: Path, data: str, name: str) -> Path:
    """The model's checkpoint, which is trained if it is not there."""
    key, recipe, options = MODELS[name]
    path = folder / key / "checkpoint_last.pt"
    if not path.is_file():
        note(f"decoding: training {name}")
        command = [ROOT / "scripts" / "train.sh", ROOT / recipe, data, folder / key, *SHORT, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


class Searches:
    """Both generators, and what they last found.

    Args:
        path: the model's checkpoint
        data: folder of binarised data
        options: of fairseq's generator
    """

    def __init__(self, path: Path, data: str, **options: Any) -> None:
        import logging

        from fairseq import checkpoint_utils

        import deepnmt  # noqa: F401  registers its model, and its beam search

        logging.disable(logging.INFO)
        self.models, cfg, self.task = checkpoint_utils.load_model_ensemble_and_task(
            [str(path)], arg_overrides={"data": data}
        )
        for model in self.models:
            model.prepare_for_inference_(cfg)
        self.task.load_dataset("test")
        iterator = self.task.get_batch_iterator(self.task.dataset("test"), max_sentences=128)
        self.batches = list(iterator.next_epoch_itr(shuffle=False))
        self.options = options
        self.found: dict[str, list[Any]] = {}

    def step(self, name: str, **more: Any) -> Step:
        """Translate all, with options of the generator."""
        generator = self.task.build_generator(self.models, Namespace(**self.options, **more))

        def step() -> None:
            with torch.no_grad():
                results = [self.task.inference_step(generator, self.models, batch) for batch in self.batches]
            self.found[name] = [found for result in results for found in result]

        return step

    def differing(self) -> int:
        """Sentences whose best translations are not the same in all searches."""
        best = [[found[0]["tokens"].tolist() for found in results] for results in self.found.values()]
        return sum(any(other != first for other in others) for first, *others in zip(*best))


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    if not Path(options.data, "dict.en.txt").is_file():
        raise SystemExit(
            f"--data must be a folder of binarised Multi30k (see benchmarks/run.sh), but is {options.data}"
        )
    for name in MODELS:
        searches = Searches(checkpoint(options.models, options.data, name), options.data, beam=5)
        steps = {"deepnmt": searches.step("deepnmt"), "fairseq": searches.step("fairseq", no_beamable_mm=True)}
        note(f"decoding: {name}, timing {options.repetitions} repetitions of {len(steps)} cases")
        timings = interleaved(steps, options.repetitions)
        count = len(searches.found["deepnmt"])
        what = f"sentences per second, deepnmt / fairseq, {name}, beam 5, batches of 128, {count} sentences"
        what += f", {searches.differing()} translations differ"
        yield compare(what, ">= 2.4", timings, "fairseq", "deepnmt")


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--data", default=str(DATA), help="binarised Multi30k (default: $DATA or that of the example)")
    parser.add_argument(
        "--models", type=Path, default=ROOT / "output" / "benchmarks", help="the models; those missing are trained"
    )


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
