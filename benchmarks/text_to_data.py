"""`deepnmt preprocess` beside the stock tools' commands and beside earlier commits, on real text and on longer text.

    python benchmarks/text_to_data.py FOLDER SAMPLE 0 1000000 --commits c63d22f be7dd976

SAMPLE is the prefix of real text, SAMPLE.de and SAMPLE.en, such as that of examples/libreoffice; 0 stands for this text
itself. Text of another number of pairs has the sample's lines with other words in place of their words. Ranks of words
are drawn by p(k) ~ (k + q)^-a, where a and q give as many different words as the sample has, at its size and at smaller
ones. Frequent words are the sample's, and rarer ones are two of these.

Prints how the different words grow in both texts; for each command the seconds by the clock and of the processor, the
peak of the memory of all processes, and the ratio of processor seconds to those of the package with one worker; and
whether files are the same. subword-nmt and fairseq-preprocess get the package's tokens, so that codes, dictionaries and
numbers can be compared; sacremoses' tokens are only timed.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from corpus_tools import LANGUAGES, ROOT, SENTENCES, measure

from deepnmt import console
from deepnmt.text.lines import read_lines

SIDES = ("de", "en")
WORD = re.compile(r"[^\W\d_]+")
TYPES = 5_000_000
MERGES = 8_000
# Written by the package alone, or with its version's words.
OWN = {"preprocess.json", "preprocess.log"}


class Words:
    """Words of a language, drawn as a sample has them.

    Attributes:
        names: the words of the sample, frequent ones first
    """

    def __init__(self, sample: Path, seed: int) -> None:
        counts = Counter(word for line in read_lines(sample) for word in map(str.lower, WORD.findall(line)))
        self.names = [word for word, _ in counts.most_common()]
        sizes, grown = growth(sample)
        exponent = 1 / np.polyfit(np.log(sizes[-5:]), np.log(grown[-5:]), 1)[0]
        ranks, low, high = np.arange(1, TYPES + 1), 0.0, 1e4
        for _ in range(16):
            middle = (low + high) / 2
            weights = (ranks + middle) ** -exponent
            expected = -np.expm1(-sizes[-1] * weights / weights.sum()).sum()
            low, high = (middle, high) if expected < grown[-1] else (low, middle)
        self.cumulative = np.cumsum(weights) / weights.sum()
        self.rng = np.random.default_rng(seed)

    def draw(self, number: int) -> Iterator[str]:
        """Yield so many words."""
        names, size = self.names, len(self.names)
        for rank in np.searchsorted(self.cumulative, self.rng.random(number)).tolist():
            yield names[rank] if rank < size else names[rank // size % size] + names[rank * 7919 % size]


def growth(text: Path, most: int = 1 << 40) -> tuple[list[int], list[int]]:
    """Return numbers of words, and how many of so many first words of a text differ."""
    sizes, grown, seen, number, limit = [], [], set[str](), 0, 1 << 12
    for line in read_lines(text):
        words = WORD.findall(line.lower())
        seen.update(words)
        number += len(words)
        if number >= limit:
            sizes.append(number)
            grown.append(len(seen))
            limit *= 2
    return [*sizes, number], [*grown, len(seen)]


def make_text(sample: Path, prefix: Path, pairs: int) -> None:
    """Write text of so many pairs."""
    for seed, language in enumerate(SIDES):
        source = Path(f"{sample}.{language}")
        words = Words(source, seed)
        lines = [line.rstrip("\n") for line in read_lines(source)]
        templates = [(WORD.split(line), WORD.findall(line)) for line in lines]
        with open(f"{prefix}.{language}", "w", encoding="utf-8", newline="\n") as file:
            for begin in range(0, pairs, SENTENCES):
                chosen = [templates[n % len(lines)] for n in range(begin, min(begin + SENTENCES, pairs))]
                drawn = words.draw(sum(len(found) for _, found in chosen))
                for parts, found in chosen:
                    new = [cased(word, old) for word, old in zip(islice(drawn, len(found)), found)]
                    file.write("".join(text for pair in zip(parts, [*new, "\n"]) for text in pair))


def cased(word: str, like: str) -> str:
    """Return a word with the case of another one."""
    return word.upper() if len(like) > 1 and like.isupper() else word.capitalize() if like[0].isupper() else word


def clone(commit: str, folder: Path) -> Path:
    """Return a clone at a commit."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", commit], check=True)
    return folder


