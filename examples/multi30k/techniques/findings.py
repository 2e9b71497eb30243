"""What the table of the chosen settings does not say: all settings on validation, and figures of single techniques.

A length ratio is the words of the translations over the words of the references. A 4-gram is repeated where its
sentence has had it before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deepnmt.text.lines import whole_text
from deepnmt.text.translated_folder import RECORD, lines_of
from deepnmt.text.words import counted_words
from techniques.picture import Curve
from techniques.runs import TEST, VALID, Row

ORDER = 4
HEADER = ["technique", "setting", "valid BLEU", "valid chrF", "length ratio", "repeated 4-grams, %"]


def settings_of(rows: Sequence[Row]) -> list[list[str]]:
    """Return the fields of each setting of which validation has chosen."""
    table = [HEADER]
    for row in rows:
        for setting, folder in row.tried.items():
            scores = json.loads(whole_text(folder / "scores.json"))
            bleu, chrf = (f"{scores[name]['score']:.2f}" for name in ("BLEU", "chrF"))
            language = json.loads(whole_text(folder / RECORD))["target_lang"]
            found, right = (lines_of(folder / f"{kind}.tok.{language}") for kind in ("hyp", "ref"))
            words, references = (
                [counted_words(line, language, tokens=True) for line in text] for text in (found, right)
            )
            ratio = sum(map(len, words)) / sum(map(len, references))
            table.append([row.name, setting, bleu, chrf, f"{ratio:.3f}", f"{100 * repeated(words):.2f}"])
    return table


def repeated(lines: Sequence[Sequence[str]]) -> float:
    """Return the share of 4-grams of words that their sentence has had before."""
    every = different = 0
    for words in lines:
        grams = list(zip(*(words[start:] for start in range(ORDER))))
        every += len(grams)
        different += len(set(grams))
    return (every - different) / max(every, 1)


def findings(rows: Sequence[Row], errors: Curve) -> Iterator[str]:
    """Give a sentence for each best choice, each number of new sentences, and the search errors.

    Args:
        rows: of the table
        errors: share of search errors by beam, in percent; empty: they have not been counted
    """
    for row in rows:
        record = _record(row.folders[VALID], "rerank.json")
        if "oracle" in record.get("bleu", {}):
            yield f"{row.name}: the best choice possible has {record['bleu']['oracle']:.2f} BLEU on validation"
        for subset in (VALID, TEST):
            combined = _record(row.folders[subset], "combine.json")
            if combined:
                yield f"{row.name}: {combined['new']} sentences of {subset} are translations that no list has"
    if errors:
        shares = ", ".join(f"beam {beam:g} {share:.1f} %" for beam, share in errors.items())
        yield f"validation sentences for which a string of higher log P is known: {shares}"


def _record(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(whole_text(folder / name)) if (folder / name).exists() else {}
    return found
