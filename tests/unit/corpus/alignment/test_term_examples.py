"""Training pairs with inline targets out of aligned pairs."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import product

import pytest

from deepnmt.corpus.alignment import term_examples
from deepnmt.corpus.alignment.term_examples import TermExamples, term_spans
from deepnmt.text.inline_targets import AS, END, MARKS, TERM


def consistent(links: list[tuple[int, int]], sizes: tuple[int, int]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    """Koehn's definition, tried on all pairs of spans; the outermost words of both are linked."""
    spans = [[(i, j) for i in range(n) for j in range(i + 1, n + 1) if j - i <= 3] for n in sizes]
    found = set()
    for (a, b), (c, d) in product(*spans):
        inside = [(i, j) for i, j in links if a <= i < b and c <= j < d]
        outside = [(i, j) for i, j in links if (a <= i < b) != (c <= j < d)]
        rows, columns = {i for i, _ in inside}, {j for _, j in inside}
        if inside and not outside and {a, b - 1} <= rows and {c, d - 1} <= columns:
            found.add(((a, b), (c, d)))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_terms_are_linked_to_each_other_alone(seed: int) -> None:
    draw = random.Random(seed)
    sizes = draw.randint(1, 7), draw.randint(1, 7)
    links = sorted({(draw.randrange(sizes[0]), draw.randrange(sizes[1])) for _ in range(draw.randint(0, 8))})
    words = ["ab"] * sizes[0], ["cd"] * sizes[1]
    found = term_spans(*words, links)
    assert len(found) == len(set(found))
    assert set(found) == consistent(links, sizes)


@pytest.mark.parametrize("token", [".", "12", "<num>", "&quot;", "-"])
def test_signs_numbers_and_tags_are_no_terms(token: str) -> None:
    assert term_spans(["a", token], ["b", "c"], [(0, 0), (1, 1)]) == [((0, 1), (0, 1))]
    assert term_spans(["b", "c"], ["a", token], [(0, 0), (1, 1)]) == [((0, 1), (0, 1))]


def undone(source: str, target: str) -> tuple[str, list[tuple[str, str]]]:
    """The source without inline targets, and its terms; checks that the target has each translation."""
    words, terms, parts = [], [], source.split()
    while parts:
        word = parts.pop(0)
        if word != TERM:
            assert word not in MARKS
            words.append(word)
            continue
        middle, end = parts.index(AS), parts.index(END)
        term, translation = parts[:middle], parts[middle + 1 : end]
        words += term
        terms.append((" ".join(term), " ".join(translation)))
        assert f" {terms[-1][1]} " in f" {target} "
        parts = parts[end + 1 :]
    return " ".join(words), terms


def sentence(number: int) -> str:
    # Signs between the words, so that no term has two.
    return f"the dog{number} , sees , cat{number} , today"


def examples(share: float, lines: int = 400) -> tuple[TermExamples, list[tuple[str, str]]]:
    links = [(1, 0), (3, 1), (5, 2), (7, 3)]
    pairs = [
        (sentence(number), f"hund{number} sieht{number} katze{number} heute{number}", links) for number in range(lines)
    ]
    make = TermExamples(share)
    return make, list(make(pairs))


def test_sources_have_the_translations_that_targets_have() -> None:
    make, made = examples(1)
    numbers = []
    for number, (source, target) in enumerate(made):
        plain, terms = undone(source, target)
        assert plain == sentence(number)
        own = {f"dog{number}": f"hund{number}", f"cat{number}": f"katze{number}", "sees": f"sieht{number}"}
        own["today"] = f"heute{number}"
        strange = sum(own.get(term) != translation for term, translation in terms)
        numbers.append((len(terms), strange))
        assert len(target.split()) == 4
        assert strange or target == f"hund{number} sieht{number} katze{number} heute{number}"
    assert make.made.kept == len(made) == 400
    terms, strange = map(sum, zip(*numbers))
    assert make.made.terms == terms
    assert make.made.strange == strange
    assert make.made.strange / terms == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / terms))


def test_all_terms_of_a_pair_have_the_same_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_examples, "STRANGE", 0)
    _, made = examples(1)
    chosen = Counter(term.rstrip("0123456789") for pair in made for term, _ in undone(*pair)[1])
    assert set(chosen) == {"dog", "cat", "sees", "today"}
    deviation = math.sqrt(0.25 * 0.75 * chosen.total())
    assert all(abs(count - chosen.total() / 4) < 4 * deviation for count in chosen.values())


def test_a_share_of_the_pairs_whatever_the_others_are() -> None:
    make, made = examples(0.3)
    assert make.made.kept / 400 == pytest.approx(0.3, abs=0.1)
    plain = {undone(*pair)[0] for pair in made}
    # A pair's draw is its own.
    assert plain == {undone(*pair)[0] for pair in examples(0.3, 800)[1]} & set(map(sentence, range(400)))
