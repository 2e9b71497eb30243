"""Updates with R-Drop and with SimCut, two passes each, against those with the plain fused loss: time and memory."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from common import Row, compare, in_process, interleaved, main, megabytes, note, peak_memory
from tiny_step import add_options, check_data, updates

# By name, the criterion with its published weights.
CRITERIONS = {
    "R-Drop": ["--criterion", "label_smoothed_cross_entropy_r_drop", "--r-drop-alpha", "5"],
    "SimCut": ["--criterion", "label_smoothed_cross_entropy_simcut", "--simcut-alpha", "3", "--simcut-rate", "0.05"],
}


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    check_data(options.data)
    note(f"consistency: timing {options.repetitions} repetitions of 3 cases, {options.batches} updates each")
    with (
        in_process(updates, options.data, "deepnmt", options.batches) as plain,
        in_process(updates, options.data, "deepnmt", options.batches, CRITERIONS["R-Drop"]) as r_drop,
        in_process(updates, options.data, "deepnmt", options.batches, CRITERIONS["SimCut"]) as simcut,
    ):
        timings = interleaved({"plain": plain, "R-Drop": r_drop, "SimCut": simcut}, options.repetitions)
    for name in CRITERIONS:
        yield compare(f"time of an update, {name} / plain loss, Transformer-Tiny", "<= 2.2", timings, name, "plain")
    note("consistency: memory")
    least = peak_memory(updates, options.data, "deepnmt", 1)
    for name, more in CRITERIONS.items():
        peak = peak_memory(updates, options.data, "deepnmt", 1, more)
        detail = f"{name} {megabytes(peak)}, plain {megabytes(least)}"
        yield Row(f"peak memory of an update, {name} / plain loss", peak / least, "", detail)


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
