"""Measure a few updates of a training: a process of its own, whose peak of memory is the training's.

    python -m deepnmt.runs.update_probe costs|growth|gpu=GPU RECIPE DATA RESULT.json [options of fairseq-train]

The process is fairseq-train's up to its first update. For the costs, its ten updates have chosen batches of the first
epoch. Two have the largest need for memory, one warms up, and the sizes of the other seven represent all batches. The
last step is a part of a validation. For a GPU that is not there, `gpu_estimate` counts the operations of the same
updates.

A process on the CPU grows as batches of new sizes come, since oneDNN keeps the code that it compiles for each size.
Sizes are the same in all layers, and so is the growth. From the 10th to the 60th update, 4 layers grew by 128 MiB and
12 layers by 127 MiB. It is therefore measured in 200 updates of a shallow model. A heap that keeps freed memory grows
too, but by an unknown amount. The environment variable MALLOC_MMAP_THRESHOLD_ prevents that, until the time of the
updates is measured.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from deepnmt.console import run, silence_import_of_fairseq, write_whole

if __name__ == "__main__":
    silence_import_of_fairseq()

# isort: split
# Before the rest of fairseq, as in fairseq-train itself: it sets up the logging.
from fairseq_cli import train

# isort: split
import numpy as np
import torch
from fairseq.data.iterators import GroupedIterator

import deepnmt
from deepnmt.fairseq_patches.checks import training_checks
from deepnmt.kernels.malloc import keep_freed_memory
from deepnmt.recipe.arguments import training_arguments
from deepnmt.runs.cost_by_depth import GPU, UPDATES
from deepnmt.runs.gpu_estimate import FIXED, GIB, Gpu, OperationCount, read_gpu
from deepnmt.text.lines import whole_text
from deepnmt.text.training_data import check_named_data

LARGEST, WARM = 2, 1
GROWING = 200
SETTING = "MALLOC_MMAP_THRESHOLD_"  # read by glibc at the start of the process
VALIDATION_BATCHES = 5
Batch = Sequence[int]


def largest_batches(areas: np.ndarray, squares: np.ndarray, each: int) -> list[int]:
    """Return the numbers of the batches of `LARGEST` updates; see `chosen_batches`."""
    return [int(np.argmax(size)) for size in (squares, areas) for _ in range(each)]


def chosen_batches(areas: np.ndarray, squares: np.ndarray, each: int) -> list[int]:
    """Return the numbers of the batches of `UPDATES` updates, `each` a batch or several.

    Args:
        areas: padded tokens of each batch, N
        squares: its pairs of tokens that attend to each other, N
        each: batches of an update
    """
    order = np.argsort(areas, kind="stable")
    timed = UPDATES - LARGEST - WARM
    # The middles of equal parts, dealt out so that no update has the largest ones alone.
    parts = [int(order[int((place + 0.5) * len(order) / (timed * each))]) for place in range(timed * each)]
    dealt = [parts[first::timed] for first in range(timed)]
    warm = [dealt[timed // 2]] * WARM
    return [*largest_batches(areas, squares, each), *(one for update in [*warm, *dealt] for one in update)]


def sizes_of(batches: Sequence[Batch], lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `areas` and `squares` of batches, by the lengths of the sides of each pair, N x 2."""
    areas, squares = [], []
    for batch in batches:
        source, target = (int(side) for side in lengths[np.asarray(batch)].max(axis=0))
        areas.append(len(batch) * (source + target))
        squares.append(len(batch) * (source * source + source * target + target * target))
    return np.array(areas), np.array(squares)


def measured(cfg: Any, trainer: Any, task: Any, epoch: Any) -> dict[str, float]:
    """Make the updates, and return seconds, bytes and counts. It takes the arguments of fairseq's `train`."""
    rest = bytes_in_use(trainer)
    each = cfg.optimization.update_freq[0]
    reached, sizes, batches = reached_batches(cfg, epoch)
    found = facts(cfg, trainer, epoch, batches)
    times: list[list[float]] = []
    memory = 0
    start = clock(trainer)
    for samples in updates_of([reached[number] for number in chosen_batches(*sizes, each)], cfg, trainer, epoch):
        trainer.train_step(samples)
        end = clock(trainer)
        times.append([now - before for now, before in zip(end, start)])
        if len(times) == LARGEST:
            memory = peak(trainer)
            # From here on as deepnmt train.
            if os.environ.pop(SETTING, None) and not trainer.cuda:
                keep_freed_memory()
            end = clock(trainer)
        start = end
    wall, processor = np.mean(times[LARGEST + WARM :], axis=0)
    validation, (begin, _) = 0.0, clock(trainer)
    for sample, number in validation_batches(cfg, trainer):
        trainer.valid_step(sample)
        now, _ = clock(trainer)
        validation += (now - begin) * number
        begin = now
    optimizer = optimizer_bytes(trainer)
    weights = sum(each.numel() * each.element_size() for each in trainer.model.parameters())
    return {
        **found,
        "optimizer": optimizer,
        "rest": rest + weights + optimizer,  # the gradients have the size of the weights
        "memory": memory,
        "available": available(trainer),
        "seconds": float(wall),
        "processor seconds": float(processor),
        "validation": validation,
    }


