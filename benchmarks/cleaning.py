"""Pairs a second and memory of scripts/clean.sh on generated corpora of several sizes.

    python benchmarks/cleaning.py FOLDER 100000 1000000 4000000

Each pair is two sentence pairs of the demo's grammar side by side, with a number; every tenth is one that was there
before. The recipe is configs/clean.txt. Prints, for each size, pairs a second by the clock and by processor time, and
the memory of the largest process.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples" / "demo"))
SENTENCES = 20_000


def write_corpus(prefix: Path, size: int) -> None:
    """Write a corpus of so many pairs."""
    from grammar.generate import sample_pairs

    sentences = sample_pairs(SENTENCES, seed=1)
    rng = random.Random(2)
    with open(f"{prefix}.de", "w", encoding="utf-8") as german, open(f"{prefix}.en", "w", encoding="utf-8") as english:
        pair = ("", "")
        for number in range(size):
            if number % 10:
                first, second = rng.choice(sentences), rng.choice(sentences)
                pair = (f"{first[0]} {second[0]} ({number})", f"{first[1]} {second[1]} ({number})")
            german.write(pair[0] + "\n")
            english.write(pair[1] + "\n")


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--options", default=f"--recipe {ROOT / 'configs' / 'clean.txt'}")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    print("pairs | seconds | pairs/s | processor s | pairs/s of a core | MB of the largest process so far")
    for size in given.sizes:
        prefix = given.folder / "corpus"
        write_corpus(prefix, size)
        words = [
            "--input",
            str(prefix),
            "--output",
            str(given.folder / "clean"),
            "--source-lang",
            "de",
            "--target-lang",
            "en",
        ]
        start, before = time.monotonic(), os.times()
        subprocess.run(
            [str(ROOT / "scripts" / "clean.sh"), *words, *given.options.split()], check=True, stdout=subprocess.DEVNULL
        )
        seconds, after = time.monotonic() - start, os.times()
        used = after.children_user - before.children_user + after.children_system - before.children_system
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(
            f"{size:,} | {seconds:.0f} | {size / seconds:,.0f} | {used:.0f} | {size / used:,.0f} | {largest:.0f}",
            flush=True,
        )
        for path in given.folder.glob("c*"):
            path.unlink() if path.is_file() else shutil.rmtree(path)


if __name__ == "__main__":
    main()
