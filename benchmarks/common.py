"""What the benchmarks share: interleaved timing, peak memory in a process of its own, and how figures are shown.

A benchmark is a script in this folder that calls `main` with a function which yields `Row`s. `run.sh` runs them all.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import torch

from deepnmt import console
from deepnmt.text.lines import read_text

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

Step = Callable[..., object]
# Numbers of malloc.h and their values: each large tensor gets pages of its own, which go back to the kernel with
# it, so that resident memory is what is alive.
GIVE_BACK = {
    "M_TRIM_THRESHOLD": (-1, 131072),
    "M_TOP_PAD": (-2, 0),
    "M_MMAP_THRESHOLD": (-3, 65536),
    "M_MMAP_MAX": (-4, 2**20),
}
TABLE_HEAD = "| what | ratio | target | medians (spread: quartiles) |\n| --- | --- | --- | --- |"


@dataclass
class Timing:
    """The seconds of a case, a number for each repetition, by the clock and of the processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """By the clock."""
        return statistics.median(self.wall)

    @property
    def processor(self) -> float:
        """The median of the processor's time."""
        return statistics.median(self.cpu)

    def __str__(self) -> str:
        low, _, high = statistics.quantiles(self.wall, n=4)
        return f"{self.median:.3f} s ({low:.3f} to {high:.3f}; CPU {self.processor:.3f})"


@dataclass(frozen=True)
class Elsewhere:
    """What a step returns that ran in another process: its seconds of the processor."""

    cpu: float


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        what: what is compared with what
        ratio: the first over the second
        target: such as "<= 1.05"; empty: none
        detail: the figures behind the ratio
    """

    what: str
    ratio: float
    target: str
    detail: str

    def __str__(self) -> str:
        return f"| {self.what} | {self.ratio:.3f} | {self.target} | {self.detail} |"


def interleaved(cases: Mapping[str, Step], repetitions: int = 3, warm_up: int = 1) -> dict[str, Timing]:
    """Time all cases in turn, in one order and then in the other, so that what else the machine does meets all alike.

    Args:
        cases: what to time, under its name
        repetitions: how often each
        warm_up: how often each before that
    """
    timings = {name: Timing() for name in cases}
    for repetition in range(-warm_up, repetitions):
        names = list(cases) if repetition % 2 == 0 else list(cases)[::-1]
        for name in names:
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            elsewhere = cases[name]()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if isinstance(elsewhere, Elsewhere):
                cpu = elsewhere.cpu
            if repetition >= 0:
                timings[name].wall.append(wall)
                timings[name].cpu.append(cpu)
    return timings


def compare(what: str, target: str, timings: Mapping[str, Timing], one: str, other: str) -> Row:
    """The row of a ratio of medians, one case over another."""
    detail = f"{one} {timings[one]}, {other} {timings[other]}"
    return Row(what, timings[one].median / timings[other].median, target, detail)


@contextmanager
def in_process(
    make: Callable[..., Step], *arguments: Any, environment: Mapping[str, str] | None = None
) -> Iterator[Step]:
    """A step that runs in a process of its own, which imports what it needs and nothing else.

    Its arguments, of which most steps have none, are sent to the process.

    Args:
        make: of a module's top level; gives the step
        arguments: of `make`
        environment: further variables of the process
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with _environment(environment or {}):
        process = context.Process(target=_serve, args=(theirs, torch.get_num_threads(), make, arguments))
        process.start()
    theirs.close()

    def step(*values: object) -> Elsewhere:
        try:
            ours.send(values)
            return Elsewhere(float(ours.recv()))
        except (EOFError, OSError):
            raise SystemExit("the process of a benchmark has failed") from None

    try:
        yield step
    finally:
        ours.close()
        process.join()


def _serve(connection: Any, threads: int, make: Callable[..., Step], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(threads)
    step = make(*arguments)
    while True:
        try:
            values = connection.recv()
        except EOFError:
            return
        before = time.process_time()
        step(*values)
        connection.send(time.process_time() - before)


def peak_memory(make: Callable[..., Step], *arguments: Any) -> int:
    """Bytes that a step needs beyond what is there before it, in a new process.

    Args:
        make: of a module's top level; gives the step, which runs once before it is measured, so that parameters have
            gradients, and the libraries their buffers
        arguments: of `make`
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with _environment({}):
        process = context.Process(target=_measure_peak, args=(theirs, torch.get_num_threads(), make, arguments))
        process.start()
    theirs.close()
    try:
        result = ours.recv()
    except EOFError:
        raise SystemExit("the process that measures memory has failed") from None
    finally:
        process.join()
    return int(result)


def megabytes(size: float) -> str:
    """A number of bytes, for people."""
    return f"{size / 2**20:.0f} MiB"


def note(text: str) -> None:
    """Say what is going on."""
    print(text, file=sys.stderr, flush=True)


def commit() -> str:
    """What is checked out."""
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True)
    return done.stdout.decode("utf-8").strip() or "unknown"


def header(threads: int) -> str:
    """Machine, versions and date."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", *packages_distributions()["fairseq"]))
    return (
        f"{date.today()}, commit {commit()}, Python {platform.python_version()}, {versions}\n"
        f"{_processor()}, {os.cpu_count()} cores, {threads} threads, load {os.getloadavg()[0]:.1f}\n"
    )


def main(
    description: str,
    measure: Callable[[argparse.Namespace], Iterable[Row]],
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> None:
    """The command line of a benchmark.

    Args:
        description: for --help
        measure: yields the rows; gets the options, `repetitions`, `threads` and `quick` among them
        add_options: adds the benchmark's own
    """
    console.use_utf8()
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=layout)
    parser.add_argument("--repetitions", type=int, default=3, help="how often each case is timed (default: 3)")
    parser.add_argument("--quick", action="store_true", help="the smallest model of each comparison alone")
    parser.add_argument("--threads", type=int, default=2, help="of torch (default: 2)")
    parser.add_argument("--rows", action="store_true", help="print the rows of the table alone")
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.rows:
        print(header(options.threads))
        print(TABLE_HEAD, flush=True)
    for row in measure(options):
        print(row, flush=True)


def _measure_peak(connection: Any, threads: int, make: Callable[..., Step], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(threads)
    step = make(*arguments)
    library = ctypes.CDLL(None)
    for name, value in GIVE_BACK.values():
        library.mallopt(name, value)
    step()
    gc.collect()
    library.malloc_trim(0)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak starts anew
    step()
    connection.send(_status("VmHWM") - before)


def _status(name: str) -> int:
    lines = dict(line.split(":", 1) for line in read_text(Path("/proc/self/status")))
    return int(lines[name].split()[0]) * 1024


def _processor() -> str:
    for line in read_text(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            return " ".join(line.split(":", 1)[1].split())
    return platform.processor()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """These and no other settings of the C library's memory, for processes that are started within."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else torch.get_num_threads()
    print(header(threads))
    print(TABLE_HEAD)
