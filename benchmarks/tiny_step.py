"""Updates of two small models against those of fairseq's own model and criterion: speed and memory.

Models and batches are random (`random_training.py`). The ratio is one of processor time. The products of an update
alone are timed too: with nothing else to do, an update would take as long.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from common import Row, Step, in_process, interleaved, main, megabytes, note, peak_memory
from random_training import sizes, training
from torch.utils._python_dispatch import TorchDispatchMode

COMMON = ["--cpu", "--max-tokens", "4096"]
PLAIN = ["--encoder-groups", "none", "--decoder-groups", "none"]
PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]
# What the plug-in tells the C library by itself.
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1000000000000", "MALLOC_TOP_PAD_": "100000000"}
TINY, DLCL = "Transformer-Tiny (4 + 4, width 128, dropout 0.3)", "DLCL (24 + 4, width 256, dropout 0.1)"
# The options of both sides, the plug-in's own, and the targets against fairseq and fairseq with KEEP.
MODELS = {
    TINY: ([*sizes(4, 4, 128), "--dropout", "0.3"], PLAIN, (">= 2.4", ">= 1.8")),
    DLCL: ([*sizes(24, 4, 256), "--dropout", "0.1", *PRE_NORM], [], (">= 1.8", ">= 1.5")),
}


def updates(side: str, model: str, batches: int, more: Sequence[str] = ()) -> Step:
    """A step that makes so many updates, of the same batches each time.

    Args:
        side: "fairseq", which does without the plug-in; "deepnmt"; or "products", those of deepnmt's updates alone
        model: of `MODELS`
        batches: how many
        more: further options, which win
    """
    shared, own, _ = MODELS[model]
    plugin = side != "fairseq"
    made = training([*COMMON, *shared, *(["--fast-dropout", *own] if plugin else []), *more], batches, plugin)
    note(f"tiny_step: {side} has {sum(batch['ntokens'] for batch in made.batches)} target tokens in {batches} batches")

    def step() -> None:
        for batch in made.batches:
            made.trainer.train_step([batch])

    if side != "products":
        return step
    with Products() as products:
        step()
    note(f"tiny_step: the products of an update are {products.operations / batches / 1e9:.1f} GFLOP")
    return products.again


class Products(TorchDispatchMode):
    """Notes all matrix products that are made in this mode, to make them again on other numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, list[Any]]] = []
        self.operands: dict[object, torch.Tensor] = {}
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        if packet in (torch.ops.aten.mm, torch.ops.aten.bmm, torch.ops.aten.addmm_):
            self.operations += 2 * args[-2].numel() * args[-1].size(-1)
        elif packet is torch.ops.mkldnn._linear_pointwise:  # x, its weight, O x C, bias, and further arguments
            self.operations += 2 * args[0].numel() * args[1].size(0)
        else:
            return result
        operands = [self._like(*each) if isinstance(each[1], torch.Tensor) else each[1] for each in enumerate(args)]
        self.calls.append((packet, operands))
        return result

    def _like(self, place: int, tensor: torch.Tensor) -> torch.Tensor:
        # The place keeps sums apart from factors, which must not grow.
        key = place, tensor.shape, tensor.stride()
        if key not in self.operands:
            self.operands[key] = torch.empty_strided(*key[1:]).fill_(0.01)
        return self.operands[key]

    def again(self) -> None:
        """Make them again."""
        with torch.no_grad():
            for product, operands in self.calls:
                product(*operands)


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    sides: dict[str, dict[str, str]] = {"fairseq": {}, "fairseq with KEEP": KEEP, "products": KEEP, "deepnmt": {}}
    for model in [model for model in MODELS if options.model in model][: 1 if options.quick else None]:
        note(f"tiny_step: {model}: {options.repetitions} repetitions of 4 cases, {options.batches} updates each")
        with ExitStack() as processes:
            cases = {
                side: processes.enter_context(
                    in_process(updates, side.split()[0], model, options.batches, environment=environment)
                )
                for side, environment in sides.items()
            }
            timings = interleaved(cases, options.repetitions)
        for side, target in zip(sides, (*MODELS[model][2], "")):
            what = f"updates per second of the processor, deepnmt / {side}, {model}, 4,096 tokens"
            detail = f"{side} {timings[side]}, deepnmt {timings['deepnmt']}"
            yield Row(what, timings[side].processor / timings["deepnmt"].processor, target, detail)
        note("tiny_step: memory")
        peak = {side: peak_memory(updates, side, model, 1) for side in ("fairseq", "deepnmt")}
        detail = ", ".join(f"{side} {megabytes(size)}" for side, size in peak.items())
        yield Row("peak memory of an update, the same", peak["deepnmt"] / peak["fairseq"], "<= 0.6", detail)


def add_options(parser: ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--model", default="", help="part of the name of the only model to time (default: both)")
    add_batches(parser)


def add_batches(parser: ArgumentParser) -> None:
    """The option of every benchmark of updates."""
    parser.add_argument("--batches", type=int, default=4, help="updates in a repetition (default: 4)")


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
