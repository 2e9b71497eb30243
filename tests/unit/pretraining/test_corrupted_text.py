"""Masks of both kinds of pre-training: which tokens are hidden, by what, and which are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, ListDataset

from deepnmt.pretraining.corrupted_text import CorruptedText, Corruption
from deepnmt.pretraining.fragments import Fragments, fragment
from deepnmt.pretraining.masked_text import MaskedText

PAD, EOS, FIRST = 1, 2, 4
TYPES = 1000
MASK, GERMAN, ENGLISH = TYPES, TYPES + 1, TYPES + 2


class Draws:
    """A generator whose next uniform number, and whose next whole number, is known."""

    def __init__(self, uniform: float, whole: int = 0) -> None:
        self.uniform, self.whole = uniform, whole

    def random(self, size: int | None = None) -> Any:
        return self.uniform if size is None else np.full(size, self.uniform)

    def integers(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        assert self.whole < (low if high is None else high)
        return self.whole if size is None else np.full(size, self.whole)


def dictionary() -> Dictionary:
    result = Dictionary()
    for number in range(TYPES - FIRST):
        result.add_symbol(f"w{number}")
    for name in ("<mask>", "<de>", "<en>"):
        result.add_symbol(name)
    return result


def text(lengths: Sequence[int]) -> ListDataset:
    """Sentences of different words, in their order, each with its end symbol."""
    sentences = [torch.arange(FIRST, FIRST + length) for length in lengths]
    return ListDataset([torch.cat([each, torch.tensor([EOS])]) for each in sentences], [n + 1 for n in lengths])


def masked(lengths: Sequence[int], renewed: bool = True) -> MaskedText:
    return MaskedText(text(lengths), dictionary(), Corruption(MASK, FIRST, TYPES, 1), renewed, left_pad=True)


def fragments(lengths: Sequence[int], share: float = 0.5, renewed: bool = True) -> Fragments:
    half = len(lengths) // 2
    texts = [text(lengths[:half]), text(lengths[half:])]
    corruption = Corruption(MASK, FIRST, TYPES, 1)
    return Fragments(texts, [GERMAN, ENGLISH], dictionary(), corruption, renewed, True, share)


@pytest.mark.parametrize(("uniform", "found"), [(0.79, MASK), (0.8, 77), (0.89, 77), (0.9, None), (0.99, None)])
def test_80_10_10(uniform: float, found: int | None) -> None:
    tokens, chosen = np.arange(FIRST, FIRST + 6), np.array([1, 4])
    result = Corruption(MASK, FIRST, TYPES, 1)(tokens, chosen, Draws(uniform, 77))  # type: ignore[arg-type]
    expected = tokens.copy()
    if found is not None:
        expected[chosen] = found
    assert result.tolist() == expected.tolist()
    assert tokens.tolist() == list(range(FIRST, FIRST + 6))


def test_rates_over_many_draws() -> None:
    tokens, every = np.full(100_000, 999), np.arange(100_000)
    result = Corruption(MASK, FIRST, TYPES, 1)(tokens, every, np.random.default_rng(1))
    for value, share in ((result == MASK, 0.8), (result == 999, 0.1), ((result != MASK) & (result != 999), 0.1)):
        assert value.mean() == pytest.approx(share, abs=0.005)
    assert result[result != MASK].min() >= FIRST
    assert result[result != MASK].max() < TYPES


# 15 % of 10 and of 30 are halves, rounded to the even number.
@pytest.mark.parametrize(("length", "words"), [(1, 1), (2, 1), (3, 1), (10, 2), (20, 3), (30, 4), (33, 5)])
def test_15_percent_of_the_words_are_predicted(length: int, words: int) -> None:
    data = masked([length] * 40)
    counts = np.zeros(length + 1)
    for index in range(40):
        item = data[index]
        chosen = item["target"].ne(PAD)
        assert int(chosen.sum()) == words
        original = data.src[index]
        # Chosen tokens alone are predicted, and others are never changed.
        assert item["target"][chosen].tolist() == original[chosen].tolist()
        assert item["source"][~chosen].tolist() == original[~chosen].tolist()
        counts += chosen.numpy()
    assert counts[-1] == 0
    assert length > 10 or counts[:-1].min() > 0


def test_an_empty_sentence_has_nothing_to_predict() -> None:
    item = masked([0])[0]
    assert (item["source"].tolist(), item["target"].tolist()) == ([EOS], [PAD])


def test_targets_are_padded_like_their_sources() -> None:
    data = masked([3, 7])
    batch = data.collater([data[0], data[1]])
    source, target = batch["net_input"]["src_tokens"], batch["target"]
    assert source.shape == target.shape == (2, 8)
    assert source[1, :4].tolist() == target[1, :4].tolist() == [PAD] * 4
    assert batch["ntokens"] == int(target.ne(PAD).sum())
    assert set(batch["net_input"]) == {"src_tokens", "src_lengths"}


# Tokens of a fragment, of sentences with 1 to 11 tokens.
FRAGMENTS = {
    0.1: (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    0.5: (1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6),
    0.75: (1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8),
    1.0: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
}


@pytest.mark.parametrize("length", range(1, 12))
@pytest.mark.parametrize("share", FRAGMENTS)
def test_masked_tokens_are_those_predicted(length: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every start: the encoder misses x_u .. x_v, and the decoder reads the tag and x_u .. x_{v-1} at u .. v."""
    size = FRAGMENTS[share][length - 1]
    monkeypatch.setattr(Corruption, "__call__", hides)
    data = fragments([length - 1, length - 1], share)
    for start in range(length - size + 1):
        monkeypatch.setattr(CorruptedText, "sentence", sentence_with(Draws(0.9, start)))
        for index, tag in ((0, GERMAN), (1, ENGLISH)):
            item, original = data[index], data.src[index].tolist()
            inside = list(range(start, start + size))
            assert [place for place, token in enumerate(item["source"].tolist()) if token == MASK] == inside
            assert item["target"].tolist() == [original[place] for place in inside]
            assert item["prev_output_tokens"].tolist() == [tag, *item["target"].tolist()[:-1]]
            assert data.collater([item])["net_input"]["places"].tolist() == [inside]


