"""The first translation of a new process, by each engine: seconds of the processor, beside importing its library.

    OMP_NUM_THREADS=1 python3 benchmarks/first_translation.py --repetitions 5

The model is Transformer-Tiny, untrained (random_model.py), in a model folder with Moses' tokens and a BPE.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from engines import MODELS
from random_model import checkpoint, data_folder

# The engines' libraries, and the targets in seconds.
LIBRARIES = {"torch": ("torch", 1.5), "onnx": ("onnxruntime", 0.5), "ctranslate2": ("ctranslate2", 0.5)}
SENTENCE = b"w1 w2, w3 w4 w5 w6 w7 w8.\n"


def seconds(command: Sequence[object]) -> float:
    """Run a command, and return the processor time that it took."""
    before = os.times()
    done = subprocess.run(list(map(str, command)), input=SENTENCE, capture_output=True, check=False)
    after = os.times()
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> None:
    """Print a row for each engine that is installed."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5, help="after one to warm up (default: 5)")
    repetitions = parser.parse_args().repetitions
    from deepnmt.errors import UserError
    from deepnmt.export.exporter import Export, export

    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = data_folder(folder / "data")
        (data / "codes").write_text("#version: 0.2\na b\n", "utf-8")
        record = json.loads((data / "preprocess.json").read_bytes())
        (data / "preprocess.json").write_text(json.dumps({**record, "pretokenized": False}), "utf-8")
        path = checkpoint(folder / "model.pt", MODELS["Tiny 4 + 4"])
        commands = {}
        for engine, (library, _) in LIBRARIES.items():
            try:
                export(Export([path], data, engine, check=0), folder / engine)
            except UserError as error:
                print(f"no {engine}: {error}", file=sys.stderr)
                continue
            commands[engine] = [sys.executable, "-m", "deepnmt", "translate", folder / engine]
            commands[library + " alone"] = [sys.executable, "-c", f"import {library}"]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(repetitions + 1):
            for name, command in commands.items():
                times[name].append(seconds(command))
    print("| first translation by | seconds | target | importing its library alone |\n| --- | --- | --- | --- |")
    for engine, (library, target) in LIBRARIES.items():
        if engine in times:
            own, alone = (statistics.median(times[name][1:]) for name in (engine, f"{library} alone"))
            print(f"| {engine} | {own:.2f} | <= {target} | {alone:.2f} |")


if __name__ == "__main__":
    main()
