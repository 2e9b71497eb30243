"""EM, against sums written out in dictionaries, and what must hold whatever the text."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import dirichlet
from support.parallel_corpora import Pairs, permuted_corpus, write_corpus

from deepnmt.corpus.alignment import learning as learning_module
from deepnmt.corpus.alignment import links as links_module
from deepnmt.corpus.alignment.best_links import PairAligner
from deepnmt.corpus.alignment.learning import Learning
from deepnmt.corpus.alignment.parallel_text import ParallelText
from deepnmt.corpus.alignment.word_table import BAYES, WordPairs

TWO_PAIRS: Pairs = [(["das", "Haus"], ["the", "house"]), (["das", "alte", "Buch"], ["the", "old", "book"])]
NULL = "(null)"
Table = dict[tuple[str, str], float]


def learn(folder: Path, pairs: Pairs, rounds: int = 5, workers: int = 1, learn_from: int = 10_000) -> Learning:
    folder.mkdir(exist_ok=True)
    prefix = write_corpus(folder / "text", pairs)
    text = ParallelText(Path(f"{prefix}.de"), Path(f"{prefix}.en"))
    result = Learning(folder, text, len(pairs), learn_from, rounds, workers)
    result.run()
    return result


def by_hand(pairs: Pairs, rounds: int) -> tuple[Table, list[float]]:
    """t(target|source) after EM with both models, and log P, or its bound, at the start of each round."""
    sources = {word for source, _ in pairs for word in source}
    targets = {word for _, target in pairs for word in target}
    together = {(x, y) for source, target in pairs for x in source for y in target}
    # One number on each side stands for words that were not learnt from.
    partners = {x: sum(1 for pair in together if pair[0] == x) for x in sources} | {NULL: len(targets) + 1}
    t: Table = {pair: 1 / (len(targets) + 1) for pair in together | {(NULL, y) for y in targets}}
    seen, divergence = [], 0.0
    for number in range(2 * rounds):
        diagonal, counts, log_p = number >= rounds, defaultdict(float), 0.0
        for source, target in pairs:
            for j, y in enumerate(target, start=1):
                near = [math.exp(-4 * abs(i / len(source) - j / len(target))) for i in range(1, len(source) + 1)]
                prior = (
                    [0.92 * each / sum(near) for each in near] if diagonal else [1 / (len(source) + 1)] * len(source)
                )
                joint = [weight * t[x, y] for weight, x in zip(prior, source)]
                joint.append((0.08 if diagonal else 1 / (len(source) + 1)) * t[NULL, y])
                log_p += math.log(sum(joint))
                for x, each in zip([*source, NULL], joint):
                    counts[x, y] += each / sum(joint)
        seen.append(log_p - (divergence if number > rounds else 0))
        totals = defaultdict(float)
        for (x, _), count in counts.items():
            totals[x] += count
        if not diagonal:
            t = {(x, y): counts[x, y] / totals[x] for x, y in t}
        elif number < 2 * rounds - 1:
            total = {x: totals[x] + 0.01 * partners[x] for x in partners}
            t = {(x, y): math.exp(digamma(counts[x, y] + 0.01) - digamma(total[x])) for x, y in t}
            divergence = sum(
                dirichlet_divergence([counts[x, y] + 0.01 for z, y in t if z == x] + [0.01] * (x == NULL))
                for x in partners
            )
        else:
            t = {(x, y): (counts[x, y] + 0.01) / (totals[x] + 0.01 * partners[x]) for x, y in t}
    return t, seen


def dirichlet_divergence(a: list[float]) -> float:
    """KL of a Dirichlet posterior from the symmetric prior with 0.01: its mean log density against the prior's."""
    posterior, prior = np.array(a), np.full(len(a), 0.01)
    log_t = digamma(posterior) - digamma(posterior.sum())
    density = [gammaln(each.sum()) - gammaln(each).sum() + ((each - 1) * log_t).sum() for each in (posterior, prior)]
    return float(density[0] - density[1])


def test_the_divergence_of_the_test_is_that_of_drawn_tables() -> None:
    a = np.array([1.5, 0.8, 2.0])
    drawn = np.random.default_rng(1).dirichlet(a, 4000)
    by_draws = np.mean([dirichlet.logpdf(t, a) - dirichlet.logpdf(t, np.full(3, 0.01)) for t in drawn])
    assert dirichlet_divergence(list(a)) == pytest.approx(by_draws, rel=0.02)


@pytest.mark.parametrize("turned", [False, True], ids=["forward", "reverse"])
def test_tables_and_likelihoods_are_those_of_em_written_out(tmp_path: Path, turned: bool) -> None:
    result = learn(tmp_path, TWO_PAIRS, rounds=2)
    pairs = [(target, source) for source, target in TWO_PAIRS] if turned else TWO_PAIRS
    table, seen = by_hand(pairs, rounds=2)
    assert [each["reverse" if turned else "forward"] for each in result.history()] == pytest.approx(seen, rel=1e-5)
    source, target = result.words("source").words(), result.words("target").words()
    word_pairs, tables = result.word_pairs(), result.tables()
    x, y = word_pairs.words(0, len(word_pairs.keys))
    values = tables.reverse if turned else tables.forward
    found = {(source[i], target[j]): float(t) for i, j, t in zip(x, y, values)}
    if turned:
        found = {(y_, x_): t for (x_, y_), t in found.items()}
    null = tables.reverse_null if turned else tables.forward_null
    found |= {(NULL, word): float(t) for word, t in zip(source if turned else target, null)}
    assert found == pytest.approx(table, rel=1e-4)


