"""A corpus with faults, for the tests of cleaning."""

from pathlib import Path
from random import Random

import pytest
from grammar.generate import sample_pairs
from support.cleaned_corpora import write

from deepnmt.corpus.cleaning.breaking import FAULTS, broken


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A corpus of 3,000 good pairs and 1,500 with faults of six kinds, and the kinds of its lines."""
    good, random = sample_pairs(3000, seed=1), Random(2)
    kinds = [kind for kind in FAULTS for _ in range(250)]
    bad = [broken(kind, good, row, 1) for kind, row in zip(kinds, random.sample(range(3000), len(kinds)))]
    corpus = [*zip(["good"] * 3000, good), *zip(kinds, bad)]
    random.shuffle(corpus)
    prefix = write(tmp_path_factory.mktemp("dirty") / "corpus", [pair for _, pair in corpus])
    return prefix, [kind for kind, _ in corpus]
