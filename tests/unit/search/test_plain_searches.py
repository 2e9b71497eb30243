"""Options of the search against searches written for reading; both fairseq's generator and the package's."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from support.models import PRE_NORM
from support.plain_search import EOS, assert_found, beam_search, following, group_search, in_range, repeats
from support.searched_models import FEW, SENTENCES, model, sample
from support.searching_task import Task

from deepnmt.errors import UserError
from deepnmt.search.generator import BeamGenerator

LONGEST = 6
SOME = SENTENCES[:4]


@pytest.fixture(scope="module")
def net() -> Any:
    return model(PRE_NORM, seed=3)


@pytest.fixture(scope="module")
def says(net: Any) -> list[Any]:
    return [following(net, sentence) for sentence in SOME]


def translate(net: Any, **options: Any) -> list[Any]:
    """As fairseq-generate does; the numbers of the sentences are their places in the data, which is longer."""
    settings = Namespace(**{"beam": 4, "max_len_b": LONGEST, **options})
    batch = {**sample(SOME), "id": torch.arange(len(SOME)) + 70}
    with torch.no_grad():
        return Task().build_generator([net], settings).generate([net], batch)


OWN = pytest.mark.parametrize("own", [True, False], ids=["the package's search", "fairseq's"])


@OWN
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_twice(own: bool, size: int, net: Any, says: list[Any]) -> None:
    found = translate(net, no_repeat_ngram_size=size, min_len=5, no_beamable_mm=not own)
    free = translate(net, min_len=5, no_beamable_mm=not own)
    for results, before, log_probs in zip(found, free, says):

        def once(words: tuple[int, ...], log_probs: Any = log_probs) -> dict[int, float]:
            return {token: value for token, value in log_probs(words).items() if not repeats(words, token, size)}

        assert_found(results, beam_search(in_range(once, 5, LONGEST), 4))
        assert any(repeats(tuple(each["tokens"][:n].tolist()), int(each["tokens"][n]), size)
                   for each in before for n in range(len(each["tokens"]))) or size == 3  # fmt: skip


def test_the_package_searches_itself(net: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequenceGenerator, "_generate", None)
    assert len(translate(net, no_repeat_ngram_size=2)) == len(translate(net, match_source_len=True)) == len(SOME)


def test_a_given_prefix_may_repeat_itself(net: Any) -> None:
    prefix = torch.tensor([[5, 6, 5, 6]] * len(SOME))
    generator = Task().build_generator([net], Namespace(beam=3, max_len_b=LONGEST, no_repeat_ngram_size=2))
    with torch.no_grad():
        found = generator.generate([net], sample(SOME), prefix_tokens=prefix)
    for hypothesis in (each for results in found for each in results):
        words = hypothesis["tokens"].tolist()
        assert words[:4] == [5, 6, 5, 6]
        assert not any(repeats(tuple(words[:n]), words[n], 2) for n in range(4, len(words)))
        assert torch.isfinite(hypothesis["score"])


@pytest.mark.parametrize(
    ("beam", "groups", "strength"), [(4, 2, 0.0), (4, 4, 0.5), (4, 2, 0.5), (6, 3, 0.5), (4, 4, 2.0), (4, 2, 2.0)]
)
def test_groups(beam: int, groups: int, strength: float, net: Any, says: list[Any]) -> None:
    found = translate(net, beam=beam, diverse_beam_groups=groups, diverse_beam_strength=strength)
    for results, log_probs in zip(found, says):
        assert_found(results, group_search(in_range(log_probs, 1, LONGEST), beam, groups, strength))
        assert [each["tokens"].tolist().count(EOS) for each in results] == [1] * beam


def test_one_group_is_a_plain_search(net: Any, says: list[Any]) -> None:
    for results, log_probs in zip(translate(net, diverse_beam_groups=1), says):
        assert_found(results, beam_search(in_range(log_probs, 1, LONGEST), 4))


@pytest.mark.parametrize("rate", [0.4, 3.0])
def test_siblings(rate: float, net: Any, says: list[Any]) -> None:
    """Li 2016, arXiv 1611.08562: a continuation pays for its rank among those of the same hypothesis."""
    for results, log_probs in zip(translate(net, diversity_rate=rate), says):
        assert_found(results, beam_search(in_range(log_probs, 1, LONGEST), 4, lambda rank: rate * rank))


def test_translations_as_long_as_their_sources(net: Any, says: list[Any]) -> None:
    for results, sentence, log_probs in zip(translate(net, match_source_len=True), SOME, says):
        words = len(sentence)
        assert_found(results, beam_search(in_range(log_probs, words, words), 4))


def test_lengths_of_sources_need_the_package_s_search(net: Any) -> None:
    with pytest.raises(UserError, match=r"^--match-source-len cannot be combined with --no-beamable-mm$"):
        translate(net, match_source_len=True, no_beamable_mm=True)
    generator = Task().build_generator([net], Namespace(match_source_len=True))
    with pytest.raises(UserError, match=r"^--match-source-len cannot be used: translations have a given"):
        generator.generate([net], sample(SOME), prefix_tokens=torch.tensor([[5]] * len(SOME)))


def test_a_source_longer_than_translations(net: Any) -> None:
    generator = BeamGenerator([net], FEW, match_source_len=True, search_strategy=None, max_len=5)
    generator.search = Task().build_generator([net], Namespace(match_source_len=True)).search
    with pytest.raises(UserError, match=r"^--match-source-len: a source of 7 words is longer than .* may be, 4$"):
        generator.generate([net], sample(SOME))


def test_top_k_and_top_p(net: Any, says: list[Any]) -> None:
    """Each sampled word is among those that it may be drawn from, and the scores are the model's."""
    for options in ({"sampling_topk": 3}, {"sampling_topp": 0.6}):
        torch.manual_seed(1)
        for results, log_probs in zip(translate(net, beam=2, max_len_b=4, sampling=True, **options), says):
            for hypothesis in results:
                words = hypothesis["tokens"].tolist()
                for n, token in enumerate(words):
                    values = in_range(log_probs, 1, 4)(tuple(words[:n]))
                    ranked = sorted(values, key=lambda each, values=values: -values[each])
                    mass = [sum(2.718281828 ** values[each] for each in ranked[:m]) for m in range(len(ranked))]
                    among = ranked[:3] if "sampling_topk" in options else [w for w, m in zip(ranked, mass) if m < 0.6]
                    assert token in among
                    assert float(hypothesis["positional_scores"][n]) == pytest.approx(values[token], abs=1e-4)
