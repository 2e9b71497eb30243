"""Data folders of text in subwords, with the codes of their BPE, made without fairseq-preprocess."""

from __future__ import annotations

import io
import random
from collections import Counter
from pathlib import Path

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from deepnmt.text.index_file import binarise

SYLLABLES = ("ba", "nu", "ki", "lor", "mes", "tan", "sch", "e")


def random_words(draw: random.Random, number: int) -> list[str]:
    return ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(number)]


def cut_folder(folder: Path, merges: int = 40, sentences: int = 60) -> Path:
    """A folder of de-en with a joint BPE, whose dictionary has every symbol that its merges can make or leave."""
    folder.mkdir()
    draw = random.Random(7)
    vocabulary = random_words(draw, 40)
    lines = {
        (split, language): [" ".join(draw.choices(vocabulary, k=draw.randint(1, 7))) for _ in range(number)]
        for split, number in (("train", sentences), ("valid", 6))
        for language in ("de", "en")
    }
    text = "".join(line + "\n" for line in lines["train", "de"] + lines["train", "en"])
    codes = io.StringIO()
    learn_bpe(io.StringIO(text), codes, merges)
    (folder / "codes").write_text(codes.getvalue(), encoding="utf-8")
    bpe = BPE(io.StringIO(codes.getvalue()))
    cut = {key: [bpe.segment(line) for line in each] for key, each in lines.items()}
    counts = Counter(piece for each in cut.values() for line in each for piece in line.split())
    letters = sorted({letter for word in vocabulary for letter in word})
    made = ["".join(line.split()) for line in codes.getvalue().splitlines()[1:]]
    for piece in [*letters, *(letter + "</w>" for letter in letters), *made]:
        counts[piece[:-4] if piece.endswith("</w>") else f"{piece}@@"] += 0
    types = ["<s>", "<pad>", "</s>", "<unk>", *counts]
    for language in ("de", "en"):
        entries = "".join(f"{piece} {number}\n" for piece, number in counts.items())
        (folder / f"dict.{language}.txt").write_text(entries, encoding="utf-8")
    for (split, language), each in cut.items():
        path = folder / "cut.txt"
        path.write_text("".join(line + "\n" for line in each), encoding="utf-8")
        binarise(path, str(folder / f"{split}.de-en.{language}"), types)
        path.unlink()
    return folder
