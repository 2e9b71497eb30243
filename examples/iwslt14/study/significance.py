"""Paired bootstrap resampling (Koehn 2004), sacrebleu's, of tokenised BLEU against one baseline."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.significance import PairedTest, Result

from deepnmt.errors import UserError
from deepnmt.text.corpus_scores import tokenised_bleu
from study.results import Run


@dataclass(frozen=True)
class Difference:
    """BLEU less the baseline's, of the runs with one seed, and how probable as large a one is by chance."""

    bleu: float
    p_value: float
    seed: int


def compare(baseline: list[Run], others: dict[str, list[Run]], samples: int) -> dict[str, Difference]:
    """Test each of the others against the baseline, of the trainings with the first seed that both have.

    Args:
        baseline: its trainings
        others: those of each other row
        samples: resamples of the test set

    Returns:
        by row; rows that have no seed in common with the baseline, or broke down, are left out

    Raises:
        UserError: a row has translated another test set
    """
    result = {}
    sound = {run.seed: run for run in baseline if not run.failed}
    for name, runs in others.items():
        pair = next(((sound[run.seed], run) for run in runs if run.seed in sound and not run.failed), None)
        if pair is not None:
            result[name] = _test(*pair, samples)
    return result


def _test(baseline: Run, run: Run, samples: int) -> Difference:
    references = baseline.text("ref")
    if run.text("ref") != references:
        raise UserError(f"{run.folder} must have the same test set as {baseline.folder}, but has another")
    hypotheses = [tested.text("hyp") for tested in (baseline, run)]
    if hypotheses[0] == hypotheses[1]:
        # sacrebleu counts how often a resample differs by more, and so calls no difference at all significant.
        return Difference(0.0, 1.0, run.seed)
    systems: list[tuple[str, Sequence[str]]] = list(zip(("baseline", "row"), hypotheses))
    # It reports its progress as a warning would.
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    _, scores = PairedTest(systems, {"BLEU": tokenised_bleu(baseline.language)}, [references], "bs", samples)()
    first, second = scores["BLEU"]
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    assert second.p_value is not None
    return Difference(second.score - first.score, second.p_value, run.seed)
