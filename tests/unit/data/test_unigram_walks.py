"""`--unigram-sampling`: the probability of each cut by enumeration, and the text of each epoch."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from support.cut_data import cut_folder

from deepnmt.data.recut_text import LineDraws, RecutText
from deepnmt.data.unigram_walks import UnigramWalks
from deepnmt.errors import UserError
from deepnmt.text.unigram import Unigram
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

# log P of pieces; </w> ends a word.
LOG_PROBS = {
    "a": -2.0,
    "b": -2.5,
    "ab": -3.0,
    "abc</w>": -5.0,
    "bc</w>": -3.5,
    "c</w>": -2.2,
    "ba": -4.0,
    "a</w>": -2.1,
}
LOG_PROBS |= {"aba</w>": -4.5, "ab</w>": -3.3, "b</w>": -2.4}
TYPES = ["a@@", "b@@", "ab@@", "abc", "bc", "c", "ba@@", "a", "aba", "ab", "b"]


def cuts(word: str) -> Iterator[tuple[str, ...]]:
    """All ways to divide a word."""
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        yield from ((word[:end], *rest) for rest in cuts(word[end:]))


def expected(word: str, sharpness: float, types: list[str]) -> dict[tuple[str, ...], float]:
    """The probability of each cut, as its pieces are called in the dictionary."""
    weights = {}
    for *inner, last in cuts(word):
        names = (*(f"{piece}@@" for piece in inner), last)
        log_probs = [LOG_PROBS.get(piece, -math.inf) for piece in (*inner, f"{last}</w>")]
        if set(names) <= set(types):
            weights[names] = math.exp(sharpness * sum(log_probs))
    return {names: weight / sum(weights.values()) for names, weight in weights.items() if weight}


def walks(sharpness: float, types: list[str]) -> UnigramWalks:
    return UnigramWalks(Unigram(LOG_PROBS), {name: number for number, name in enumerate(types)}, sharpness)


@pytest.mark.parametrize("sharpness", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("word", ["abc", "aba", "abab", "b"])
@pytest.mark.parametrize("lacking", [[], ["ab@@"]])
def test_each_cut_is_as_probable_as_by_enumeration(word: str, sharpness: float, lacking: list[str]) -> None:
    types = [name for name in TYPES if name not in lacking]
    wanted = expected(word, sharpness, types)
    number = 40_000
    made = walks(sharpness, types)
    made.start("ba")  # another word's states stand before
    draw = LineDraws((1, 2), np.arange(number), np.zeros(number, int))
    ends = made.walk(np.full(number, made.start(word)), draw)
    found = {
        tuple(types[piece] for piece in made.pieces_of(np.array([state]))[0]): int(count)
        for state, count in zip(*np.unique(ends, return_counts=True))
    }
    assert found.keys() <= wanted.keys()
    if len(wanted) == 1:
        assert found == dict.fromkeys(wanted, number)
        return
    observed = [found.get(names, 0) for names in wanted]
    assert chisquare(observed, [number * share for share in wanted.values()]).pvalue > 1e-4


@pytest.mark.parametrize("sharpness", [0.1, 1.0])
def test_cuts_drawn_beforehand_have_the_same_probabilities(sharpness: float) -> None:
    random.seed(3)
    wanted, number = expected("aba", sharpness, TYPES), 5_000
    found = Counter(tuple(Unigram(LOG_PROBS).drawn("aba", sharpness)) for _ in range(number))
    named = {tuple(name.removesuffix("@@") for name in names): share for names, share in wanted.items()}
    assert found.keys() <= named.keys()
    assert chisquare([found[cut] for cut in named], [number * share for share in named.values()]).pvalue > 1e-4
    # An unknown character is a piece of its own.
    assert "".join(Unigram(LOG_PROBS).drawn("axb", 0.1)) == "axb"


def test_the_smallest_and_the_largest_draw_stay_within_a_state() -> None:
    made = walks(1.0, TYPES)
    starts = np.array([made.start(word) for word in ("abc", "aba", "abab", "bc")])
    for value in (2.0**-53, 1.0):
        ends = made.walk(starts, lambda walking, step, value=value: np.full(len(walking), value))  # type: ignore[misc]
        pieces, lengths = made.pieces_of(ends)
        text = " ".join(TYPES[piece] for piece in pieces).replace("@@ ", "").split()
        assert text == ["abc", "aba", "abab", "bc"]
        assert lengths.min() > 0


def test_without_sampling_a_word_has_its_best_cut() -> None:
    made = walks(1.0, TYPES)
    # -5 against -5.2 and -5.5; -4.5 against -5.1.
    for word, best in (("abc", ["abc"]), ("aba", ["aba"]), ("abb", ["ab@@", "b"])):
        pieces, _ = made.pieces_of(np.array([made.plain(word)]))
        assert [TYPES[piece] for piece in pieces] == best


def test_words_with_another_cut_keep_it() -> None:
    types = ["<s>", "<pad>", "</s>", "<unk>", *TYPES]
    number = {name: place for place, name in enumerate(types)}
    lines = [[number["abc"], 2], [number["a@@"], number["bc"], 2], [3, 2], *[[number["aba"], 2]] * 9]
    text = RecutText(lines, types, UnigramWalks(Unigram(LOG_PROBS), number, 0.1), 9)
    text.cut((1,))
    # `a@@ bc` is not the best cut, as for a protected name.
    assert [text[line].tolist() for line in (1, 2)] == lines[1:3]
    assert any(text[line].tolist() != lines[line] for line in range(3, 12))
    with pytest.raises(
        UserError, match=r"^--unigram-sampling: the codes of DATA must match its training text, but 67%"
    ):
        RecutText(
            [[number["a@@"], number["bc"], number["a@@"], number["bc"], 2]] * 9,
            types,
            UnigramWalks(Unigram(LOG_PROBS), number, 0.1),
            9,
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose text is cut by a unigram model of characters and the pieces of its BPE."""
    folder = tmp_path_factory.mktemp("unigram") / "data"
    # Without merges, characters: the best cuts of a model that has nothing else.
    cut_folder(folder, merges=1)
    symbols = [line.split()[0] for line in (folder / "dict.de.txt").read_text("utf-8").splitlines()]
    pieces = {name.removesuffix("@@") if name.endswith("@@") else f"{name}</w>" for name in symbols}
    text = "".join(f"{piece}\t{-1.0 if len(piece.removesuffix('</w>')) == 1 else -1.5}\n" for piece in sorted(pieces))
    (folder / "codes").write_text(f"#unigram\n{text}", encoding="utf-8")
    return folder


