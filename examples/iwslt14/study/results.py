"""The finished trainings of the study, as run.sh leaves them: OUT/runs/ROW/seedN/run.json."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnmt.text.lines import read_text
from deepnmt.text.record import read_record
from study.record import RECORD
from study.rows import Row


@dataclass(frozen=True)
class Run:
    """A training of a row with one seed."""

    folder: Path
    record: dict[str, Any]

    @property
    def seed(self) -> int:
        """The seed."""
        return int(self.record["seed"])

    @property
    def failed(self) -> str:
        """Why it broke down; empty: it did not."""
        return str(self.record.get("failed", ""))

    def score(self, which: str, name: str) -> float:
        """A score on the test set, of the `best` epoch or of the `average`."""
        return float(self.record[which][name])

    def text(self, kind: str) -> list[str]:
        """The tokenised translations (`hyp`) or references (`ref`) of the average."""
        return read_text(self.translations / f"{kind}.tok.{self.language}")

    @property
    def translations(self) -> Path:
        """The folder of the average's translations."""
        return self.folder / str(self.record["average"]["folder"])

    @property
    def language(self) -> str:
        """The language of the translations."""
        return str(read_record(self.translations / "generate.json", target_lang=str)["target_lang"])


def read_runs(output: Path, row: Row) -> tuple[list[Run], list[int]]:
    """The finished trainings of a row by seed, and the seeds of those that are not finished."""
    finished, begun = [], []
    for folder in (output / "runs" / row.name).glob("seed*"):
        if (folder / RECORD).is_file():
            finished.append(Run(folder, read_record(folder / RECORD)))
        elif folder.name[4:].isdecimal():
            begun.append(int(folder.name[4:]))
    return sorted(finished, key=lambda run: run.seed), sorted(begun)


def spread(values: list[float], digits: int = 2) -> str:
    """The mean, and of several values their standard deviation (of a sample)."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean
