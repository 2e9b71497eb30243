"""Trainings of several recipes with several seeds, and one table of their scores.

    OUT/RECIPE/seedN/seed.json         what the training was begun with: recipe, data, options
    OUT/RECIPE/seedN/checkpoints/      the training
    OUT/RECIPE/seedN/updateU.lastN/    average.pt of the last N checkpoints, up to update U
    OUT/RECIPE/seedN/updateU.lastN/SUBSET/   its translations, with scores.json
    OUT/SUBSET.json                    the table

Scores of a recipe are a mean and a standard deviation over seeds. Two recipes are compared by a paired bootstrap
(Koehn 2004) of the mean over seeds: each sample draws sentences, the same for all trainings. It says whether other
sentences could reverse the difference; whether other seeds could, the standard deviations say.
"""

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from deepnmt.checkpoints.averaging import LAST, find_checkpoints
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.jobs.child_steps import module, run_step
from deepnmt.jobs.in_place import InPlace
from deepnmt.runs.begun import described
from deepnmt.runs.supervision import WITHOUT_LAST
from deepnmt.text.columns import in_columns
from deepnmt.text.corpus_scores import FILE, main_bleu, main_score
from deepnmt.text.record import read_record, write_record

SAMPLES = 1000
RECORD, CHECKPOINTS, AVERAGE, AVERAGES = "seed.json", "checkpoints", "average.pt", "update*.last*"
Array = NDArray[np.int64]


@dataclass(frozen=True)
class SeedRun:
    """A training of a recipe with a seed, in a folder of its own.

    Attributes:
        recipe: YAML file
        data: data folder
        folder: OUT/RECIPE/seedN
        seed: number
        options: of fairseq-train
    """

    recipe: Path
    data: Path
    folder: Path
    seed: int
    options: Sequence[str]

    @property
    def words(self) -> list[str]:
        """The options of the training, with its seed."""
        return ["--seed", str(self.seed), *self.options]

    @cached_property
    def job(self) -> InPlace:
        """The job, which holds the folder and refuses another recipe, DATA or option."""
        worth = (f"{CHECKPOINTS}/{LAST}", AVERAGES)
        about = described(self.recipe, str(self.data), self.words)
        return InPlace("deepnmt seeds", self.folder, RECORD, worth=worth, **about)

    def check_kept(self) -> None:
        """Raise `UserError` if the training would leave no checkpoint to resume from."""
        for name in WITHOUT_LAST:
            if name in self.job.made_with["values"]:
                raise UserError(f"{name} cannot be used here: trainings are resumed, and their checkpoints averaged")

    def check_options(self) -> None:
        """Exit with status 2 if fairseq-train would refuse the options, unless the training has begun."""
        if not self.job.has_worth():
            command = module("deepnmt.recipe", [self.recipe, *self.words])
            if status := subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
                sys.exit(status)

    def translations(self, last: int, subset: str) -> Path:
        """Train, average, translate and score, as far as this is not done, and return the folder of translations.

        Exits with the status of a step that fails.

        Args:
            last: number of last checkpoints to average; if there are fewer, all of them
            subset: subset to translate
        """
        save = self.folder / CHECKPOINTS
        with self.job.begun():
            run_step("train", self.recipe, self.data, save, *self.words)
            updates = list(find_checkpoints(save))
            if not updates:
                raise UserError(f"{save}: contains no checkpoints")
            last = min(len(updates), last)
            place = self.folder / f"update{updates[-1]}.last{last}"
            average, result = place / AVERAGE, place / subset
            if not (result / FILE).is_file():
                place.mkdir(exist_ok=True)
                if not average.is_file():
                    run_step("average", save, average, "--last", last)
                run_step("generate", average, self.data, result, "--subset", subset)
                run_step("score", result)
        return result


def core_hours(folder: Path) -> float:
    """Return the core hours of the training in OUT/RECIPE/seedN; NaN if an earlier version has begun it."""
    newest = [*find_checkpoints(folder / CHECKPOINTS).values()][-1:]
    return sum(CheckpointState.of(path, numbers=False).processor_seconds() for path in newest) / 3600


def scores(folder: Path) -> dict[str, float]:
    """Return BLEU by subset in OUT/RECIPE/seedN, of the average with the latest update."""
    averages = sorted(folder.glob(AVERAGES), key=lambda place: int(place.name.split(".")[0].removeprefix("update")))
    return {path.parent.name: main_score(path) for place in averages for path in sorted(place.glob(f"*/{FILE}"))}


class Row(NamedTuple):
    """A recipe's line of the table.

    Attributes:
        scores: BLEU of each seed
        hours: core hours of all of its trainings
        difference: its mean less the first recipe's; None for the first one
        p: of the difference
    """

    recipe: str
    scores: tuple[float, ...]
    hours: float
    difference: float | None = None
    p: float | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float:
        """The sample's standard deviation over seeds; NaN for one seed."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else math.nan


class Scored(NamedTuple):
    """Translations of the same sentences by a recipe's trainings.

    Attributes:
        metric: of `deepnmt score`
        statistics: sacrebleu's, of the sentences of each seed, seeds x N x 10
        references: of all of them
    """

    metric: BLEU
    statistics: Array
    references: Sequence[str]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> "Scored":
        """Return the translations in folders of `deepnmt generate`. Raises `UserError` if their references differ."""
        found = [cls._of_folder(folder) for folder in folders]
        for folder, each in zip(folders, found):
            if each.references != found[0].references:
                raise UserError(f"{folder}: must have the references of all other translations, but has others")
        return found[0]._replace(statistics=np.concatenate([each.statistics for each in found]))

    @classmethod
    def _of_folder(cls, folder: Path) -> "Scored":
        metric, (translations, references) = main_bleu(folder)
        statistics = metric._extract_corpus_statistics(translations, [references])
        return cls(metric, np.array([statistics]), references)

    def bleu(self, counts: Array | None = None) -> list[float]:
        """Return BLEU of each seed, of all sentences, or of a sample that has each sentence `counts` times, N."""
        sums = self.statistics.sum(axis=1) if counts is None else np.einsum("n,snk->sk", counts, self.statistics)
        return [self.metric._compute_score_from_stats(each).score for each in sums.tolist()]


def bootstrap(first: Scored, second: Scored, samples: int = SAMPLES, seed: int = 12345) -> tuple[float, float]:
    """Return the difference of two recipes' mean BLEU, the second's less the first's, and its p value.

    With one seed each, p is sacrebleu's. It is the share of samples whose difference, without its sign, exceeds the
    samples' mean by more than the whole difference. Both numbers of the share count one more. Where no sample differs,
    p is 1.

    Args:
        first, second: translations of the same sentences; seeds may differ in number
        samples: draws of N sentences
        seed: of the draws; the default is sacrebleu's

    Raises:
        UserError: their references differ
    """
    if first.references != second.references:
        raise UserError("translations of both recipes must have the same references, but have others")
    number = len(first.references)

    def difference(counts: Array | None = None) -> float:
        return float(np.mean(second.bleu(counts)) - np.mean(first.bleu(counts)))

    whole = difference()
    draws = np.random.default_rng(seed).choice(number, size=(samples, number), replace=True)
    found = np.abs([difference(np.bincount(draw, minlength=number)) for draw in draws])
    if not found.any():
        return whole, 1.0
    return whole, (int((found - found.mean() > abs(whole)).sum()) + 1) / (samples + 1)


def rows(results: Mapping[str, Sequence[Path]]) -> list[Row]:
    """Return the table of the folders of translations of each recipe; all are compared with the first one."""
    found: list[Row] = []
    baseline: Scored | None = None
    for recipe, folders in results.items():
        hours = sum(core_hours(folder.parents[1]) for folder in folders)
        scored = Scored.of(folders)
        scores = tuple(scored.bleu())
        found.append(Row(recipe, scores, hours, *(bootstrap(baseline, scored) if baseline else ())))
        baseline = baseline or scored
    return found


def shown(table: Sequence[Row]) -> str:
    """Return the table as text."""
    lines = [["recipe", "seeds", "mean BLEU", "deviation", "difference", "p", "core hours", "each"]]
    for row in table:
        known = row.difference is not None and row.p is not None
        lines.append([
            row.recipe, str(len(row.scores)), f"{row.mean:.2f}",
            f"{row.deviation:.2f}" if len(row.scores) > 1 else "-",
            f"{row.difference:+.2f}" if known else "-", f"{row.p:.3f}" if known else "-",
            "-" if math.isnan(row.hours) else f"{row.hours:.2f}", " ".join(f"{score:.2f}" for score in row.scores),
        ])  # fmt: skip
    return "\n".join(in_columns(lines))


def read(path: Path) -> list[Row]:
    """Return a table that `write` has written. Raises `UserError` if it has not."""
    try:
        return [
            Row(name, tuple(map(float, row["scores"])), float(row["hours"] or math.nan), row["difference"], row["p"])
            for name, row in read_record(path).items()
        ]
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: must be a table of deepnmt seeds, but is not") from None


def write(table: Sequence[Row], path: Path) -> None:
    """Write the table as JSON, with null for unknown hours."""
    write_record(path, {
        row.recipe: {**row._asdict(), "mean": row.mean, "hours": None if math.isnan(row.hours) else row.hours}
        for row in table
    })  # fmt: skip
