"""Updates and searches on one GPU, of the package and of fairseq: a page of results in at most eight minutes.

    python benchmarks/gpu.py [--out PAGE]

Each side has a process of its own; fairseq's does without the plug-in. Models and sentences are random, and all
translations have one length, so that nothing has to be trained first. Rows are written to the page as they come. What
does not fit into `--minutes` is named at the end of the page.

The published DLCL code is the measure for depth: its 48 layers cost 1.9 times a plain stack, and it fits at most 2,048
tokens of them into 12 GB.
"""

from __future__ import annotations

import argparse
import gc
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from common import ROOT, header, megabytes
from random_training import STOCK, sizes, training

from deepnmt import console

KINDS = ("fairseq", "plain", "DLCL")
PRECISIONS = ("fp16", "bf16")
BEAM, WORDS = 5, 20  # of a search, and of each translation


class Case(NamedTuple):
    """One row of the page.

    Attributes:
        kind: of `KINDS`; fairseq's own Transformer, or this package's
        layers: of the encoder; the decoder has 6, or as many if they are fewer
        precision: of `PRECISIONS`
        fused: with the fused loss
        sentences: of a batch in a search; 0: a training
    """

    kind: str
    layers: int
    precision: str
    fused: bool = False
    sentences: int = 0


class Figures(NamedTuple):
    """Updates or batches a second, target tokens or sentences a second, and peak memory in bytes."""

    calls: float
    units: float
    memory: int


def cases(depths: list[int], batch: int) -> Iterator[Case]:
    """All rows, those of one depth together."""
    for layers in depths:
        for precision in PRECISIONS:
            yield from (Case(kind, layers, precision) for kind in KINDS)
            yield from (Case(kind, layers, precision, fused=True) for kind in KINDS[1:])
        yield from (Case(kind, layers, "fp16", sentences=sentences) for sentences in (1, batch) for kind in KINDS)


def figures(case: Case, width: int, tokens: int, updates: int) -> Figures:
    """Measure a case on the GPU: `updates` updates of so many tokens, or as many searches, after two more."""
    plugin = case.kind != "fairseq"
    options = sizes(case.layers, min(case.layers, 6), width, heads=max(1, width // 64))
    options += ["--encoder-normalize-before", "--decoder-normalize-before", "--dropout", "0.1"]
    options += ["--max-tokens", str(tokens), f"--{case.precision}"]
    if plugin and not case.fused:
        options += STOCK[2:]
    if case.kind == "plain":
        options += ["--encoder-groups", "none", "--decoder-groups", "none"]
    # The models of earlier cases are gone.
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    made = training(options, updates, plugin)
    made.trainer.cuda_env = None  # with it, fairseq would start the peak anew after each update
    step = search(made, case) if case.sentences else lambda batch: made.trainer.train_step([batch])
    for batch in made.batches[:2]:
        step(batch)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for batch in made.batches:
        step(batch)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    units = updates * case.sentences or sum(batch["ntokens"] for batch in made.batches)
    return Figures(updates / seconds, units / seconds, int(torch.cuda.max_memory_allocated()))


def search(made: Any, case: Case) -> Callable[[Any], object]:
    """A search of the first sentences of a batch, repeated where the batch has fewer."""
    model = made.trainer.get_model().eval()
    ends = {"beam": BEAM, "max_len_a": 0, "max_len_b": WORDS, "min_len": WORDS}
    generator = made.task.build_generator([model], Namespace(**ends, no_beamable_mm=case.kind == "fairseq"))

    def step(batch: Any) -> object:
        rows = torch.arange(case.sentences) % len(batch["id"])
        inputs = batch["net_input"]
        net_input = {name: inputs[name][rows].to("cuda") for name in ("src_tokens", "src_lengths")}
        with torch.no_grad():
            return generator.generate([model], {"net_input": net_input})

    return step


def page(options: Namespace, measure: Mapping[bool, Callable[[Case], Figures]]) -> Iterator[str]:
    """The lines of the page; `measure` measures a case, without the plug-in and with it."""
    name = torch.cuda.get_device_name(0)
    yield f"# {name}\n\n{header(torch.get_num_threads())}"
    what = f"at most 6 decoder layers, beam {BEAM}, {WORDS} tokens in a translation"
    yield f"Width {options.width}, {options.tokens} tokens in a batch, {what}.\n"
    yield "| encoder layers | precision | what | calls/s | tokens or sentences/s | peak | speed, memory / fairseq |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    end, left, stock = time.monotonic() + 60 * options.minutes, [], {}
    for case in cases(options.layers, options.batch):
        if time.monotonic() > end:
            left.append(case)
            continue
        what = f"search of {case.sentences}" if case.sentences else "fused loss" if case.fused else "plain loss"
        row = f"| {case.kind} {case.layers} | {case.precision} | {what} |"
        try:
            found = measure[case.kind != "fairseq"](case)
        except Exception as error:  # such as a lack of memory: the other rows count
            yield f"{row} {type(error).__name__}: {' '.join(str(error).split())[:99]} | | | |"
            continue
        key = case._replace(kind="fairseq", fused=False)
        if case.kind == "fairseq":
            stock[key] = found
        ratio = ""
        if key in stock:
            ratio = f"{found.calls / stock[key].calls:.2f}, {found.memory / max(1, stock[key].memory):.2f}"
        yield f"{row} {found.calls:.2f} | {found.units:.0f} | {megabytes(found.memory)} | {ratio} |"
    yield f"\nLeft out for want of time: {len(left)} rows" + "".join(f"; {tuple(case)}" for case in left) + "."


def main() -> None:
    """Write the page, and print it."""
    console.use_utf8()
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--out", type=Path, default=ROOT / "output" / "gpu.md", help="page (default: output/gpu.md)")
    parser.add_argument("--minutes", type=float, default=7.5, help="no row begins after these (default: 7.5)")
    parser.add_argument("--layers", type=int, nargs="+", default=[6, 48, 30, 12], help="encoder depths")
    parser.add_argument("--width", type=int, default=512, help="channels (default: 512)")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a batch (default: 4,096)")
    parser.add_argument("--batch", type=int, default=128, help="sentences of a large search (default: 128)")
    parser.add_argument("--updates", type=int, default=8, help="timed updates or searches of a row (default: 8)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py needs a GPU, and torch finds none")
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context) as without, ProcessPoolExecutor(1, context) as plugged:
        sizes_of_run = options.width, options.tokens, options.updates
        measure = {
            plugin: lambda case, pool=pool: pool.submit(figures, case, *sizes_of_run).result()
            for plugin, pool in ((False, without), (True, plugged))
        }
        write(options.out, page(options, measure))


def write(path: Path, lines: Iterator[str]) -> None:
    """Write lines to a file and to the terminal, as they come."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            print(line, flush=True)
            print(line, file=file, flush=True)


if __name__ == "__main__":
    main()