def task(data: Path, **more: Any) -> DeepTranslationTask:
    options = {
        "source_lang": "de",
        "target_lang": "en",
        "dataset_impl": "mmap",
        "required_seq_len_multiple": 1,
        "seed": 1,
    }
    return DeepTranslationTask.setup_task(DeepTranslationConfig(data=str(data), **{**options, **more}))


def sides(made: DeepTranslationTask, epoch: int) -> list[list[str]]:
    """The sentences of both sides in an epoch, in pieces."""
    if "train" not in made.datasets:
        made.load_dataset("train", combine=True)
    pairs = made.dataset("train")
    pairs.set_epoch(epoch)
    return [
        [" ".join(made.src_dict.symbols[token] for token in pairs[line][side]) for line in range(len(pairs))]
        for side in ("source", "target")
    ]


def test_each_epoch_has_other_cuts_of_the_same_words(data: Path) -> None:
    plain, made = sides(task(data), 1), task(data, unigram_sampling=0.1)
    first, second = sides(made, 1), sides(made, 2)
    for number in range(2):
        assert plain[number] != first[number] != second[number]
        joined = [[line.replace("@@ ", "") for line in text[number]] for text in (plain, first, second)]
        assert joined[0] == joined[1] == joined[2]
    assert sides(task(data, unigram_sampling=0.1), 2) == second
    source = sides(task(data, unigram_sampling=0.1, bpe_dropout_side="source"), 2)
    assert source == [second[0], plain[1]]


def test_other_codes_and_options_are_refused(data: Path, tmp_path: Path) -> None:
    merges = cut_folder(tmp_path / "data")
    with pytest.raises(UserError, match=r"^--unigram-sampling needs a folder of deepnmt preprocess --subwords unigram"):
        sides(task(merges, unigram_sampling=0.1), 1)
    with pytest.raises(UserError, match=r"^--unigram-sampling must be a finite number of at least 0, but is -1"):
        task(data, unigram_sampling=-1.0)
    with pytest.raises(UserError, match=r"^--unigram-sampling cannot be combined with --bpe-dropout$"):
        task(data, unigram_sampling=0.1, bpe_dropout=0.1)
    with pytest.raises(UserError, match=r"^--truncate-source cannot be combined with --unigram-sampling$"):
        task(data, unigram_sampling=0.1, truncate_source=True)
