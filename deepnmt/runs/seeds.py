"""Trainings of several recipes with several seeds, and one table of their scores.

    OUT/RECIPE/seedN/checkpoints/   the training, and average.pt
    OUT/RECIPE/seedN/core_seconds   processor seconds of each start of the training, a line each
    OUT/RECIPE/seedN/SUBSET/        its translations, scores.json, and the average's checksum, average.json
    OUT/SUBSET.json                 the table

Scores of a recipe are a mean and a standard deviation over seeds. Two recipes are compared by a paired bootstrap
(Koehn 2004) of the mean over seeds: each sample draws sentences, the same for all trainings. It says whether other
sentences could reverse the difference; whether other seeds could, the standard deviations say.
"""

import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deepnmt.checkpoints.averaging import find_checkpoints
from deepnmt.errors import UserError
from deepnmt.jobs.child_steps import module, run_process, run_step
from deepnmt.reranking.bleu_statistics import Array, BleuStatistics, corpus_bleu
from deepnmt.text.columns import in_columns
from deepnmt.text.corpus_scores import FILE, TOKENISED, facts, read_pair
from deepnmt.text.languages import bleu_tokenizer
from deepnmt.text.lines import whole_text
from deepnmt.text.record import read_record, sha256, write_record
from deepnmt.text.token_bleu import TokenBleu

SAMPLES = 1000
AVERAGE, CORE_SECONDS, TRANSLATED = "average.pt", "core_seconds", "average.json"


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
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else float("nan")


def train_and_translate(
    recipe: Path, data: Path, folder: Path, seed: int, last: int, subset: str, options: Sequence[str]
) -> Path:
    """Train, average, translate and score, as far as this has not been done, and return the folder of translations.

    The average, which takes seconds, is always made. Translations of another average are made again.

    Exits with the status of a step that fails.
    """
    save, result = folder / "checkpoints", folder / subset
    words = [recipe, data, save, "--seed", str(seed), *options]
    if status := run_process(module("deepnmt.runs.begun", words)):
        raise SystemExit(status)
    with core_seconds(folder / CORE_SECONDS):
        run_step("train", *words)
    average, record = save / AVERAGE, result / TRANSLATED
    run_step("average", save, average, "--last", min(len(find_checkpoints(save)), last))
    made_with = {"average": sha256(average)}
    if not record.is_file() or read_record(record) != made_with:
        run_step("generate", average, data, result, "--subset", subset)
        run_step("score", result)
        write_record(record, made_with)
    return result


@contextmanager
def core_seconds(path: Path) -> Iterator[None]:
    """Append the processor seconds of the processes that end meanwhile to a file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        yield
    finally:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{seconds:.1f}\n")


def core_hours(folder: Path) -> float:
    """Return the core hours of the training that the translations in a folder are of."""
    return sum(map(float, whole_text(folder.parent / CORE_SECONDS).split())) / 3600


def statistics_of(folder: Path) -> Array:
    """Return the BLEU statistics of the sentences of a folder of translations, N x 10, untokenised if it can be."""
    language, lowercase = facts(folder, None, False)
    if (folder / f"ref.{language}").exists():
        counted = BleuStatistics(bleu_tokenizer(language), lowercase)
        texts = read_pair(folder / f"hyp.{language}", folder / f"ref.{language}")
    else:
        counted, tokens = BleuStatistics("none", False), TokenBleu(language)
        sides = read_pair(folder / f"hyp.tok.{language}", folder / f"ref.tok.{language}")
        first, second = ([" ".join(tokens.words(line)) for line in side] for side in sides)
        texts = first, second
    return np.array([counted(*pair) for pair in zip(*texts)])


def score_of(folder: Path) -> float:
    """Return BLEU of a folder of translations, tokenised BLEU where there is no other."""
    scores = read_record(folder / FILE)
    return float(scores.get("BLEU", scores[TOKENISED])["score"])


def bootstrap(first: Array, second: Array, samples: int = SAMPLES, seed: int = 12345) -> tuple[float, float]:
    """Return the difference of two recipes' mean BLEU, the second's less the first's, and its p value.

    With one seed each, p is sacrebleu's. It is the share of samples whose difference, without its sign, exceeds the
    samples' mean by more than the whole difference. Both numbers of the share count one more.

    Args:
        first, second: statistics of the sentences of each seed, seeds x N x 10; seeds may differ in number
        samples: draws of N sentences
        seed: of the draws; the default is sacrebleu's
    """
    number = first.shape[1]
    if number != second.shape[1]:
        raise UserError(f"translations must be of the same sentences, but are of {number} and {second.shape[1]}")

    def difference(weights: Array) -> float:
        of = [corpus_bleu(np.einsum("n,snk->sk", weights, side)).mean() for side in (first, second)]
        return float(of[1] - of[0])

    whole = difference(np.ones(number))
    draws = np.random.default_rng(seed).choice(number, size=(samples, number), replace=True)
    counts = (np.bincount(draw, minlength=number).astype(np.float64) for draw in draws)
    found = np.abs([difference(weights) for weights in counts])
    return whole, (int((found - found.mean() > abs(whole)).sum()) + 1) / (samples + 1)


def rows(results: Mapping[str, Sequence[Path]]) -> list[Row]:
    """Return the table of the folders of translations of each recipe; all are compared with the first one."""
    found: list[Row] = []
    baseline: Array | None = None
    for recipe, folders in results.items():
        scores, hours = tuple(map(score_of, folders)), sum(map(core_hours, folders))
        statistics = np.stack([statistics_of(folder) for folder in folders])
        if baseline is None:
            baseline = statistics
            found.append(Row(recipe, scores, hours))
        else:
            found.append(Row(recipe, scores, hours, *bootstrap(baseline, statistics)))
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
            f"{row.hours:.2f}", " ".join(f"{score:.2f}" for score in row.scores),
        ])  # fmt: skip
    return "\n".join(in_columns(lines))


def write(table: Sequence[Row], path: Path) -> None:
    """Write the table as JSON."""
    write_record(path, {row.recipe: {**row._asdict(), "mean": row.mean} for row in table})
