"""`deepnmt clean` ranks pairs by one score out of many, and keeps the best."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from grammar.generate import sample_pairs
from support.cleaned_corpora import GOOD, cleaned, read, table_of, write

from deepnmt.errors import UserError
from deepnmt.text.record import read_record
from deepnmt.text.words import words_of


@pytest.mark.slow
def test_a_classifier_leaves_the_faulty_pairs_out(dirty: tuple[Path, list[str]], tmp_path: Path) -> None:
    prefix, kinds = dirty
    scores = tmp_path / "scores.tsv"
    recipe = tmp_path / "recipe.txt"
    recipe.write_text("train-classifier\nkeep-best 0.5\n")
    kept = cleaned(prefix, tmp_path / "out", "--recipe", str(recipe), "--score", str(scores), "--chunk", "900")
    assert len(kept) == 2250
    table = table_of(scores)
    assert list(table)[:3] == ["length.de", "length.en", "ratio"]
    assert table["length.de"] == [len(german.split()) for german, _ in read(prefix)]
    order = sorted(range(len(kinds)), key=lambda line: -table["score"][line])
    assert sorted(read(prefix)[line] for line in order[:2250]) == sorted(kept)
    left = Counter(kinds[line] for line in order[:2250])
    assert max(left[kind] for kind in ("copied", "language", "repeated", "numbers")) <= 5, left

    # The same classifier for the same corpus gives the same scores.
    classifier = tmp_path / "out.classifier.json"
    again = tmp_path / "again.tsv"
    cleaned(prefix, tmp_path / "two", "--classifier", str(classifier), "--score", str(again), "--chunk", "900")
    assert table_of(again) == table
    page = (tmp_path / "out.report.html").read_text("utf-8")
    assert "score of the pair" in page
    assert page.count("<svg") == 1


def test_fluency_is_the_cross_entropy_of_the_language_models(tmp_path: Path) -> None:
    from deepnmt.corpus.ngram import arpa
    from deepnmt.corpus.ngram.kneser_ney import estimate

    prefix = write(tmp_path / "corpus", sample_pairs(300, seed=1))
    models = [estimate([words_of(pair[side], raw=True) for pair in sample_pairs(300, seed=2)], 2) for side in (0, 1)]
    for model, name in zip(models, ("de", "en")):
        arpa.write(tmp_path / f"{name}.arpa", model)
    options = ["--language-models", f"{tmp_path}/de.arpa {tmp_path}/en.arpa", "--score", str(tmp_path / "scores")]
    kept = cleaned(prefix, tmp_path / "out", "--fluency", "4", *options)
    table = table_of(tmp_path / "scores")
    for side, name in enumerate(("de", "en")):
        expected = models[side].cross_entropies(words_of(pair[side], raw=True) for pair in read(prefix))
        assert table[f"fluency.{name}"] == pytest.approx(expected, rel=1e-4)
    low = [max(both) <= 4 for both in zip(table["fluency.de"], table["fluency.en"])]
    assert kept == [pair for pair, there in zip(read(prefix), low) if there]
    assert 0 < len(kept) < 300


@pytest.mark.parametrize("least", [1, 3])
def test_words_that_would_be_unseen_are_kept_so_often_if_the_input_has_them(tmp_path: Path, least: int) -> None:
    random = Random(3)
    words = [f"w{number}" for number in range(150)]
    corpus = [(f"A {random.choice(words)}, b", f"c {random.choice(words)}.") for _ in range(400)] + [("", "x")]
    prefix = write(tmp_path / "corpus", corpus)
    ranks = tmp_path / "ranks.tsv"
    ranks.write_text("".join(f"{random.random():.3f}\n" for _ in corpus))
    options = ["--length", "1:9", "--rank-by", str(ranks), "--keep-best", "50", "--keep-unseen", str(least)]
    kept = cleaned(prefix, tmp_path / "out", *options, "--chunk", "60")
    for side in (0, 1):
        everything = Counter(word for pair in corpus[:-1] for word in re.findall(r"\w+", pair[side].lower()))
        counts = Counter(word for pair in kept for word in re.findall(r"\w+", pair[side].lower()))
        assert all(counts[word] >= min(least, number) for word, number in everything.items())
    numbers = read_record(Path(f"{tmp_path}/out.clean.json"))["counts"]
    assert numbers["kept"] == len(kept) == 50 + numbers["unseen"] < 400
    values = [float(line) for line in ranks.read_text().split()]
    best = sorted(range(400), key=lambda line: -values[line])[:50]
    assert {corpus[line] for line in best} <= set(kept)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keep-best", "0.5"], "--keep-best must be given with --train-classifier, --classifier or --rank-by"),
        (["--keep-best", "2.5", "--train-classifier"], "--keep-best must be a number of pairs, or a share such as 0.9"),
        (["--numbers", "--keep-unseen", "2"], "--keep-unseen must be given with --keep-best"),
        (["--numbers", "--keep-unseen", "x"], "--keep-unseen must be a whole number from 0 to 1000000, but is 'x'"),
        (["--numbers", "--rank-by", "x"], "--rank-by must be given with --keep-best"),
        (
            ["--train-classifier", "--rank-by", "x", "--keep-best", "2"],
            "--train-classifier must not be given with --rank-by",
        ),
        (["--fluency", "4"], "fluency must be given with --language-models, two files made by deepnmt ngram train"),
        (["--fluency", "4", "--language-models", "a"], "--language-models must be 2 files, of source and target"),
        (["--numbers", "--language-models", "a b"], "--language-models must be given with --fluency, --score"),
        (["--partners", "-4"], "partners must be given with --lexicon"),
        (["--partners", "-4", "--lexicon", "none"], "--lexicon must be a folder made by deepnmt align"),
        (["--numbers", "--lexicon", "none"], "--lexicon must be given with --partners, --score, --cl"),
        (["--numbers", "--classifier", "x"], "--classifier must be given with --keep-best or --score"),
    ],
)
def test_refused_ranking(tmp_path: Path, words: list[str], message: str) -> None:
    prefix = write(tmp_path / "corpus", GOOD)
    with pytest.raises(UserError, match=message):
        cleaned(prefix, tmp_path / "out", *words)