def estimated(gpu: Gpu, cfg: Any, trainer: Any, task: Any, epoch: Any) -> dict[str, float]:
    """Make the updates, and return estimates of the same quantities on a GPU, by the formulas of `gpu_estimate`."""
    each = cfg.optimization.update_freq[0]
    reached, sizes, batches = reached_batches(cfg, epoch)
    found = facts(cfg, trainer, epoch, batches)
    chosen = chosen_batches(*sizes, each)
    # The optimizer makes its state in the first one.
    updates = iter(updates_of([reached[number] for number in chosen[:each] + chosen], cfg, trainer, epoch))
    trainer.train_step(next(updates))
    counts = []
    for samples in updates:
        with OperationCount() as count:
            trainer.train_step(samples)
        counts.append(count)
    validation = 0.0
    for sample, number in validation_batches(cfg, trainer):
        with OperationCount() as count:
            trainer.valid_step(sample)
        validation += gpu.seconds(count.operations) * number
    optimizer = optimizer_bytes(trainer)
    fixed = FIXED * found["parameters"] + optimizer
    return {
        **found,
        "optimizer": optimizer,
        "rest": fixed + 2 * found["parameters"],  # gradients in FP16
        "memory": fixed + max(count.peak for count in counts[:LARGEST]),
        "available": gpu.memory * GIB,
        "seconds": float(np.mean([gpu.seconds(count.operations) for count in counts[LARGEST + WARM :]])),
        "processor seconds": 0.0,
        "validation": validation,
    }


