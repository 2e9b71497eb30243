"""The package's beam search gives what fairseq's generator gives, and the model's own forward pass confirms it."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from support.models import PRE_NORM, batch, build_stock, dictionary, scramble
from support.searched_models import FEW, MANY, MODELS, SENTENCES, model, sample
from support.searching_task import Task
from support.slow import slow_but
from torch import Tensor

from deepnmt.kernels import fast_path
from deepnmt.model.norm_position import NORM_POSITIONS, NormPosition
from deepnmt.search import generator
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.incremental.one_source_steps import OneSourceAttentionSteps
from deepnmt.search.incremental.output_steps import OutputSteps
from deepnmt.search.supported import model_obstacle


def both(models: Any, words: Any = FEW, sentences: Sequence[list[int]] = SENTENCES, **options: Any) -> list[Any]:
    """The results of fairseq's generator and of the package's."""
    settings = {"beam_size": 5, "max_len_b": 30, **options}
    models = models if isinstance(models, list) else [models]
    kinds = (SequenceGenerator, BeamGenerator)
    with torch.no_grad():
        return [kind(models, words, **settings).generate(models, sample(sentences)) for kind in kinds]


def assert_same(stock: list[Any], own: list[Any], tolerance: float = 3e-5) -> None:
    assert [len(found) for found in own] == [len(found) for found in stock]
    for one, other in zip([h for found in own for h in found], [h for found in stock for h in found]):
        assert one.keys() == other.keys()
        assert one["tokens"].tolist() == other["tokens"].tolist()
        for name in ("score", "positional_scores", "attention"):
            kept = other[name] if other[name] is not None else torch.empty(0)
            torch.testing.assert_close(one[name], kept, atol=tolerance, rtol=0, check_dtype=name == "score")
        assert one["alignment"].numel() == other["alignment"].numel() == 0


@pytest.fixture
def own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where the package's generator leaves the search to fairseq's."""
    monkeypatch.setattr(BeamGenerator.__mro__[1], "_generate", wrapped(SequenceGenerator._generate))


def wrapped(stock: Any) -> Any:
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        assert type(self) is SequenceGenerator, "left to fairseq"
        return stock(self, *args, **kwargs)

    return generate


@pytest.mark.usefixtures("own_alone")
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_every_model(options: dict[str, Any]) -> None:
    stock, own = both(model(options))
    assert_same(stock, own)
    assert len({len(hypothesis["tokens"]) for found in own for hypothesis in found}) > 1, "too easy: all equally long"


@pytest.mark.usefixtures("own_alone")
def test_a_new_norm_position_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = NormPosition("fifth", before=True, after=True, layer_input=True)
    monkeypatch.setitem(NORM_POSITIONS, row.name, row)
    assert_same(*both(model({"decoder_norm": "fifth"})))


@pytest.mark.usefixtures("own_alone")
def test_model_of_fairseq() -> None:
    stock_model = build_stock({}).eval()
    scramble(stock_model)
    assert_same(*both(stock_model))


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "wide": {"beam_size": 11},
    "wider than the vocabulary": {"beam_size": 40},
    "unnormalized": {"normalize_scores": False},
    "length penalty": {"len_penalty": 0.4},
    "shortest": {"min_len": 6},
    "longest": {"max_len_a": 1.0, "max_len_b": 2},
    "one step": {"max_len_a": 0.0, "max_len_b": 1},
    "past the first room for keys": {"max_len_b": 60, "min_len": 40},
    "longest of the model": {"max_len": 9, "max_len_b": 200},
    "unknown words": {"unk_penalty": 3.0},
    "unknown words wanted": {"unk_penalty": -3.0},
    "temperature": {"temperature": 0.5},
    "suppressed": {"tokens_to_suppress": ("w3", "w4")},
    "other end": {"eos": 9},
}
WORDS = {"few types": FEW, "blocks of types": MANY}
BOTH = [(name, types) for name in SEARCHES for types in WORDS]


@pytest.mark.usefixtures("own_alone")
@pytest.mark.parametrize(("name", "types"), slow_but([*BOTH[::4], *BOTH[3::4]], BOTH))
def test_every_option_of_the_search(name: str, types: str) -> None:
    words = WORDS[types]
    assert_same(*both(model(PRE_NORM, words), words, **SEARCHES[name]))


