"""Weights of deepnmt rerank choose among the translations of the beam, by a command or by a model folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.checkpoints import run_main

from deepnmt.cli import export, translate
from deepnmt.engines.engine import RERANKING, Hypothesis, SearchSettings
from deepnmt.engines.model_folder import ModelFolder
from deepnmt.errors import UserError
from deepnmt.reranking.weights_file import as_option
from deepnmt.text.settings import TextSettings
from deepnmt.translator.translator import rated_search

FOUND = [
    [(["a"], -1.0), (["a", "b", "c"], -1.2), (["a", "<unk>"], -1.3)],
    [(["d", "e"], -0.5)],
    [],
]
LOG_PROBS = {("a",): [-0.5, -0.5], ("a", "b", "c"): [-0.5] * 4, ("a", "<unk>"): [-0.1] * 3, ("d", "e"): [-1.0] * 3}


class Found:
    """An engine with given translations."""

    longest = 9

    def check(self, settings: SearchSettings) -> None:
        """Everything goes."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        assert len(sentences) == len(FOUND)
        return [[Hypothesis(tokens, score) for tokens, score in each[: settings.nbest]] for each in FOUND]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        assert list(sources) == [["x"]] * 3 + [["y"]]
        return [LOG_PROBS[tuple(target)] for target in targets]


SOURCES = [["x"], ["y"], ["z"]]


@pytest.mark.parametrize(
    ("weights", "best", "score"),
    [
        ("model=1", ["a", "<unk>"], -0.3),
        ("model=1,unk=-2", ["a"], -1.0),
        ("model=1,length=1,unk=-3", ["a", "b", "c"], 2.0),
    ],
)
def test_the_weighted_sum_chooses(weights: str, best: list[str], score: float) -> None:
    first, second, third = rated_search(Found(), SOURCES, SearchSettings(beam=3, rerank=weights))
    assert [hypothesis.tokens for hypothesis in first] == [best]
    assert first[0].score == pytest.approx(score)
    assert (len(second), third) == (1, [])


def test_all_of_the_beam_is_rated_and_ordered() -> None:
    found = rated_search(Found(), SOURCES, SearchSettings(beam=3, nbest=3, rerank="length=0,unk=0"))
    assert [hypothesis.tokens for hypothesis in found[0]] == [tokens for tokens, _ in FOUND[0]]
    assert [hypothesis.score for hypothesis in found[0]] == [0, 0, 0]
    (one, *_) = rated_search(Found(), SOURCES, SearchSettings(beam=3))
    assert one == [Hypothesis(["a"], -1.0)]


@pytest.mark.parametrize("weights", ["back=1", "model", "model=x", "model=inf", "model=1,"])
def test_faulty_weights(weights: str) -> None:
    with pytest.raises(UserError, match=rf"--rerank must be finite weights of model, length, unk .* but is {weights}"):
        SearchSettings(rerank=weights)


def test_the_command_refuses_weights_before_it_loads_a_model(tmp_path: Path) -> None:
    (tmp_path / "weights.json").write_text('{"weights": {"model": 1, "back": 2}}')
    with pytest.raises(UserError, match=r"weights\.json: must have weights for model, length, unk alone"):
        run_main(translate.main, "deepnmt translate", tmp_path / "no", "--rerank", tmp_path / "weights.json")
    with pytest.raises(UserError, match=r"none\.json: no such file"):
        run_main(translate.main, "deepnmt translate", tmp_path / "no", "--rerank", tmp_path / "none.json")


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        (translate.main, "deepnmt translate", ["{0}/model", "--rerank", "{0}/weights.json"]),
        (export.main, "deepnmt export", ["{0}/a.pt", "{0}/data", "{0}/model", "--rerank", "{0}/weights.json"]),
    ],
)
def test_commands_that_weigh_sums_refuse_weights_per_token(
    command: Callable[[], None], name: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "weights.json").write_text('{"weights": {"model": 1}, "per_token": true}')
    before = set(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"weights\.json: must be weights of sums here, but is of --per-token"):
        run_main(command, name, *(word.format(tmp_path) for word in words))
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (translate.main, ["{0}/model", "--rerank", "{0}/weights.json"]),
        (export.main, ["{0}/a.pt", "{0}/data", "{0}/model", "--rerank", "{0}/weights.json"]),
    ],
)
def test_weights_of_other_features_are_named_by_their_file(
    command: Callable[[], None], words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "weights.json").write_text('{"weights": {"model": 0.8, "back": 0.2}}')
    message = r"weights\.json: must have weights for model, length, unk alone, but has one for back; tune with --feat"
    with pytest.raises(UserError, match=message):
        run_main(command, "command", *(word.format(tmp_path) for word in words))


def test_a_model_folder_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "weights.json").write_text('{"weights": {"model": 0.75, "length": 0.25, "unk": -1}}')
    weights = as_option(tmp_path / "weights.json", RERANKING)
    assert weights == "model=0.75,length=0.25,unk=-1.0"
    settings = SearchSettings(rerank=weights)
    (tmp_path / "model").mkdir()
    ModelFolder(tmp_path / "model", TextSettings("de", "en"), "torch", "float32", search=settings).write()
    folder, record = ModelFolder.read(tmp_path / "model")
    assert folder.search == settings
    assert record["search"]["rerank"] == weights
    text = (tmp_path / "model" / "model.json").read_text()
    (tmp_path / "model" / "model.json").write_text(text.replace("model=0.75", "back=0.75"))
    with pytest.raises(
        UserError, match=r"model\.json: 'search': --rerank must be finite weights of model, length, unk"
    ):
        ModelFolder.read(tmp_path / "model")
    assert "rerank" not in SearchSettings().as_record()