def preprocess(root: Path, text: Path, out: Path, workers: int) -> list[str]:
    """Return the command of a clone that makes a data folder."""
    options = ["--train", str(text), "--valid-every", "1000", "--bpe-merges", str(MERGES), "--workers", str(workers)]
    return [str(root / "scripts" / "preprocess.sh"), *LANGUAGES, *options, "--dest", str(out)]


def stock(text: Path, data: Path, out: Path) -> list[str]:
    """Return the stock tools' commands, in a row; all but the first get the tokens in a data folder."""
    out.mkdir()
    run = {name: shlex.quote(str(Path(sys.executable).parent / name)) for name in TOOLS}
    steps = [f"{run['sacremoses']} -l {n} -j 1 tokenize <{text}.{n} >{out}/tokens.{n}" for n in SIDES]
    train = " ".join(f"{data}/text/train.tok.{n}" for n in SIDES)
    steps.append(f"cat {train} | {run['subword-nmt']} learn-bpe --symbols {MERGES} >{out}/codes")
    for split in ("train", "valid"):
        for n in SIDES:
            bpe = f"{run['subword-nmt']} apply-bpe --codes {out}/codes"
            steps.append(f"{bpe} <{data}/text/{split}.tok.{n} >{out}/{split}.bpe.{n}")
    prefixes = f"--trainpref {out}/train.bpe --validpref {out}/valid.bpe --destdir {out}/data"
    steps.append(f"{run['fairseq-preprocess']} {' '.join(LANGUAGES)} {prefixes} --joined-dictionary --workers 1")
    return ["bash", "-euo", "pipefail", "-c", "\n".join(steps)]


TOOLS = ("sacremoses", "subword-nmt", "fairseq-preprocess")


def differences(one: Path, other: Path, names: list[str]) -> str:
    """Return which of some files differ between two folders."""
    found = filecmp.cmpfiles(one, other, names, shallow=False)
    return f"{len(found[0])} files the same" + "".join(f", other {name}" for names in found[1:] for name in names)


def main() -> None:
    """Measure all commands with each size."""
    console.use_utf8()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for texts, clones and data; it must not exist, and stays")
    parser.add_argument("sample", type=Path, help="prefix of real text, de and en")
    parser.add_argument("sizes", type=int, nargs="+", help="pairs; 0: the sample itself")
    parser.add_argument("--commits", nargs="*", default=[], help="commits of this repository to run as well")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="of the package (default: 1 and 2)")
    parser.add_argument("--without-stock", action="store_true", help="leave out the stock tools")
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    os.environ |= {"DEEPNMT_PYTHON_BIN": str(Path(sys.executable).parent), "OMP_NUM_THREADS": "1"}
    clones = {commit: clone(commit, given.folder / commit) for commit in given.commits}
    for size in given.sizes:
        work = given.folder / str(size)
        work.mkdir()
        text = given.sample
        if size:
            text = work / "text"
            make_text(given.sample, text, size)
        for name, prefix in {"sample": given.sample, "text": text}.items():
            for language in SIDES:
                rows = [f"{words:,} of {number:,}" for number, words in zip(*growth(Path(f"{prefix}.{language}")))]
                print(f"different words of the {name}, {language}: {'; '.join(rows[::2])}")
        commands = {f"package, {n} workers": preprocess(ROOT, text, work / f"workers{n}", n) for n in given.workers}
        first = work / f"workers{given.workers[0]}"
        commands |= {commit: preprocess(root, text, work / commit, 1) for commit, root in clones.items()}
        if not given.without_stock:
            commands["stock tools"] = stock(text, first, work / "stock")
        print("| command | pairs | seconds | processor seconds | times the package's | MB |\n" + "| --- " * 6 + "|")
        pairs, base = sum(1 for _ in read_lines(Path(f"{text}.de"))), 0.0
        for name, command in commands.items():
            seconds, used, peak = measure(command)
            base = base or used
            row = [name, f"{pairs:,}", f"{seconds:,.1f}", f"{used:,.1f}", f"{used / base:.2f}", f"{peak / 1e6:,.0f}"]
            print("|", " | ".join(row), "|", flush=True)
        files = [str(path.relative_to(first)) for path in sorted(first.rglob("*")) if path.is_file()]
        for name in [*(f"workers{n}" for n in given.workers[1:]), *clones]:
            print(f"{name}: {differences(first, work / name, [file for file in files if file not in OWN])}")
        if not given.without_stock:
            numbers = [name for name in files if name.endswith((".bin", ".idx")) or name.startswith("dict.")]
            print(f"stock tools: {differences(first, work / 'stock' / 'data', numbers)}")
            print(f"stock tools: {differences(first, work / 'stock', ['codes'])}")


if __name__ == "__main__":
    main()