@pytest.mark.usefixtures("own_alone")
@pytest.mark.parametrize("seed", slow_but(range(2), range(6)))
@pytest.mark.parametrize("types", [1, 2, 4])
def test_fewer_candidates_than_hypotheses(types: int, seed: int) -> None:
    """Of a few types, so many continuations end that others have to stand in for what is not there."""
    words, few = dictionary(types), [[4], [4 + types - 1, 4]]
    net = model(PRE_NORM, words, seed)
    for beam in (3, 4, 7):
        assert_same(*both(net, words, few, beam_size=beam, max_len_b=6, min_len=0))


@pytest.mark.usefixtures("own_alone")
def test_hardly_any_type_is_left() -> None:
    """Types that cannot come stand in for what is not there; of the columns after the last type, none may."""
    words = tuple(MANY[number] for number in range(MANY.nspecial + 4, len(MANY)))
    assert_same(*both(model(PRE_NORM, MANY), MANY, tokens_to_suppress=words))


@pytest.mark.usefixtures("own_alone")
def test_positions_that_end_with_the_longest_hypothesis() -> None:
    options = {"decoder_learned_pos": True, "max_target_positions": 9}
    stock, own = both(model(options), max_len_b=200, min_len=8)
    assert_same(stock, own)
    assert {len(hypothesis["tokens"]) for found in own for hypothesis in found} == {9}


def test_results_may_be_used_with_gradients() -> None:
    net = model(PRE_NORM)
    found = BeamGenerator([net], FEW, beam_size=5, max_len_b=30).generate([net], sample())
    for hypothesis in (hypothesis for hypotheses in found for hypothesis in hypotheses):
        assert not any(value.is_inference() for value in hypothesis.values())
    net.decoder.embed_tokens(found[0][0]["tokens"]).sum().backward()
    assert net.decoder.embed_tokens.weight.grad.abs().sum() > 0


@pytest.mark.usefixtures("own_alone")
def test_other_first_token() -> None:
    found = []
    for kind in (SequenceGenerator, BeamGenerator):
        search_ = kind([model(PRE_NORM)], FEW, beam_size=3, max_len_b=10)
        with torch.no_grad():
            found.append(search_.generate([], sample(), bos_token=7))
    assert_same(*found)
    assert found[0][0][0]["tokens"].tolist() != both(model(PRE_NORM), beam_size=3, max_len_b=10)[1][0][0][
        "tokens"
    ].tolist()  # fmt: skip


@pytest.mark.usefixtures("own_alone")
def test_ensemble() -> None:
    models = [model(PRE_NORM), model({"merged_attention": True}, seed=2)]
    assert_same(*both(models))


@pytest.mark.usefixtures("own_alone")
@pytest.mark.parametrize("sentences", [SENTENCES[:1], [SENTENCES[1], SENTENCES[1]], [list(range(4, 23))]])
def test_batches_without_padding(sentences: list[list[int]]) -> None:
    assert_same(*both(model(PRE_NORM), sentences=sentences))


