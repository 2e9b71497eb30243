"""Scores of models are the sums of log P that their softmax gives, token by token, in each direction."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.checkpoints import load, model_of
from support.models import dictionary
from support.nbest_folders import save_language_model, save_model, text_folder
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.reranking.model_scores import Kind, ModelFeature, Scorer

EOS = 2
PAIRS = [("w1 w2", "w7 unknown w9"), ("w3", ""), ("w4 w5 w6 w2", "w15 w7"), ("w1", "w8 w8 w8 w8 w8 w9")]


def tokens(text: str) -> list[int]:
    return [*(dictionary().index(word) for word in text.split()), EOS]


def expected(model: torch.nn.Module, source: list[int] | None, target: list[int]) -> float:
    """A sentence at a time, in float64."""
    before = torch.tensor([[EOS, *target[:-1]]])
    inputs = {"src_tokens": before}
    if source is not None:
        inputs = {
            "src_tokens": torch.tensor([source]),
            "src_lengths": torch.tensor([len(source)]),
            "prev_output_tokens": before,
        }
    with torch.no_grad():
        logits: Tensor = model.double()(**inputs)[0][0]
    return float(logits.log_softmax(-1)[range(len(target)), target].sum())


def scores(feature: ModelFeature, data: Path, pairs: list[tuple[str, str]], max_tokens: int = 14) -> list[float]:
    done: list[int] = []
    result = Scorer(feature, data, False)(pairs, max_tokens, done.append)
    assert sum(done) == len(pairs)
    assert len(done) > 1
    return result


def test_translation_models_and_ensembles(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "data")
    paths = [save_model(tmp_path / f"{seed}.pt", seed) for seed in (1, 2)]
    models = [model_of(load(path), torch.float64) for path in paths]
    each = [[expected(model, tokens(x), tokens(y)) for x, y in PAIRS] for model in models]
    found = scores(ModelFeature("a", Kind.TRANSLATION, (paths[0],)), data, PAIRS)
    assert found == pytest.approx(each[0], rel=1e-4)
    # Reversed pairs by a model of the other direction.
    back = save_model(tmp_path / "back.pt", 2, ("en", "de"))
    turned = [(y, x) for x, y in PAIRS]
    found = scores(ModelFeature("b", Kind.REVERSE, (back,)), data, turned)
    assert found == pytest.approx([expected(models[1], tokens(x), tokens(y)) for x, y in turned], rel=1e-4)
    # An ensemble is the mean of probabilities, token by token: between the two.
    found = scores(ModelFeature("c", Kind.TRANSLATION, tuple(paths)), data, PAIRS)
    single = Scorer(ModelFeature("c", Kind.TRANSLATION, (paths[0], paths[0])), data, False)(PAIRS, 100, id)
    assert single == pytest.approx(each[0], rel=1e-4)
    assert all(score > min(pair) for score, pair in zip(found, zip(*each)))


def test_right_to_left_models_get_reversed_targets(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "data")
    path = save_model(tmp_path / "r2l.pt", right_to_left=True)
    model = model_of(load(path), torch.float64)
    found = scores(ModelFeature("r2l", Kind.TRANSLATION, (path,)), data, PAIRS)
    turned = [[*tokens(y)[:-1][::-1], EOS] for _, y in PAIRS]
    assert found == pytest.approx([expected(model, tokens(x), y) for (x, _), y in zip(PAIRS, turned)], rel=1e-4)


def test_language_models(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "data")
    model = save_language_model(tmp_path / "lm.pt")
    feature = ModelFeature("lm", Kind.LANGUAGE, (tmp_path / "lm.pt",))
    feature.check(data, False)
    found = scores(feature, data, [("", y) for _, y in PAIRS], max_tokens=10)
    assert found == pytest.approx([expected(model, None, tokens(y)) for _, y in PAIRS], rel=1e-4)
    with pytest.raises(
        UserError, match=r"--lm lm: a target must have at most the 32 positions of the model, but .* 41"
    ):
        Scorer(feature, data, False)([("", "w1 " * 40)], 100, id)


def test_models_that_do_not_fit(tmp_path: Path) -> None:
    data, path = text_folder(tmp_path / "data"), save_model(tmp_path / "a.pt")
    ModelFeature("a", Kind.TRANSLATION, (path,)).check(data, False)
    ModelFeature("a", Kind.REVERSE, (path,)).check(data, True)
    with pytest.raises(UserError, match=r"--reverse a: .*a\.pt: must translate en to de, but translates de to en$"):
        ModelFeature("a", Kind.REVERSE, (path,)).check(data, False)
    with pytest.raises(UserError, match=r"a\.pt: must be a language model, but is a translation model$"):
        ModelFeature("lm", Kind.LANGUAGE, (path,)).check(data, False)
    save_language_model(tmp_path / "lm.pt")
    words = (data / "dict.en.txt").read_text().splitlines(keepends=True)
    (tmp_path / "dict.txt").write_text("".join(words))
    ModelFeature("lm", Kind.LANGUAGE, (tmp_path / "lm.pt",)).check(data, False)
    (tmp_path / "dict.txt").write_text("".join([words[0], *words[:0:-1]]))
    with pytest.raises(UserError, match=r"must be of .*dict\.en\.txt, where type 5 is 'w1', but .* it is 'w19'$"):
        ModelFeature("lm", Kind.LANGUAGE, (tmp_path / "lm.pt",)).check(data, False)
    save_language_model(tmp_path / "lm.pt", words=7)
    with pytest.raises(UserError, match=r"must have the 24 types of .*dict\.en\.txt in its decoder, but has 11"):
        ModelFeature("lm", Kind.LANGUAGE, (tmp_path / "lm.pt",)).check(data, False)
