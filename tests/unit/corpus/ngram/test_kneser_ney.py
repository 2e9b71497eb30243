"""Kneser-Ney, against counts made by hand and the formula written out in dictionaries."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from deepnmt.corpus.ngram import arpa
from deepnmt.corpus.ngram.kneser_ney import FALLBACK, Text, count, discounts, estimate
from deepnmt.corpus.ngram.ngram_model import NgramModel
from deepnmt.errors import UserError

TEN = [line.split() for line in ("a b", "a b", "a c", "b c a", "a", "b b", "c a b", "a b c", "c", "b a")]
Gram = tuple[str, ...]


def zipf(lines: int, seed: int = 1) -> list[list[str]]:
    """Lines of words whose successors are drawn unevenly, so that all counts of counts are there."""
    draw = random.Random(seed)
    words = [f"w{n}" for n in range(60)]
    text = []
    for _ in range(lines):
        line = [draw.choice(words[:20])]
        while draw.random() > 0.15:
            line.append(words[min(int(draw.expovariate(0.3)) * (1 + len(line[-1])) % 60, 59)])
        text.append(line)
    return text


def by_hand(text: list[list[str]], order: int) -> tuple[dict[Gram, float], dict[Gram, float]]:
    """P of each n-gram's last word after the others, and gamma of each history."""
    lines = [["<s>", *line, "</s>"] for line in text]
    grams = [
        Counter(tuple(line[i : i + k]) for line in lines for i in range(len(line) - k + 1)) for k in range(order + 1)
    ]
    p: dict[Gram, float] = {}
    gammas: dict[Gram, float] = {}
    types = len(grams[1]) - 1 + 1  # without <s>, with <unk>
    for k in range(1, order + 1):
        adjusted = dict(grams[k])
        if k < order:
            before = defaultdict(set)
            for gram in grams[k + 1]:
                before[gram[1:]].add(gram[0])
            adjusted = {gram: grams[k][gram] if gram[0] == "<s>" else len(before[gram]) for gram in grams[k]}
        adjusted.pop(("<s>",), None)
        n = [sum(1 for a in adjusted.values() if a == i) for i in range(5)]
        d = [0, *FALLBACK]
        if all(n[1:]):
            y = n[1] / (n[1] + 2 * n[2])
            formula = [0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
            if all(0 <= value <= i for i, value in enumerate(formula)):
                d = formula
                assert d != [0, *FALLBACK]
        after = defaultdict(list)
        for gram in adjusted:
            after[gram[:-1]].append(gram)
        for history, followers in after.items():
            total = sum(adjusted[gram] for gram in followers)
            gammas[history] = sum(d[min(adjusted[gram], 3)] for gram in followers) / total
            for gram in followers:
                lower = p[gram[1:]] if k > 1 else 1 / types
                p[gram] = (adjusted[gram] - d[min(adjusted[gram], 3)]) / total + gammas[history] * lower
        if k == 1:
            p["<unk>",] = gammas[()] / types
    return p, gammas


def entries(model: NgramModel, size: int) -> dict[Gram, tuple[float, float]]:
    level = model.levels[size - 1]
    texts = arpa.texts(model, size, 0, len(level.keys))
    return {
        tuple(text.split()): (10**p, 10**b) for text, p, b in zip(texts, level.log_p.tolist(), level.backoff.tolist())
    }


def test_counts_of_ten_lines() -> None:
    text = Text.of(TEN)
    first, second, third = count(text, 3)
    number = {word: n for n, word in enumerate(text.words)}
    # Of single words: how many different ones each follows. a: <s> b c; b: <s> a b; c: <s> a b; </s>: a b c.
    assert [int(first.adjusted[number[word]]) for word in ("a", "b", "c", "</s>", "<unk>")] == [3, 3, 3, 3, 0]
    pairs = {
        (text.words[key // 6], text.words[key % 6]): int(a) for key, a in zip(second.keys.tolist(), second.adjusted)
    }
    assert pairs == {
        # begin lines: as often as they occur
        ("<s>", "a"): 5, ("<s>", "b"): 3, ("<s>", "c"): 2,
        # else by what stands before them: a b after <s> and c, b </s> after a and b, ...
        ("a", "b"): 2, ("a", "c"): 1, ("a", "</s>"): 3, ("b", "c"): 2, ("b", "b"): 1, ("b", "a"): 1, ("b", "</s>"): 2,
        ("c", "a"): 2, ("c", "</s>"): 3,
    }  # fmt: skip
    triples = {
        (*[text.words[n] for n in divmod(int(second.keys[key // 6]), 6)], text.words[key % 6]): int(a)
        for key, a in zip(third.keys.tolist(), third.adjusted)
    }
    assert triples["<s>", "a", "b"] == 3
    assert triples["a", "b", "</s>"] == 3
    assert sum(triples.values()) == sum(map(len, TEN))


def test_discounts_are_the_formula() -> None:
    # n_1..n_4 = 4, 3, 2, 1
    y = 4 / 10
    expected = (1 - 2 * y * 3 / 4, 2 - 3 * y * 2 / 3, 3 - 4 * y * 1 / 2)
    found, by_formula = discounts(np.array([0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 7]))
    assert by_formula
    assert found == pytest.approx(expected)
    assert discounts(np.array([1, 1, 2, 3, 9])) == (FALLBACK, False)
    assert discounts(np.array([1] * 2 + [2] * 9 + [3] * 90 + [4])) == (FALLBACK, False)


@pytest.mark.parametrize(("lines", "order"), [(TEN, 1), (TEN, 3), (zipf(400), 2), (zipf(400), 4)])
def test_probabilities_are_the_formula_written_out(lines: list[list[str]], order: int) -> None:
    p, gammas = by_hand(lines, order)
    model = estimate(lines, order)
    found: dict[Gram, tuple[float, float]] = {}
    for size in range(1, order + 1):
        found |= entries(model, size)
    assert found.pop(("<s>",))[0] == pytest.approx(1e-99, abs=1e-98)
    assert {gram: value[0] for gram, value in found.items()} == pytest.approx(p, rel=1e-5)
    backoff = {gram: value[1] for gram, value in found.items() if len(gram) < order}
    assert backoff == pytest.approx({gram: gammas.get(gram, 1) for gram in backoff}, rel=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_probabilities_sum_to_one_for_every_history(order: int) -> None:
    lines = zipf(120)
    model = estimate(lines, order)
    vocabulary = [word for word in model.words if word != "<s>"]
    histories = {
        tuple(line[i:j]) for line in lines for i in range(len(line)) for j in range(i, min(i + order, len(line)))
    }
    histories = set(sorted(histories)[::7]) | {(), ("never",), ("w1", "never", "w2")}
    for history in histories:
        total = 0.0
        for word in vocabulary:
            # The end cannot stand in a line: it is the last of what is predicted.
            score, _ = model.log_probabilities([[*history, word] if word != "</s>" else history])
            total += 10 ** score[len(history)]
        assert total == pytest.approx(1, abs=2e-5), history


def test_words_outside_a_given_vocabulary_are_unknown() -> None:
    model = estimate(TEN, 2, known={"a", "b"})
    assert model.words == ["<unk>", "<s>", "</s>", "a", "b"]
    assert model.log_probabilities([["c"]])[0][0] == model.log_probabilities([["zebra"]])[0][0]
    assert ("<s>", "<unk>") in entries(model, 2)
    more = estimate(TEN, 2, known={"z", "a", "b", "<s>"})
    assert more.words == ["<unk>", "<s>", "</s>", "a", "b", "z"]
    special = estimate([["<s>", "a"], ["</s>", "<unk>"]], 1)
    assert special.words == ["<unk>", "<s>", "</s>", "a"]


@pytest.mark.parametrize(("lines", "order"), [([["a", "b", "c"], ["b", "a", "c"]] * 60, 5), ([[], []], 2)])
def test_no_line_is_long_enough_for_the_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[list[str]], order: int
) -> None:
    model = estimate(lines, 6)
    assert f"the longest line has {order - 2} words; the order is {order}" in capsys.readouterr().err
    assert len(model.levels) == order
    arpa.write(tmp_path / "short.arpa", model)
    assert "ngram 6" not in (tmp_path / "short.arpa").read_text()
    expected = estimate(lines, order).cross_entropies(lines)
    np.testing.assert_allclose(arpa.read(tmp_path / "short.arpa").cross_entropies(lines), expected, rtol=1e-6)
    assert capsys.readouterr().err.count("the order is") == 0


def test_an_arpa_file_keeps_the_model(tmp_path: Path) -> None:
    lines = zipf(300)
    model = estimate(lines, 3)
    arpa.write(tmp_path / "a.arpa", model)
    again = arpa.read(tmp_path / "a.arpa")
    np.testing.assert_allclose(again.cross_entropies(lines), model.cross_entropies(lines), rtol=1e-6)
    arpa.write(tmp_path / "b.arpa", again)
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()


def test_white_space_that_is_not_ascii_is_part_of_a_word(tmp_path: Path) -> None:
    rows = ["-1\t<unk>", "-99\t<s>", "-1\t</s>", "-0.5\t10\u00a0000", "-0.75\t\u3000"]
    path = tmp_path / "a.arpa"
    path.write_text(
        "\n".join(["\\data\\", f"ngram 1={len(rows)}", "", "\\1-grams:", *rows, "", "\\end\\", ""]), "utf-8"
    )
    model = arpa.read(path)
    assert model.words[-2:] == ["10\u00a0000", "\u3000"]
    # log10 of the words and of </s>, in nats a word.
    np.testing.assert_allclose(model.cross_entropies([["\u3000"]]), [1.75 * np.log(10) / 2])


def test_an_order_without_n_grams_backs_off(tmp_path: Path) -> None:
    path = tmp_path / "a.arpa"
    rows = ["-1\t<unk>", "-99\t<s>\t-0.25", "-1\t</s>", "-0.5\ta\t-0.125"]
    heads = ["\\data\\", f"ngram 1={len(rows)}", "ngram 2=0", "ngram 3=0", "", "\\1-grams:", *rows]
    path.write_text("\n".join([*heads, "", "\\2-grams:", "", "\\3-grams:", "", "\\end\\", ""]), "utf-8")
    total = 0.25 + 0.5 + 0.125 + 1
    np.testing.assert_allclose(arpa.read(path).cross_entropies([["a"]]), [total * np.log(10) / 2], rtol=1e-6)


def test_a_text_whose_formula_leaves_nothing_for_other_words_has_a_model_that_can_be_read(tmp_path: Path) -> None:
    # Of trigrams n_1..n_4 = 4, 1, 1, 1, so that the formula's D(2) is 0, and `<s> t` would have no weight at all.
    lines = [line.split() for line in ["a b"] * 100 + ["p", "q", "r", "s"] + ["t"] * 2 + ["u"] * 3 + ["v"] * 4]
    y = 4 / 6
    assert 2 - 3 * y * 1 / 1 == 0
    model = estimate(lines, 3)
    arpa.write(tmp_path / "a.arpa", model)
    assert np.isfinite(arpa.read(tmp_path / "a.arpa").cross_entropies([["t", "a"]])).all()


BY_HAND = """\
a heading

\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.5
-0.6\t</s>
-0.4\ta\t-0.2
-0.9\tb

\\2-grams:
-0.3\t<s> a
-0.7\ta b
-0.1\tb </s>

\\end\\
"""


def test_perplexity_of_a_file_made_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "hand.arpa"
    path.write_text(BY_HAND)
    model = arpa.read(path)
    lines = ["a b", "b a", "", "a z a"]
    logs = [
        [-0.3, -0.7, -0.1],
        [-0.5 - 0.9, 0 - 0.4, -0.2 - 0.6],  # <s> b is not there; b has no weight, so 1
        [-0.5 - 0.6],
        [-0.3, -0.2 - 1.5, 0 - 0.4, -0.2 - 0.6],
    ]
    expected = [-math.log(10) * sum(line) / len(line) for line in logs]
    assert model.cross_entropies(line.split() for line in lines) == pytest.approx(expected)
    scores, lengths = model.log_probabilities([line.split() for line in lines])
    assert scores.tolist() == pytest.approx(list(itertools.chain(*logs)))
    assert lengths.tolist() == [3, 3, 1, 4]
    assert 10 ** (-scores.mean()) == pytest.approx(10 ** (-sum(map(sum, logs)) / 11))


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("\\data\\", "data", "19", r"the file must end with \\end\\, but ends here"),
        ("ngram 2=3", "ngram 3=3", "5", "must be the number of 2-grams, but is of 3-grams"),
        ("ngram 1=5\nngram 2=3\n", "", "5", r"must be 'ngram 1=' and a number, but is '\\1-grams:'"),
        ("\\1-grams:", "\\2-grams:", "7", r"must be \\1-grams:, but is '\\2-grams:'"),
        ("ngram 2=3", "ngram 2=2", "17", r"must be \\end\\ after 7 n-grams, but is '-0.1"),
        ("ngram 2=3", "ngram 2=4", "19", r"must be a logarithm and 2 words, but is '\\end\\'"),
        ("-0.7\ta b", "-0.7\ta b c", "16", "must be a logarithm and 2 words, but is '-0.7 a b c'"),
        ("-0.7\ta b", "x\ta b", "16", "the first and the last field must be logarithms, but are x and b"),
        ("-0.7\ta b", "0.7\ta b", "16", "the logarithm of a probability must be 0 or less, but is 0.7"),
        ("-0.7\ta b", "nan\ta b", "16", "the logarithm of a probability must be 0 or less, but is nan"),
        (
            "-0.4\ta\t-0.2",
            "-0.4\ta\t-inf",
            "11",
            "the logarithm of a back-off weight must be from -999 to 999, but is -inf",
        ),
        ("-0.7\ta b", "-0.7\ta z", "16", "all words must be among the 1-grams, but 'z' is not"),
        ("-0.7\ta b", "-0.7\tb </s>", "17", "an n-gram must stand once in a file, but this one stands twice"),
        ("-0.4\ta\t", "-0.4\tb\t", "12", "a word must stand once among the 1-grams, but one stands twice"),
        ("\n\\end\\\n", "", "17", r"the file must end with \\end\\, but ends here"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, old: str, new: str, line: str, message: str) -> None:
    path = tmp_path / "hand.arpa"
    assert old in BY_HAND
    path.write_text(BY_HAND.replace(old, new))
    with pytest.raises(UserError, match=rf"hand\.arpa:{line}: {message}"):
        arpa.read(path)
