"""Beam searches that are written for reading: a sentence at a time, each prefix by a forward pass of its own.

What they search in is a model's whole decoder, not its incremental one: nothing is shared with the compared searches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from support.searched_models import FEW, sample

EOS, PAD = FEW.eos(), FEW.pad()
Words = tuple[int, ...]
# What follows a prefix: log-probabilities by type.
Following = Callable[[Words], dict[int, float]]
Found = list[tuple[Words, float]]


def following(net: Any, sentence: list[int]) -> Following:
    """What a model says of a sentence's translations; padding never comes."""
    inputs = sample([sentence])["net_input"]
    with torch.no_grad():
        encoded = net.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])

    @cache
    def log_probs(words: Words) -> dict[int, float]:
        with torch.no_grad():
            out = net.decoder(torch.tensor([[EOS, *words]]), encoder_out=encoded)
            values = net.get_normalized_probs(out, log_probs=True)[0, -1].tolist()
        return {token: value for token, value in enumerate(values) if token != PAD}

    return log_probs


def repeats(words: Words, token: int, size: int) -> bool:
    """Whether a token makes an n-gram stand twice."""
    extended = (*words, token)
    ngrams = [extended[start : start + size] for start in range(len(extended) - size + 1)]
    return token != EOS and len(ngrams) > 1 and ngrams[-1] in ngrams[:-1]


def in_range(log_probs: Following, shortest: int, longest: int) -> Following:
    """The same for translations of some lengths."""

    def limited(words: Words) -> dict[int, float]:
        values = log_probs(words)
        if len(words) >= longest:
            return {EOS: values[EOS]}
        return {token: value for token, value in values.items() if token != EOS or len(words) >= shortest}

    return limited


def best(candidates: list[tuple[Words, int, float]], number: int) -> list[tuple[Words, int, float]]:
    return sorted(candidates, key=lambda candidate: -candidate[2])[:number]


def beam_search(log_probs: Following, beam: int, rate: Callable[[int], float] = lambda rank: 0.0) -> Found:
    """Translations with the mean of their log-probabilities, the best first.

    `rate` is what the continuation of a hypothesis that is the rank-th best of it pays: zero for plain search.
    """
    active: Found = [((), 0.0)]
    finished: Found = []
    while len(finished) < beam and active:
        candidates = []
        for words, total in active:
            ranked = sorted(log_probs(words).items(), key=lambda entry: -entry[1])
            for rank, (token, value) in enumerate(ranked, 1):
                candidates.append((words, token, total + value - (rate(rank) if words else 0.0)))
        chosen = best(candidates, 2 * beam)
        finished += [(words, total / (len(words) + 1)) for words, token, total in chosen[:beam] if token == EOS]
        active = [((*words, token), total) for words, token, total in chosen if token != EOS][:beam]
    return sorted(finished[:beam], key=lambda entry: -entry[1])


def group_search(log_probs: Following, beam: int, groups: int, strength: float) -> Found:
    """Diverse beam search: equation 4 of arXiv 1610.02424, with fairseq's cumulative diversity."""
    places = beam // groups
    active: list[Found] = [[((), 0.0)] for _ in range(groups)]
    finished: list[Found] = [[] for _ in range(groups)]
    overlap = [[0] * groups for _ in range(groups)]
    while any(len(each) < places for each in finished):
        choices: dict[int, list[int]] = {}
        for group in range(groups):
            if len(finished[group]) >= places:
                continue
            price = {
                token: sum((1 + overlap[group][h]) * tokens.count(token) for h, tokens in choices.items())
                for tokens in choices.values()
                for token in tokens
            }
            candidates = [
                (words, token, total + value - strength * price.get(token, 0))
                for words, total in active[group]
                for token, value in log_probs(words).items()
            ]
            chosen = best(candidates, 2 * places)
            choices[group] = [token for _, token, _ in chosen[:places]]
            ended = [(words, total / (len(words) + 1)) for words, token, total in chosen[:places] if token == EOS]
            finished[group] += ended[: places - len(finished[group])]
            active[group] = [((*words, token), total) for words, token, total in chosen if token != EOS][:places]
        for one, other in ((a, b) for a in choices for b in choices):
            overlap[one][other] += sum(map(int.__eq__, choices[one], choices[other]))
    return sorted((entry for each in finished for entry in each), key=lambda entry: -entry[1])


def assert_found(results: Sequence[dict[str, Any]], wanted: Found) -> None:
    """Compare a generator's results for a sentence with those of a search above; equal scores may swap places."""
    found = [(tuple(each["tokens"].tolist()[:-1]), float(each["score"])) for each in results]
    assert sorted(words for words, _ in found) == sorted(words for words, _ in wanted)
    assert all(math.isclose(a[1], b[1], abs_tol=1e-5) for a, b in zip(found, wanted)), (found, wanted)
