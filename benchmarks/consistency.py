"""Updates with R-Drop and SimCut, two passes each, and with distillation against the plain loss: time and memory."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from common import Row, compare, in_process, interleaved, main, megabytes, note, peak_memory
from random_model import checkpoint
from tiny_step import TINY, add_batches, updates

# By name, the criterion with its published weights.
CRITERIONS = {
    "R-Drop": ["--criterion", "label_smoothed_cross_entropy_r_drop", "--r-drop-alpha", "5"],
    "SimCut": ["--criterion", "label_smoothed_cross_entropy_simcut", "--simcut-alpha", "3", "--simcut-rate", "0.05"],
}
TEACHERS = 3


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        # What a teacher has learnt does not change the time that it takes.
        sizes = {"layers": 4, "embed_dim": 128, "ffn_embed_dim": 256, "attention_heads": 4, "groups": "none"}
        shape = {f"{stack}_{name}": size for stack in ("encoder", "decoder") for name, size in sizes.items()}
        teachers = ":".join([str(checkpoint(Path(folder, "teacher.pt"), shape))] * TEACHERS)
        distillation = ["--criterion", "label_smoothed_cross_entropy_distillation", "--teacher", teachers]
        criterions = {"plain": [], **CRITERIONS, "distillation": distillation}
        # The first call of each, which is not timed, makes the teachers' predictions.
        repetitions, count = options.repetitions, len(criterions)
        note(f"consistency: timing {repetitions} repetitions of {count} cases, {options.batches} updates each")
        cases = {
            name: processes.enter_context(in_process(updates, "deepnmt", TINY, options.batches, more))
            for name, more in criterions.items()
        }
        timings = interleaved(cases, repetitions)
        others = [name for name in criterions if name != "plain"]
        for name in others:
            target = "<= 2.2" if name in CRITERIONS else ""
            yield compare(f"time of an update, {name} / plain loss, Transformer-Tiny", target, timings, name, "plain")
        note("consistency: memory")
        peaks = {name: peak_memory(updates, "deepnmt", TINY, 1, more) for name, more in criterions.items()}
        for name in others:
            detail = f"{name} {megabytes(peaks[name])}, plain {megabytes(peaks['plain'])}"
            yield Row(f"peak memory of an update, {name} / plain loss", peaks[name] / peaks["plain"], "", detail)


if __name__ == "__main__":
    main(__doc__ or "", measure, add_batches)
