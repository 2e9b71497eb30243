"""Pairs a second and memory of the scripts that read whole corpora, on generated text of several sizes.

    python benchmarks/corpus_tools.py FOLDER clean,align,ngram 100000 1000000 4000000

For clean and truecase, each pair is two sentence pairs of the demo's grammar side by side, with a number; every tenth
is one that was there before. For align, ngram, and select, a line has fifteen words drawn from 500,000 types by Zipf's
law; its translation has the same words in another language, some of them in other places. For preprocess, a sentence
has 5 to 25 words and signs; the rarer a word, the longer it is, and there are about as many types as German text of
that length has.

Prints, for each tool and size, seconds by the clock and of the processor, and the peak of the memory of all processes
together, in which what they share counts once. select's data folder is made before, and not measured.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from deepnmt import console
from deepnmt.text.lines import whole_text

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples" / "demo"))
SENTENCES = 20_000
WORDS = 15
TYPES = 500_000
TEXT_TYPES = 5_000_000
SECONDS_BETWEEN_LOOKS = 0.5
LANGUAGES = ["--source-lang", "de", "--target-lang", "en"]


def write_sentences(prefix: Path, size: int) -> None:
    """Write a corpus of so many pairs of the demo's grammar."""
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


def write_words(prefix: Path, size: int) -> None:
    """Write a corpus of so many pairs of words drawn by Zipf's law, p(k) ~ 1 / k."""
    rng = np.random.default_rng(1)
    cumulative = np.cumsum(1 / np.arange(1, TYPES + 1))
    with open(f"{prefix}.de", "w", encoding="utf-8") as german, open(f"{prefix}.en", "w", encoding="utf-8") as english:
        for start in range(0, size, SENTENCES):
            lines = min(SENTENCES, size - start)
            words = np.searchsorted(cumulative, rng.random((lines, WORDS)) * cumulative[-1])
            # Each word moves by two places at most.
            order = np.argsort(np.arange(WORDS) + rng.uniform(0, 3, size=words.shape), axis=1)
            moved = np.take_along_axis(words, order, axis=1)
            german.writelines(" ".join(f"w{word}" for word in line) + "\n" for line in words.tolist())
            english.writelines(" ".join(f"v{word}" for word in line) + "\n" for line in moved.tolist())


@functools.cache
def spelt(rank: int, syllables: tuple[str, ...]) -> str:
    """Return the word of a rank: its digits, to the base of their number, as syllables."""
    word = ""
    while rank:
        rank, digit = divmod(rank, len(syllables))
        word = syllables[digit] + word
    return word