def facts(cfg: Any, trainer: Any, epoch: Any, batches: int) -> dict[str, float]:
    """Return the counts of a training with this number of batches in an epoch, for which nothing has to be run."""
    each = cfg.optimization.update_freq[0]
    ends = ends_of(cfg.optimization, batches, each)
    return {
        "encoder layers": cfg.model.encoder_layers,
        "parameters": sum(each.numel() for each in trainer.model.parameters()),
        "pairs": len(epoch.dataset),
        "max tokens": cfg.dataset.max_tokens or 0,
        "updates": ends,
        "updates an epoch": -(-batches // each),
        "validations": validations(cfg, ends, -(-batches // each)),
    }


def grown(cfg: Any, trainer: Any, task: Any, epoch: Any) -> dict[str, float]:
    """Return the bytes by which many updates have exceeded the peak of the largest batches at the start."""
    reached, sizes, _ = reached_batches(cfg, epoch)
    each = cfg.optimization.update_freq[0]
    largest = [reached[number] for number in largest_batches(*sizes, each)]
    peaks = []
    for samples in updates_of([*largest, *reached[: GROWING * each]], cfg, trainer, epoch):
        trainer.train_step(samples)
        peaks.append(peak(trainer))
    return {"growth": peaks[-1] - peaks[LARGEST - 1]}


def reached_batches(cfg: Any, epoch: Any) -> tuple[list[Batch], tuple[np.ndarray, np.ndarray], int]:
    """Return the batches of the first epoch that a training reaches, their sizes, and the number of all batches."""
    batches = epoch.ordered_batches(1, False, True)
    each = cfg.optimization.update_freq[0]
    reached = batches[: ends_of(cfg.optimization, len(batches), each) * each or None]
    lengths = np.asarray(epoch.dataset.sizes)
    lengths = np.stack([lengths, lengths], axis=1) if lengths.ndim == 1 else lengths
    return reached, sizes_of(reached, lengths), len(batches)


def updates_of(batches: Sequence[Batch], cfg: Any, trainer: Any, epoch: Any) -> Any:
    """Return the collated batches of each update."""
    epoch.ordered_batches = lambda *_: batches
    trainer.begin_epoch(1)
    return GroupedIterator(epoch.next_epoch_itr(shuffle=True), cfg.optimization.update_freq[0])


def ends_of(limits: Any, batches: int, each: int) -> int:
    """Return the updates of a training with `batches` an epoch, `each` an update; 0 if it has no end."""
    known = [limits.max_update or 0, (limits.max_epoch or 0) * -(-batches // each)]
    return min((updates for updates in known if updates), default=0)


def validations(cfg: Any, updates: int, epoch: int) -> int:
    """Return how many of `updates` updates, `epoch` an epoch, fairseq validates after: see its `validate_and_save`."""
    data, saved = cfg.dataset, cfg.checkpoint.save_interval_updates

    def validated(update: int) -> bool:
        number, inside = divmod(update, epoch)
        regular = saved > 0 and update % saved == 0 if inside else number % data.validate_interval == 0
        often = data.validate_interval_updates > 0 and update % data.validate_interval_updates == 0
        return bool(regular or often or update == cfg.optimization.max_update)

    first = max(1, data.validate_after_updates)
    return 0 if data.disable_validation else sum(map(validated, range(first, updates + 1)))


def clock(trainer: Any) -> tuple[float, float]:
    """Return wall and processor seconds, once the device is done."""
    if trainer.cuda:
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


def optimizer_bytes(trainer: Any) -> int:
    """Return the bytes of the optimizer's state."""
    values = [value for state in trainer.optimizer.optimizer.state.values() for value in state.values()]
    return sum(value.numel() * value.element_size() for value in values if torch.is_tensor(value))


def validation_batches(cfg: Any, trainer: Any) -> Iterator[tuple[Any, float]]:
    """Yield a few collated batches of each validation subset, with the number of batches that each represents."""
    for subset in () if cfg.dataset.disable_validation else cfg.dataset.valid_subset.split(","):
        epoch = trainer.get_valid_iterator(subset)
        batches = epoch.ordered_batches(1, False, False)
        number = min(VALIDATION_BATCHES, len(batches))
        chosen = [batches[int((place + 0.5) * len(batches) / number)] for place in range(number)]
        epoch.ordered_batches = lambda *_, chosen=chosen: chosen
        for sample in epoch.next_epoch_itr(shuffle=False, set_dataset_epoch=False):
            yield sample, len(batches) / number


def from_kernel(file: str, name: str) -> int:
    """Return a number of bytes that the Linux kernel reports."""
    lines = whole_text(Path(file)).split("\n")
    return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1]) * 1024


def bytes_in_use(trainer: Any) -> int:
    """Return the bytes that the training has now, on the GPU or in the process on the CPU."""
    return int(torch.cuda.memory_allocated()) if trainer.cuda else from_kernel("/proc/self/status", "VmRSS")


def peak(trainer: Any) -> int:
    """Return the largest number of bytes that the training has had."""
    # Not resource.getrusage, whose peak begins with that of the parent process.
    return int(torch.cuda.max_memory_reserved()) if trainer.cuda else from_kernel("/proc/self/status", "VmHWM")


def available(trainer: Any) -> int:
    """Return the bytes that a training can have."""
    if trainer.cuda:
        return int(torch.cuda.get_device_properties(0).total_memory)
    return from_kernel("/proc/meminfo", "MemAvailable") + bytes_in_use(trainer)


def main() -> None:
    """Measure the training that the command line names."""
    what, recipe, data, result, *options = sys.argv[1:]
    gpu = what.removeprefix(GPU)
    measure = {"costs": measured, "growth": grown}[what] if gpu == what else partial(estimated, read_gpu(gpu))
    options = training_arguments(Path(recipe), options, 1, torch.cuda.device_count())
    check_named_data(data, options)
    with tempfile.TemporaryDirectory() as save:
        arguments = [data, "--user-dir", str(Path(deepnmt.__file__).parent), "--save-dir", save]
        arguments += ["--skip-invalid-size-inputs-valid-test", *options]
        training_checks.accepted = arguments

        def write(*given: Any) -> None:
            write_whole(Path(result), json.dumps(measure(*given)) + "\n")
            sys.exit()

        train.train = write
        sys.argv = ["fairseq-train", *arguments]
        train.cli_main()


if __name__ == "__main__":
    run(main, "deepnmt plan")