def hides(self: Corruption, tokens: Any, chosen: Any, draw: Any) -> Any:
    result = tokens.copy()
    result[chosen] = self.mask
    return result


def sentence_with(draws: Draws) -> Any:
    return lambda self, index: (self.src[index].numpy().copy(), draws)


def test_a_batch_of_fragments() -> None:
    data = fragments([3, 6, 5, 10])
    batch = data.collater([data[index] for index in range(4)])
    for row, index in enumerate(batch["id"].tolist()):
        item = data[index]
        size = len(item["target"])
        net_input = batch["net_input"]
        assert net_input["prev_output_tokens"][row, :size].tolist() == item["prev_output_tokens"].tolist()
        assert net_input["places"][row, :size].tolist() == list(range(item["start"], item["start"] + size))
        assert net_input["places"].max() < 11
        assert net_input["src_tokens"][row, -1] in (EOS, *range(FIRST, TYPES + 1))
    assert batch["ntokens"] == sum(len(data[index]["target"]) for index in range(4)) == 2 + 4 + 3 + 6


def test_starts_of_fragments() -> None:
    """20 % at the front, 20 % at the end, and the rest anywhere, the ends included."""
    draw = np.random.default_rng(1)
    starts = np.array([fragment(10, 0.5, draw)[0] for _ in range(20_000)])
    shares = np.bincount(starts, minlength=6) / len(starts)
    assert shares == pytest.approx([0.3, 0.1, 0.1, 0.1, 0.1, 0.3], abs=0.01)
    assert {fragment(7, 1.0, draw) for _ in range(50)} == {(0, 7)}
    assert {end - start for start, end in (fragment(9, 0.01, draw) for _ in range(50))} == {1}


@pytest.mark.parametrize("make", [masked, fragments])
def test_draws_belong_to_seed_epoch_and_sentence(make: Any) -> None:
    def sources(data: Any, epoch: int) -> list[list[int]]:
        data.set_epoch(epoch)
        return [data[index]["source"].tolist() for index in range(len(data))]

    lengths = [12] * 8
    first, again, still = make(lengths), make(lengths), make(lengths, renewed=False)
    assert sources(first, 2) == sources(again, 2)
    assert sources(first, 3) != sources(first, 2)
    assert sources(still, 2) == sources(still, 3) == sources(still, 0)
    assert len({tuple(each) for each in sources(first, 1)}) > 4
    other = make(lengths)
    other.corruption = Corruption(MASK, FIRST, TYPES, seed=2)
    assert sources(other, 2) != sources(first, 2)
