"""Beam search against fairseq's generator, with the same models: sentences of Multi30k's test set per second."""

from __future__ import annotations

import json
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common import DATA, ROOT, Row, Step, compare, in_process, interleaved, main, note

from deepnmt.text.lines import whole_text

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


def searches(path: Path, data: str, case: str, output: Path) -> Step:
    """Translate all with one of the generators, as `fairseq-generate` does, and write the best translations.

    Args:
        path: the model's checkpoint
        data: folder of binarised data
        case: "deepnmt" or "fairseq"
        output: for a list of token lists
    """
    import logging

    from fairseq import checkpoint_utils

    import deepnmt

    deepnmt.register()  # its model, and its beam search: fairseq was imported later

    logging.disable(logging.INFO)
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": data})
    for model in models:
        model.prepare_for_inference_(cfg)
    task.load_dataset("test")
    iterator = task.get_batch_iterator(task.dataset("test"), max_sentences=128)
    batches: list[Any] = list(iterator.next_epoch_itr(shuffle=False))
    generator = task.build_generator(models, Namespace(beam=5, no_beamable_mm=case == "fairseq"))

    def step() -> None:
        with torch.no_grad():
            results = [task.inference_step(generator, models, batch) for batch in batches]
        best = [found[0]["tokens"].tolist() for result in results for found in result]
        output.write_text(json.dumps(best), "utf-8")

    return step


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    if not Path(options.data, "dict.en.txt").is_file():
        raise SystemExit(
            f"--data must be a folder of binarised Multi30k (see benchmarks/run.sh), but is {options.data}"
        )
    for name in MODELS:
        path = checkpoint(options.models, options.data, name)
        note(f"decoding: {name}, timing {options.repetitions} repetitions of 2 cases")
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            files = {case: folder / f"{case}.json" for case in ("deepnmt", "fairseq")}
            steps = {
                case: stack.enter_context(in_process(searches, path, options.data, case, file))
                for case, file in files.items()
            }
            timings = interleaved(steps, options.repetitions)
            found = [json.loads(whole_text(file)) for file in files.values()]
        different = sum(one != other for one, other in zip(*found, strict=True))
        what = f"sentences per second, deepnmt / fairseq, {name}, beam 5, batches of 128, {len(found[0])} sentences"
        yield compare(f"{what}, {different} translations differ", ">= 2.4", timings, "fairseq", "deepnmt")


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--data", default=str(DATA), help="binarised Multi30k (default: $DATA or that of the example)")
    parser.add_argument(
        "--models", type=Path, default=ROOT / "output" / "benchmarks", help="the models; those missing are trained"
    )


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