@pytest.mark.usefixtures("own_alone")
@pytest.mark.parametrize("options", slow_but([*MODELS.values()][::3], MODELS.values()), ids=MODELS)
def test_one_short_sentence(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    """What becomes of its keys and values is multiplied by the weights, except where the attention is merged."""
    made: list[int] = []
    stock_init = OneSourceAttentionSteps.__init__
    monkeypatch.setattr(
        OneSourceAttentionSteps, "__init__", lambda self, *given: made.append(1) or stock_init(self, *given)
    )
    net = model(options)
    assert_same(*both(net, sentences=[[5, 6]]))
    others = options.keys() & {"merged_attention", "no_cross_attention", "shared_cross_attention"}
    assert len(made) == (0 if others else len(net.decoder.layers))
    made.clear()
    assert_same(*both(net, sentences=[[5, 6], [7, 8]]))
    assert_same(*both(net, sentences=[[5] * net.decoder.layers[0].head_dim]))
    assert not made


def test_attention_that_nobody_asks_for() -> None:
    net = model(PRE_NORM)
    plain, without = (
        BeamGenerator([net], FEW, beam_size=3, max_len_b=9, attention=asked).generate([net], sample())
        for asked in (True, False)
    )
    for one, other in zip([h for found in plain for h in found], [h for found in without for h in found]):
        assert one["attention"].numel()
        assert not other["attention"].numel()
        assert torch.equal(one["positional_scores"], other["positional_scores"])


@pytest.mark.usefixtures("own_alone")
def test_generator_is_used_again() -> None:
    searches = [kind([model(PRE_NORM)], FEW, beam_size=4, max_len_b=12) for kind in (SequenceGenerator, BeamGenerator)]
    with torch.no_grad():
        for sentences in (SENTENCES[:2], SENTENCES, SENTENCES[3:]):
            assert_same(*(found.generate([], sample(sentences)) for found in searches))


@pytest.mark.usefixtures("own_alone")
@pytest.mark.parametrize("options", [PRE_NORM, {"merged_attention": True}, MODELS["relative positions"]])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_scores_are_those_of_the_whole_sentence(options: dict[str, Any], dtype: torch.dtype) -> None:
    """In each type, the model is asked for the same hypotheses at once, without any cache."""
    net = model(options, MANY).to(dtype)
    own = BeamGenerator([net], MANY, beam_size=5, max_len_b=30)
    bound = {torch.float64: 1e-5, torch.bfloat16: 0.15, torch.float16: 0.02}[dtype]
    with torch.no_grad():
        for sentence, found in zip(SENTENCES, own.generate([net], sample())):
            for hypothesis in found:
                inputs = batch([sentence], [hypothesis["tokens"][:-1].tolist()])
                logits = net(**inputs)[0].float()
                expected = logits.log_softmax(-1)[0].gather(1, hypothesis["tokens"].unsqueeze(1))[:, 0]
                assert (hypothesis["positional_scores"] - expected).abs().max() < bound
                mean = hypothesis["positional_scores"].mean()
                assert float(hypothesis["score"]) == pytest.approx(float(mean), abs=1e-5)


def test_sentences_that_are_done_are_no_longer_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    net, rows = model(PRE_NORM), []
    stock = generator.DecoderSteps.__call__

    def count(self: Any, tokens: Tensor, step: Any) -> Tensor:
        rows.append(tokens.numel())
        return stock(self, tokens, step)

    monkeypatch.setattr(generator.DecoderSteps, "__call__", count)
    with torch.no_grad():
        found = BeamGenerator([net], FEW, beam_size=5, max_len_b=30).generate([net], sample())
    assert rows[0] == len(SENTENCES)
    # A sentence is done when five of its hypotheses are, of which the longest is the last.
    ends = [max(len(hypothesis["tokens"]) for hypothesis in hypotheses) for hypotheses in found]
    assert rows[1:] == [5 * sum(end > step for end in ends) for step in range(1, max(ends))]
    assert len(set(rows)) > 3


def test_freed_memory_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(generator, "keep_freed_memory", lambda: calls.append(True))
    with torch.no_grad():
        BeamGenerator([model(PRE_NORM)], FEW, beam_size=2).generate([], sample())
    assert calls


def test_log_probability_that_is_no_number_is_left_to_fairseq(monkeypatch: pytest.MonkeyPatch) -> None:
    net = model(PRE_NORM)
    # What comes after one of the types has no probability, and fairseq's search goes on without it.
    generated = both(net, max_len_b=5)[0][0][0]["tokens"][0]
    with torch.no_grad():
        net.decoder.embed_tokens.weight[generated] = float("nan")
    left = []
    monkeypatch.setattr(BeamGenerator, "_generate", counted(BeamGenerator._generate, left))
    assert_same(*both(net, max_len_b=5))
    assert left == [True]


def counted(own: Any, left: list[bool]) -> Any:
    def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        stock = SequenceGenerator._generate
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SequenceGenerator, "_generate", lambda *a, **k: left.append(True) or stock(*a, **k))
            return own(self, *args, **kwargs)

    return generate


LEFT: dict[str, dict[str, Any]] = {
    "sampling": {"search_strategy": search.Sampling(FEW)},
    "diverse": {"search_strategy": search.DiverseBeamSearch(FEW, 2, 0.5)},
}


