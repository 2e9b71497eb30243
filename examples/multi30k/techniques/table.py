"""The table: BLEU and chrF of each technique, their difference from the baseline with paired bootstrap, and time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from deepnmt.text.languages import bleu_tokenizer
from deepnmt.text.lines import whole_text
from deepnmt.text.translated_folder import RECORD, lines_of
from techniques.runs import TEST, VALID, Row

SAMPLES = 1000
HEADER = ["technique", "setting"]
for _subset in (VALID, TEST):
    HEADER += [f"{_subset} BLEU", "difference", "p", f"{_subset} chrF", "difference", "p"]
HEADER.append("time")


def rows_of_table(rows: Sequence[Row]) -> list[list[str]]:
    """Return the fields of each row; the first is the baseline."""
    found = {subset: compared([row.folders[subset] for row in rows]) for subset in (VALID, TEST)}
    table = [HEADER]
    for number, row in enumerate(rows):
        fields = [row.name, row.setting]
        for subset in (VALID, TEST):
            fields += found[subset][number]
        table.append([*fields, f"{row.seconds[TEST] / rows[0].seconds[TEST]:.2f}"])
    return table


def compared(folders: Sequence[Path]) -> list[list[str]]:
    """Return BLEU and chrF of folders, each with its difference from the first's, and the p value of it."""
    record = json.loads(whole_text(folders[0] / RECORD))
    language, lowercase = record["target_lang"], record["lowercase"]
    texts = [lines_of(folder / f"hyp.{language}") for folder in folders]
    references = lines_of(folders[0] / f"ref.{language}")
    systems: list[tuple[str, Sequence[str]]] = [(str(number), text) for number, text in enumerate(texts)]
    metrics = {"BLEU": BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(language)), "chrF2": CHRF(lowercase=lowercase)}
    results: Any = PairedTest(systems, metrics, [references], test_type="bs", n_samples=SAMPLES)()[1]
    table = []
    for number in range(len(systems)):
        fields = []
        for name in metrics:
            result, first = results[name][number], results[name][0]
            p = "" if result.p_value is None else f"{result.p_value:.3f}"
            if number and abs(result.score - first.score) < 1e-9:
                # sacrebleu gives equal scores its smallest p.
                p = "1.000"
            fields += [f"{result.score:.2f}", "" if number == 0 else f"{result.score - first.score:+.2f}", p]
        table.append(fields)
    return table


def as_markdown(table: Sequence[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_list(lines: Iterable[str]) -> str:
    """Return lines as a list in Markdown."""
    return "".join(f"- {line}\n" for line in lines)


def as_text(table: Sequence[Sequence[str]]) -> str:
    """Return a table with a tab between fields."""
    return "".join("\t".join(line) + "\n" for line in table)
