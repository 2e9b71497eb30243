"""Updates with R-Drop and SimCut, two passes each, and with distillation against the plain loss: time and memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from common import ROOT, Row, compare, in_process, interleaved, main, megabytes, note, peak_memory
from tiny_step import OPTIONS, PLUGIN, add_options, check_data, updates

# By name, the criterion with its published weights.
CRITERIONS = {
    "R-Drop": ["--criterion", "label_smoothed_cross_entropy_r_drop", "--r-drop-alpha", "5"],
    "SimCut": ["--criterion", "label_smoothed_cross_entropy_simcut", "--simcut-alpha", "3", "--simcut-rate", "0.05"],
}
TEACHERS = 3


def teacher(data: str, folder: str) -> Path:
    """Return a checkpoint of one update: what a teacher has learnt does not change the time that it takes."""
    command = [sys.executable, "-m", "fairseq_cli.train", data, "--user-dir", str(ROOT / "deepnmt"), *OPTIONS, *PLUGIN]
    command += ["--max-update", "1", "--disable-validation", "--no-epoch-checkpoints", "--save-dir", folder]
    subprocess.run(command, check=True, capture_output=True)
    return Path(folder, "checkpoint_last.pt")


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    check_data(options.data)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
        note("consistency: training a teacher for an update")
        teachers = ":".join([str(teacher(options.data, folder))] * TEACHERS)
        distillation = ["--criterion", "label_smoothed_cross_entropy_distillation", "--teacher", teachers]
        criterions = {"plain": [], **CRITERIONS, "distillation": distillation}
        # The first call of each, which is not timed, makes the teachers' predictions.
        repetitions, count = options.repetitions, len(criterions)
        note(f"consistency: timing {repetitions} repetitions of {count} cases, {options.batches} updates each")
        cases = {
            name: processes.enter_context(in_process(updates, options.data, "deepnmt", options.batches, more))
            for name, more in criterions.items()
        }
        timings = interleaved(cases, repetitions)
        others = [name for name in criterions if name != "plain"]
        for name in others:
            target = "<= 2.2" if name in CRITERIONS else ""
            yield compare(f"time of an update, {name} / plain loss, Transformer-Tiny", target, timings, name, "plain")
        note("consistency: memory")
        peaks = {name: peak_memory(updates, options.data, "deepnmt", 1, more) for name, more in criterions.items()}
        for name in others:
            detail = f"{name} {megabytes(peaks[name])}, plain {megabytes(peaks['plain'])}"
            yield Row(f"peak memory of an update, {name} / plain loss", peaks[name] / peaks["plain"], "", detail)


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
