"""The classifier of pairs: what it tells apart on pairs that it has not seen, and its file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from grammar.generate import sample_pairs

from deepnmt.cli import clean
from deepnmt.corpus.cleaning.breaking import FAULTS, broken
from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.corpus.cleaning.pair_classifier import PairClassifier, features, measure_all, train
from deepnmt.corpus.cleaning.pair_lexicon import PairLexicon
from deepnmt.corpus.cleaning.pair_measures import Fitted
from deepnmt.errors import UserError

LANGUAGES = ("de", "en")


def pairs_of(lines: list[tuple[str, str]]) -> Pairs:
    return Pairs([line[0] for line in lines], [line[1] for line in lines], LANGUAGES)


@pytest.fixture(scope="module")
def trained() -> tuple[Fitted, PairClassifier]:
    corpus = pairs_of(sample_pairs(1500, seed=1))
    fitted = Fitted.of(corpus)
    return fitted, train(corpus, fitted, 1)


def area(good: np.ndarray, bad: np.ndarray) -> float:
    """The share of good and bad pairs of which the good one has the higher score."""
    return float(((good[:, None] > bad[None]) + 0.5 * (good[:, None] == bad[None])).mean())


def test_faults_of_unseen_pairs_have_lower_scores(trained: tuple[Fitted, PairClassifier]) -> None:
    fitted, classifier = trained
    lines = sample_pairs(400, seed=2)
    scores = {
        kind: classifier(measure_all(pairs_of(made), fitted, classifier.measures))
        for kind, made in [("good", lines), *((k, [broken(k, lines, row, 7) for row in range(400)]) for k in FAULTS)]
    }
    areas = {kind: area(scores["good"], scores[kind]) for kind in FAULTS}
    assert min(areas[kind] for kind in ("copied", "language", "repeated", "numbers")) > 0.98, areas
    assert areas["cut"] > 0.9, areas
    # Lengths alone say a little about it.
    assert areas["shuffled"] > 0.55, areas
    for kind in FAULTS:
        assert classifier.areas[kind] == pytest.approx(areas[kind], abs=0.08)


def test_scores_are_the_formula_and_the_file_keeps_them(trained: tuple[Fitted, PairClassifier], tmp_path: Path) -> None:
    fitted, classifier = trained
    values = measure_all(pairs_of(sample_pairs(5, seed=3)), fitted, classifier.measures)
    rows = features(values, classifier.measures)
    for row, score in zip(rows, classifier(values)):
        terms = zip(row, classifier.mean, classifier.scale, classifier.weights)
        assert score == pytest.approx(classifier.bias + sum(w * (x - m) / s for x, m, s, w in terms), rel=1e-5)
    classifier.write(tmp_path / "classifier.json", LANGUAGES)
    again = PairClassifier.read(tmp_path / "classifier.json", LANGUAGES)
    assert again == classifier


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": 2}, r"'format' must be 1, but is 2"),
        ({"languages": ["en", "de"]}, r"must be a classifier of de to en, but is of en to de"),
        ({"measures": ["length", "weight"]}, r"'measures' must be of length, .*, but has weight"),
        ({"weights": [1.0]}, r"'weights' must be 19 numbers, but is not"),
        ({"bias": "x"}, r"'bias' must be a number, but is"),
    ],
)
def test_faulty_files_are_refused(
    trained: tuple[Fitted, PairClassifier], tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    path = tmp_path / "classifier.json"
    trained[1].write(path, LANGUAGES)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(UserError, match=message):
        PairClassifier.read(path, LANGUAGES)


def test_one_that_has_learnt_from_lexicons_needs_them(tmp_path: Path) -> None:
    for name, header in (("forward", "source\ttarget"), ("reverse", "target\tsource")):
        (tmp_path / f"lexicon.{name}.tsv").write_text(f"{header}\tprobability\nein\ta\t0.5\na\tein\t0.5\n")
    corpus = pairs_of(sample_pairs(120, seed=1))
    plain = Fitted.of(corpus)
    classifier = train(corpus, Fitted(plain.ratio, plain.characters, PairLexicon.read(tmp_path)), 1)
    assert classifier.measures[-1] == "partners"
    with pytest.raises(UserError, match=r"x\.json: must be given with --lexicon, since it has learnt with it"):
        classifier.check(Path("x.json"), plain)


def test_pairs_that_are_not_broken_are_no_examples_of_faults() -> None:
    # Of one word a side and equal, so that they can be neither cut nor copied.
    equal = [(f"w{row}", f"w{row}") for row in range(600)]
    usual = sample_pairs(600, seed=1)
    corpus = pairs_of([pair for both in zip(equal, usual) for pair in both])
    assert list(FAULTS)[2] == "copied"
    made = train(corpus, Fitted.of(corpus), 1)
    # Of six pairs in turn, the third is to be a copy, and is an equal one.
    assert set(made.areas) == {"all", *FAULTS} - {"copied"}
    with pytest.raises(UserError, match="100 pairs to learn from, but has 96"):
        train(pairs_of(equal[:144]), Fitted.of(corpus), 1)


def test_too_few_pairs_are_refused() -> None:
    corpus = pairs_of(sample_pairs(99, seed=1))
    with pytest.raises(UserError, match="--train-classifier must have 100 pairs to learn from, but has 99"):
        train(corpus, Fitted.of(corpus), 1)


def test_the_seed_of_a_command_reaches_its_options() -> None:
    words = ["--input=a", "--output=b", "--source-lang=de", "--target-lang=en", "--train-classifier", "--seed=7"]
    assert clean.options_of(clean.parser().parse_args(words)).seed == 7
    without = [word for word in words if word != "--train-classifier"]
    with pytest.raises(UserError, match=r"^--seed needs --train-classifier$"):
        clean.options_of(clean.parser().parse_args([*without, "--dedup=pair"])).check()
