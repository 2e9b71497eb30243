"""What is learnt before pairs are measured: of all parts of a corpus, in whatever order they stand."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from deepnmt.corpus.cleaning import learnt
from deepnmt.corpus.cleaning.clean_job import CleanJob, Options
from deepnmt.corpus.cleaning.filter_recipe import Filter, parse_filter
from deepnmt.corpus.cleaning.learnt import FITTED, Learnt, Sample, passing, read_fitted

# Words of the target for each of the source in a sub-corpus, and its share.
PARTS = {1: 300, 2: 500, 4: 200}


def job_of(folder: Path, lines: list[tuple[str, str]], *filters: Filter) -> CleanJob:
    for side, language in enumerate(("de", "en")):
        (folder / f"corpus.{language}").write_text("".join(f"{pair[side]}\n" for pair in lines))
    return CleanJob.of(Options("de", "en", filters, chunk=40), f"{folder}/corpus", lambda size: None)


@pytest.mark.parametrize("order", list(itertools.permutations(PARTS)))
def test_the_order_of_sub_corpora_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    monkeypatch.setattr(learnt, "FITTED_ON", 100)
    lines = [("a b", " ".join("x" * 2 * ratio)) for ratio in order for _ in range(PARTS[ratio])]
    Learnt.of(job_of(tmp_path, lines, parse_filter("ratio-sigma", "4", "")), tmp_path)
    found = read_fitted(tmp_path / FITTED).ratio
    logs = np.log(np.repeat(list(PARTS), list(PARTS.values())))
    low, middle, high = np.percentile(logs, [15.87, 50, 84.13])
    assert found.middle == pytest.approx(middle) == pytest.approx(math.log(2))
    assert found.sigma == pytest.approx((high - low) / 2) == pytest.approx(math.log(2))


def test_a_sample_is_spread_over_all_lines(tmp_path: Path) -> None:
    job = job_of(tmp_path, [(f"s{number}", f"t{number}") for number in range(1000)])
    drawn = Sample.of(job, 250)
    assert drawn.pairs.source.lines == [f"s{number}" for number in range(3, 1000, 4)]
    assert drawn.pairs.target.lines == [f"t{number}" for number in range(3, 1000, 4)]
    assert drawn.spread(50).pairs.source.lines == [f"s{number}" for number in range(19, 1000, 20)]
    assert len(Sample.of(job, 2000).pairs) == 1000


def test_a_classifier_learns_from_pairs_that_pass_filters_of_measures_and_of_scores(tmp_path: Path) -> None:
    lines = [(f"s{number}" + " b" * (number % 3), f"t{number}") for number in range(100)]
    scores = tmp_path / "scores.tsv"
    scores.write_text("name\n" + "".join(f"{number}\n" for number in range(100)))
    filters = (parse_filter("length", "1:2", ""), parse_filter("score", f"{scores}:name >= 37", ""))
    job = job_of(tmp_path, lines, *filters)
    found = passing(job, Sample.of(job, 50), Learnt.of(job, tmp_path).fitted)
    assert found.target.lines == [f"t{number}" for number in range(1, 100, 2) if number >= 37 and number % 3 < 2]