def write_text(prefix: Path, size: int) -> None:
    """Write a corpus of so many pairs of sentences of words drawn by p(k) ~ (k + 10)^-1.4."""
    rng = np.random.default_rng(1)
    cumulative = np.cumsum(np.arange(11, TEXT_TYPES + 11) ** -1.4)
    opened = tuple(first + second for first in "bdfghklmnprstvwz" for second in "aeiou")
    closed = tuple(syllable[::-1] for syllable in opened)
    with open(f"{prefix}.de", "w", encoding="utf-8") as german, open(f"{prefix}.en", "w", encoding="utf-8") as english:
        for start in range(0, size, SENTENCES):
            lengths = rng.integers(5, 26, size=min(SENTENCES, size - start)).tolist()
            drawn = np.searchsorted(cumulative, rng.random(sum(lengths)) * cumulative[-1])
            ranks_left = iter(drawn.tolist())
            for length in lengths:
                ranks = list(islice(ranks_left, length))
                # The first two words change places.
                for file, syllables, order in ((german, opened, ranks), (english, closed, ranks[1::-1] + ranks[2:])):
                    words = [spelt(1 + rank, syllables) for rank in order]
                    words[length // 2] += ","
                    file.write(" ".join(words).capitalize() + ".\n")


def script(name: str) -> str:
    """Return the path of a script."""
    return str(ROOT / "scripts" / name)


def data_folder(prefix: Path, out: Path) -> list[str]:
    """Return the options of preprocess.sh that make a data folder of a corpus."""
    text = ["--train", str(prefix), "--valid-every", "1000", "--dest", str(out), *LANGUAGES]
    return [*text, "--pretokenized", "--bpe-merges", "1000"]


def steps(tool: str, prefix: Path, out: Path) -> dict[str, list[str]]:
    """Return the commands to measure, by name."""
    text, folder = str(out), str(prefix)
    recipe = str(ROOT / "configs" / "clean.txt")
    chosen = ["--like", f"{folder}.like", "--number", "1000", "--method"]
    commands = {
        "clean": {"clean.sh": ["--input", folder, "--output", text, *LANGUAGES, "--recipe", recipe]},
        "preprocess": {
            "preprocess.sh": ["--train", folder, "--valid-every", "1000", "--dest", text, *LANGUAGES],
        },
        "truecase": {
            "truecase.sh learn": ["learn", f"{folder}.de", f"{text}.model"],
            "truecase.sh apply": ["apply", f"{text}.model", f"{folder}.de", f"{text}.de"],
        },
        "align": {"align.sh": [folder, text, *LANGUAGES]},
        "ngram": {
            "ngram.sh train": ["train", f"{folder}.de", f"{text}.arpa"],
            "ngram.sh score": ["score", f"{text}.arpa", f"{folder}.de", f"{text}.tsv"],
        },
        "select": {
            "select.sh, tfidf": [text, f"{text}-tfidf", *chosen, "tfidf"],
            "select.sh, cross-entropy": [text, f"{text}-entropy", *chosen, "cross-entropy"],
        },
    }
    return {name: [script(f"{tool}.sh"), *options] for name, options in commands[tool].items()}


TOOLS: dict[str, Callable[[Path, int], None]] = {
    "clean": write_sentences,
    "preprocess": write_text,
    "truecase": write_sentences,
    "align": write_words,
    "ngram": write_words,
    "select": write_words,
}


def memory_of_session(session: int) -> int:
    """Return the bytes of memory of all processes of a session; pages that n of them share count 1/n each."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(whole_text(process / "stat").rpartition(")")[2].split()[3]) != session:
                continue
            lines = whole_text(process / "smaps_rollup").split("\n")
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def measure(command: list[str]) -> tuple[float, float, int]:
    """Run a command; return its seconds by the clock, those of the processor, and the peak of its memory in bytes."""
    start, before, peak = time.monotonic(), os.times(), 0
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while True:
        peak = max(peak, memory_of_session(running.pid))
        try:
            code = running.wait(SECONDS_BETWEEN_LOOKS)
        except subprocess.TimeoutExpired:
            continue
        if code:
            raise SystemExit(f"{command[0]} failed; run it by hand: {' '.join(command)}")
        after = os.times()
        used = after.children_user - before.children_user + after.children_system - before.children_system
        return time.monotonic() - start, used, peak


def main() -> None:
    """Measure each tool with each size."""
    console.use_utf8()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the corpora and what is made of them; removed at the end")
    parser.add_argument("tools", help="with commas between them: " + ", ".join(TOOLS))
    parser.add_argument("sizes", type=int, nargs="+", help="pairs")
    given = parser.parse_args()
    tools = given.tools.split(",")
    if unknown := set(tools) - TOOLS.keys():
        parser.error(f"tools must be among {', '.join(TOOLS)}, but there is {unknown.pop()}")
    given.folder.mkdir(parents=True)
    print("| command | pairs | seconds | processor seconds | pairs for each of these | MB |\n" + "| --- " * 6 + "|")
    for size in given.sizes:
        for tool in tools:
            work = given.folder / "work"
            work.mkdir()
            TOOLS[tool](work / "corpus", size)
            if tool == "select":
                write_words(work / "like", 1000)
                (work / "like.de").rename(work / "corpus.like")
                measure([script("preprocess.sh"), *data_folder(work / "corpus", work / "out")])
            for name, command in steps(tool, work / "corpus", work / "out").items():
                seconds, used, peak = measure(command)
                row = [name, f"{size:,}", *(f"{x:,.0f}" for x in (seconds, used, size / used, peak / 1e6))]
                print("|", " | ".join(row), "|", flush=True)
            shutil.rmtree(work)
    given.folder.rmdir()


if __name__ == "__main__":
    main()
