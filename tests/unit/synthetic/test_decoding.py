"""Translating lines: drawn as the model says, the best there is, and the same whatever else is translated."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache

import pytest
import torch
from scipy.stats import chi2
from support.models import PRE_NORM, SIZE, batch, dictionary, scramble, task

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.synthetic.decoding import LineDecoder, Method
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

TYPES = dictionary(5)
EOS, PAD = TYPES.eos(), TYPES.pad()
LINE = "w1 w3 w0"


@cache
def model(seed: int = 1) -> DLCLTransformerModel:
    torch.manual_seed(seed)
    result = DLCLTransformerModel.build_model(
        DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **PRE_NORM}), task(TYPES)
    )
    scramble(result)
    with torch.no_grad():
        result.decoder.embed_tokens.weight *= 0.7  # the end comes soon
    return result.eval()


def decoder(method: Method, batch_size: int = 1000, longest: int = 2) -> LineDecoder:
    made = LineDecoder.of(DeepTranslationTask(DeepTranslationConfig(), TYPES, TYPES), [model()], method, batch_size)
    made.generator.max_len_b = longest
    return made


def log_probs(prefix: tuple[int, ...]) -> torch.Tensor:
    """The model's own, of what follows a prefix; the first token is not the end."""
    inputs = batch([TYPES.encode_line(LINE, append_eos=False, add_if_not_exist=False).tolist()], [list(prefix)])
    with torch.no_grad():
        logits = model()(**inputs)[0][0, -1].double()
    logits = logits.log_softmax(-1)
    logits[[PAD, EOS] if not prefix else [PAD]] = -math.inf
    return logits


def words(tokens: tuple[int, ...]) -> str:
    return " ".join(TYPES[token] for token in tokens)


def strings(top: int) -> dict[str, float]:
    """The probability of each string of one or two tokens, drawn from the `top` most probable ones of each step."""

    def distribution(prefix: tuple[int, ...]) -> dict[int, float]:
        values, tokens = log_probs(prefix).exp().topk(top)
        return dict(zip(tokens.tolist(), (values / values.sum()).tolist()))

    found = {}
    for first, one in distribution(()).items():
        for second, other in distribution((first,)).items():
            found[words((first,) if second == EOS else (first, second))] = one * other
    return found


@pytest.mark.parametrize(
    ("method", "top", "draws"), [(Method("sampling"), len(TYPES), 20_000), (Method("top-k", top=3), 3, 6_000)]
)
def test_samples_are_drawn_as_the_model_says(method: Method, top: int, draws: int) -> None:
    decode = decoder(method)
    found = Counter(best[0] for part in range(10) for best in decode([LINE] * (draws // 10), f"1 {part}") if best)
    expected = {string: draws * chance for string, chance in strings(top).items() if chance > 0}
    assert found.total() == draws
    assert found.keys() <= expected.keys()
    rare = [string for string, number in expected.items() if number < 8]
    cells = [(found[string], number) for string, number in expected.items() if string not in rare]
    cells += [(sum(found[string] for string in rare), sum(expected[string] for string in rare))] if rare else []
    assert len(cells) > 6
    statistic = sum((got - number) ** 2 / number for got, number in cells)
    assert chi2.sf(statistic, len(cells) - 1) > 1e-3


def test_a_beam_wider_than_all_strings_gives_their_order() -> None:
    # fairseq caps a beam at the number of types less one: most of 100 types never come, and 4 words are left.
    types = dictionary(96)
    torch.manual_seed(3)
    net = DLCLTransformerModel.build_model(DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **PRE_NORM}), task(types))
    scramble(net)
    net.eval()
    chosen = (4, 5, 6, 7)
    method = Method("beam", beam=90, nbest=84)
    made = LineDecoder.of(DeepTranslationTask(DeepTranslationConfig(), types, types), [net], method, 8)
    made.generator.max_len_b = 3
    others = [number for number in range(len(types)) if number not in (*chosen, EOS)]
    made.generator.token_indices_to_suppress = torch.tensor(others)

    source = types.encode_line(LINE, append_eos=False, add_if_not_exist=False).tolist()
    scores = {}
    for length in (1, 2, 3):
        for string in itertools.product(chosen, repeat=length):
            with torch.no_grad():
                table = net(**batch([source], [list(string)]))[0][0].double().log_softmax(-1)
            total = sum(float(table[place, token]) for place, token in enumerate([*string, EOS]))
            scores[" ".join(types[token] for token in string)] = total / (length + 1)
    assert len(scores) == 84
    assert made([LINE], "1") == [sorted(scores, key=lambda string: -scores[string])]


LINES = [" ".join(f"w{(place * 7 + number) % 5}" for place in range(1 + number % 4)) for number in range(23)]


@pytest.mark.parametrize("method", [Method("beam", beam=3), Method("greedy"), Method("sampling")])
def test_results_depend_on_lines_and_seed_alone(method: Method) -> None:
    decode, done = decoder(method, batch_size=4, longest=6), list[int]()
    found = decode(LINES, "1 0", done.append)
    assert sum(done) == len(LINES)
    decode(LINES[:5], "1 1")
    torch.rand(3)
    assert decoder(method, batch_size=4, longest=6)(LINES, "1 0") == found
    other = decode(LINES, "2 0")
    assert (other == found) == (method.name != "sampling")
    # Results stand in the order of the lines: each alone gives the same, but for the draws.
    if method.name != "sampling":
        assert [decode([line], "1 0")[0] for line in LINES] == found


def test_lines_beyond_the_positions_have_no_translation() -> None:
    decode = decoder(Method("greedy"))
    decode.longest = 4
    done = list[int]()
    found = decode(["w1 w2 w3 w4", "w1 w2 w3"], "1", done.append)
    assert found[0] is None
    assert found[1]
    assert sum(done) == 2