@pytest.mark.parametrize("options", LEFT.values(), ids=LEFT)
def test_what_is_left_to_fairseq(options: dict[str, Any]) -> None:
    net, found = model(PRE_NORM), []
    for kind in (SequenceGenerator, BeamGenerator):
        torch.manual_seed(3)
        with torch.no_grad():
            found.append(kind([net], FEW, beam_size=4, max_len_b=8, **options).generate([net], sample()))
    assert_same(*found)


def test_prefixes_are_left_to_fairseq() -> None:
    net, prefix, found = model(PRE_NORM), torch.tensor([[5, 6]] * len(SENTENCES)), []
    for kind in (SequenceGenerator, BeamGenerator):
        with torch.no_grad():
            search_ = kind([net], FEW, beam_size=4, max_len_b=8)
            found.append(search_.generate([net], sample(), prefix_tokens=prefix))
    assert_same(*found)
    assert all(h["tokens"][:2].tolist() == [5, 6] for hypotheses in found[1] for h in hypotheses)


def test_models_that_are_left_to_fairseq() -> None:
    assert model_obstacle(model({})) is None
    assert model_obstacle(model({}).train()) == "the model is being trained"
    assert model_obstacle(model({"cross_self_attention": True})) == "the decoder has cross-self-attention"
    assert str(model_obstacle(model({}).encoder)).startswith("the model is not a Transformer")
    changed = model({})
    changed.decoder.layers[1].fc1 = torch.nn.Sequential(changed.decoder.layers[1].fc1)
    assert str(model_obstacle(changed)).startswith("a feed-forward sublayer")
    changed = model({})
    changed.decoder.layers[0].encoder_attn.v_proj = torch.nn.Sequential(changed.decoder.layers[0].encoder_attn.v_proj)
    assert str(model_obstacle(changed)).startswith("an attention")
    changed = model({})
    changed.decoder.layers[1].attn_ln = torch.nn.Identity()
    assert str(model_obstacle(changed)).startswith("a decoder layer")
    changed = model({})
    changed.decoder.layers[0].dropout_module.apply_during_inference = True
    assert str(model_obstacle(changed)).startswith("dropout")
    assert_same(*both(model({"cross_self_attention": True}), max_len_b=8))


def test_log_says_why_a_search_is_left_to_fairseq(caplog: pytest.LogCaptureFixture) -> None:
    fast_path.logged.clear()
    with caplog.at_level(logging.INFO, "deepnmt"):
        both(model(PRE_NORM), max_len_b=3)
        assert not [message for message in caplog.messages if "beam search" in message]
        both(model(PRE_NORM), max_len_b=3, search_strategy=search.Sampling(FEW))
        both(model(PRE_NORM), max_len_b=3, search_strategy=search.Sampling(FEW))
    (message,) = [message for message in caplog.messages if "beam search" in message]
    assert message == "fast beam search is not used: Sampling is not plain beam search"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, BeamGenerator),
        ({"beam": 3, "lenpen": 0.5}, BeamGenerator),
        ({"no_beamable_mm": True}, SequenceGenerator),
        ({"print_alignment": "hard"}, SequenceGeneratorWithAlignment),
    ],
)
def test_tasks_build_it(options: dict[str, Any], kind: type) -> None:
    built = Task().build_generator([model({})], Namespace(**options))
    assert type(built) is kind
    if "beam" in options:
        assert (built.beam_size, built.len_penalty) == (3, 0.5)


def test_own_generator_of_a_task_is_kept() -> None:
    built = Task().build_generator([model({})], Namespace(), seq_gen_cls=SequenceGenerator)
    assert type(built) is SequenceGenerator


def test_an_adaptive_softmax_of_half_precision_is_summed_in_float32() -> None:
    net = model({"adaptive_softmax_cutoff": "8,16"}).bfloat16()
    features = torch.randn(3, net.decoder.output_embed_dim, dtype=torch.bfloat16)
    steps: Any = None  # of the decoder, of which the general way reads nothing
    found = OutputSteps(1.0, shared=True)(net, features, steps)
    assert found.dtype == torch.float32
    expected = net.get_normalized_probs((features.unsqueeze(1), None), log_probs=True)[:, -1]
    assert torch.equal(found[:, : len(FEW)], expected.float())
