"""`deepnmt plan` against real trainings: seconds of an update and peak memory, at several depths.

    benchmarks/plan.py RECIPE DATA [--depths N,N,...] [--updates N] [options of fairseq-train]

Each depth is trained twice. The first training, as by `deepnmt train`, gives the seconds. The second one gives the
memory, with the allocator's setting of the plan. Figures are worth something on a machine that does nothing else.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deepnmt import console
from deepnmt.recipe import named_recipes
from deepnmt.text.columns import in_columns

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "131072"}
SECONDS, PROCESSOR, MEMORY = "seconds", "processor seconds", "memory"
WARM = 10  # updates that are not timed
Costs = Mapping[str, float]


def train(result: str, recipe: str, data: str, save: str, *options: str) -> None:
    """Be the process of a training, and write seconds of an update and peak memory at its end."""
    console.silence_import_of_fairseq()
    from deepnmt.runs import training  # sets up the logging, before the rest of fairseq

    # isort: split
    from fairseq.trainer import Trainer

    from deepnmt.runs.update_probe import from_kernel

    ends: list[tuple[float, float]] = []
    stock = Trainer.train_step

    @wraps(stock)  # the plug-in compares its arguments with those that it knows
    def train_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = stock(self, *args, **kwargs)
        ends.append((time.perf_counter(), time.process_time()))
        return found

    def report() -> None:
        if len(ends) <= WARM:
            return  # its error tells why
        wall, processor = ((ends[-1][clock] - ends[WARM - 1][clock]) / (len(ends) - WARM) for clock in (0, 1))
        found = {SECONDS: wall, PROCESSOR: processor, MEMORY: from_kernel("/proc/self/status", "VmHWM")}
        console.write_whole(Path(result), json.dumps(found))

    Trainer.train_step = train_step
    atexit.register(report)
    training.become_fairseq_train(lambda: training.begin(Path(recipe), data, Path(save), options))


def measure(recipe: Path, data: str, options: Sequence[str], environment: Mapping[str, str]) -> Costs:
    """Return seconds of an update and peak memory of a training in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if name not in ALLOCATOR}
    with TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, __file__, "train", str(result), str(recipe), data, f"{folder}/save", *options]
        done = subprocess.run(command, env={**inherited, **environment}, capture_output=True, check=False)
        if not result.is_file():
            sys.exit(done.stderr.decode("utf-8", "replace")[-2000:] or f"a training ended with {done.returncode}")
        found: Costs = json.loads(result.read_bytes())
    return found


def row(depth: int, planned: Costs, timed: Costs, held: Costs) -> list[str]:
    """Return a line of the table: planned, measured and the error of each quantity."""
    cells = [str(depth)]
    for name, real, size in ((SECONDS, timed, 1), (PROCESSOR, timed, 1), (MEMORY, held, 2**30)):
        error = 100 * (planned[name] / real[name] - 1)
        cells += [f"{planned[name] / size:.3f}", f"{real[name] / size:.3f}", f"{error:+.1f} %"]
    return cells


def main() -> None:
    """Plan, train, and print the table."""
    parser = console.Parser("plan.py", __doc__)
    parser.add_argument("recipe", metavar="RECIPE")
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--depths", type=console.wholes("--depths", 1, 1000), default=[4, 12, 24, 48])
    parser.add_argument("--updates", type=console.whole("--updates", 2 * WARM, 10**6), default=200)
    given, options = parser.parse_before_options(None, "fairseq-train")
    from common import header

    from deepnmt.runs import cost_by_depth

    recipe = named_recipes.find(given.recipe)
    options += ["--max-update", str(given.updates), "--disable-validation"]
    print(header(int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))))
    plan = cost_by_depth.plan(recipe, given.data, sorted({*given.depths}), options)
    quantities = [f"{name}{of}" for name in ("s/update", "core s", "GiB") for of in ("", ", real", ", error")]
    rows = [["layers", *quantities]]
    for depth, planned in plan.costs.items():
        training = [*options, f"--encoder-layers={depth}", "--no-save"]
        timed, held = (measure(recipe, given.data, training, environment) for environment in ({}, ALLOCATOR))
        rows.append(row(depth, planned, timed, held))
        print("\n".join([*in_columns(rows), plan.note]).rstrip(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(*sys.argv[2:])
    else:
        console.run(main)
