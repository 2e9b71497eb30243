"""Print the table of synthetic.sh and distil.sh: a line for each training, its fields between tabs."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from choices import CHOSEN, Choice

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text

SPEED = re.compile(r"\(([\d.]+) sentences/s")


def lines(results: Path) -> list[list[str]]:
    """Return the fields of each training whose test set has been scored, their names first.

    Raises:
        UserError: none has been
    """
    rows = [["run", "validation", "test", "detokenised", "sentences/s", "greedy", "sentences/s"]]
    for path in sorted(results.glob("**/test/scores.json")):
        folder = path.parent.parent
        valid = max((score(found.parent) for found in folder.glob("valid.*/scores.json")), key=float, default="")
        if (folder / CHOSEN).is_file():
            valid = f"{Choice.read(folder).valid:.2f}"
        greedy = folder / "test.greedy"
        fields = [str(folder.relative_to(results)), valid, score(path.parent), score(path.parent, "BLEU")]
        rows.append([*fields, speed(path.parent), score(greedy), speed(greedy)])
    if len(rows) == 1:
        raise UserError(f"{results}: must have scores of a test set, but has none")
    return rows


def score(folder: Path, name: str = "tokenised BLEU") -> str:
    """Return a score of a folder of translations; empty where there is none."""
    path = folder / "scores.json"
    if not path.is_file():
        return ""
    scores = json.loads(whole_text(path))
    return f"{scores[name]['score']:.2f}" if name in scores else ""


def speed(folder: Path) -> str:
    """Return the sentences that fairseq-generate has translated in a second; empty where it does not say."""
    path = folder / "generate.log"
    found = SPEED.findall(whole_text(path, errors="replace")) if path.is_file() else []
    return found[-1] if found else ""


def main() -> None:
    """Print the table of a folder of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    print("\n".join("\t".join(line) for line in lines(parser.parse_args().results)))


if __name__ == "__main__":
    console.run(main)