def test_neither_the_likelihood_nor_its_bound_ever_falls(tmp_path: Path) -> None:
    corpus, _ = permuted_corpus(300, types=40)
    # Pairs that do not fit, so that there is something left to learn in each round.
    corpus += [(source, target) for (source, _), (_, target) in zip(corpus[:60], corpus[60:120])]
    history = learn(tmp_path, corpus, rounds=8).history()
    for side in ("forward", "reverse"):
        values = [float(entry[side]) for entry in history]
        # The diagonal model begins with tables that are no posterior of its own.
        for part in (values[:8], values[9:]):
            assert all(after > before for before, after in zip(part, part[1:]))


def test_rows_of_the_final_tables_sum_to_one(tmp_path: Path) -> None:
    corpus, _ = permuted_corpus(200)
    result = learn(tmp_path, corpus, rounds=2)
    word_pairs, tables = result.word_pairs(), result.tables()
    x, y = word_pairs.words(0, len(word_pairs.keys))
    for owners, values in ((x, tables.forward), (y, tables.reverse)):
        sums = np.bincount(owners, values.astype(np.float64))
        np.testing.assert_allclose(sums, 1, rtol=1e-5)
    np.testing.assert_allclose([tables.forward_null.sum(), tables.reverse_null.sum()], 1, rtol=1e-4)


def test_a_permuted_copy_is_aligned_without_error(tmp_path: Path) -> None:
    corpus, gold = permuted_corpus(1500)
    result = learn(tmp_path, corpus)
    align = PairAligner(result.words("source"), result.words("target"), result.word_pairs(), result.tables())
    for found, links in zip(align(corpus), gold):
        assert set(found.forward) == set(found.reverse) == set(found.joined) == links
        assert found.share == 1


def test_scores_are_the_mean_log_probability_of_a_word(tmp_path: Path) -> None:
    table, _ = by_hand(TWO_PAIRS, rounds=3)
    result = learn(tmp_path, TWO_PAIRS, rounds=3)
    align = PairAligner(result.words("source"), result.words("target"), result.word_pairs(), result.tables())
    source, target = ["das", "neue", "Haus"], ["the", "house", "there"]
    found = align([([], []), (source, target)])
    log_p = []
    for j, y in enumerate(target, start=1):
        near = [math.exp(-4 * abs(i - j) / 3) for i in (1, 2, 3)]
        joint = [0.92 * each / sum(near) * table.get((x, y), 0) for each, x in zip(near, source)]
        # Of words that were not learnt from, null has what the table leaves for one word.
        null = table.get((NULL, y), 1 - sum(t for (x, _), t in table.items() if x == NULL))
        log_p.append(math.log(sum(joint) + 0.08 * null))
    assert found[1].forward_score == pytest.approx(np.mean(log_p), rel=1e-4)
    assert (found[0].joined, found[0].share) == ([], 0)
    assert found[0].forward_score < found[1].forward_score


@pytest.mark.parametrize("rounds_done", [0, 1])
def test_the_number_of_processes_and_a_kill_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds_done: int
) -> None:
    monkeypatch.setattr(links_module, "PIECE", 2_000)
    corpus, _ = permuted_corpus(200)
    one = learn(tmp_path / "one", corpus, rounds=2)

    class Killed(Exception):
        pass

    calls = 0

    def killed(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == rounds_done + 2:
            raise Killed("a later folder")
        stock(*arguments)  # type: ignore[arg-type]

    stock = learning_module._write_folder
    with monkeypatch.context() as patch:
        patch.setattr(learning_module, "_write_folder", killed)
        with pytest.raises(Killed, match="a later folder"):
            learn(tmp_path / "two", corpus, rounds=2, workers=2)
    begun = tmp_path / "two" / f"round-{rounds_done:02d}"
    assert begun.is_dir()
    assert len(list((tmp_path / "two").glob("links-*.npz"))) > 2
    two = learn(tmp_path / "two", corpus, rounds=2, workers=2)
    assert not begun.exists()
    for values, others in zip(one.tables(), two.tables()):
        assert values.tobytes() == others.tobytes()
    assert one.history() == two.history()


def test_pairs_to_learn_from_are_spread_over_the_text(tmp_path: Path) -> None:
    corpus = [([f"s{n}"], [f"t{n}"]) for n in range(10)]
    result = learn(tmp_path, corpus, rounds=1, learn_from=4)
    assert result.words("source").words() == ["s2", "s4", "s7", "s9"]


def test_divergence_of_blocks_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.array([0, 1, 2, 5, 7, 11])
    pairs = WordPairs(keys, sources=4, targets=3)
    counts = [np.linspace(0, 2, 6), np.linspace(1, 0, 6), np.array([0.5, 0, 1]), np.array([0, 1, 0, 2.0])]
    whole = pairs.estimate(counts, BAYES)
    monkeypatch.setattr("deepnmt.corpus.alignment.word_table.BLOCK", 2)
    parts = pairs.estimate(counts, BAYES)
    assert parts[1:] == pytest.approx(whole[1:])
    rows = [[0, 0.4, 0.8], [1.2], [1.6], [2.0], [0.5, 0, 1]]
    assert whole[1] == pytest.approx(sum(dirichlet_divergence([c + 0.01 for c in row]) for row in rows))
