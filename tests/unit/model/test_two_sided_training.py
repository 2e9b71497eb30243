"""A two-sided model is trained, averaged, searched and scored by the same commands as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from support.checkpoints import load
from support.models import batch
from support.trainings import binarised_text, fairseq_train

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.torch.fairseq_engine import TorchEngine, load_checkpoints
from deepnmt.search.generator import BeamGenerator

CRITERION = "--criterion=label_smoothed_cross_entropy_two_sided"
SOURCES = [["a1", "a2", "a3"], ["a5"], ["a7", "a7", "a1", "a2", "a4", "a0"]]


class Trained(NamedTuple):
    data: Path
    two_sided: Path
    turned: Path
    plain: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("two_sided")
    data = binarised_text(folder)
    options = ["--task=deep_translation", "--batch-size=8", "--dropout=0.1", "--no-epoch-checkpoints"]
    paths = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, more in (
            ("two_sided", ["--two-sided", CRITERION, "--label-smoothing=0.1"]),
            ("turned", ["--two-sided", CRITERION, "--right-to-left"]),
            ("plain", []),
        ):
            save = folder / name
            fairseq_train(monkeypatch, [str(data), *options], save, "--max-update=6", "--share-all-embeddings", *more)
            paths.append(save / "checkpoint_last.pt")
        more = ["--two-sided", CRITERION, "--label-smoothing=0.1", "--share-all-embeddings"]
        rates = fairseq_train(monkeypatch, [str(data), *options], folder / "two_sided", "--max-update=8", *more)
        assert list(rates) == [6, 7]  # resumed
    return Trained(data, *paths)


def engine(trained: Trained, *paths: Path) -> TorchEngine:
    return load_checkpoints(list(paths), trained.data, ("a", "b"), device="cpu")


def test_both_decoders_are_trained(trained: Trained) -> None:
    """And share their embeddings, which a checkpoint has once for each place."""
    state: dict[str, Any] = load(trained.two_sided)
    names = [name for name in state["model"] if ".backward_decoder.layers." in name]
    twins = [name.replace("encoder.backward_decoder", "decoder") for name in names]
    assert len(names) > 50
    assert all(twin in state["model"] for twin in twins)
    assert not any(state["model"][name].equal(state["model"][twin]) for name, twin in zip(names, twins))
    tables = [state["model"][f"{place}.embed_tokens.weight"] for place in ("encoder.backward_decoder", "decoder")]
    assert tables[0].equal(tables[1])
    assert state["extra_state"]["best"] > 0


@pytest.mark.parametrize("names", [["two_sided"], ["turned"], ["two_sided", "plain"]])
def test_translations_have_the_scores_of_the_model(trained: Trained, names: list[str]) -> None:
    found_by = engine(trained, *(getattr(trained, name) for name in names))
    found = found_by.search(
        SOURCES, SearchSettings(beam=3, nbest=2, max_len_b=8, more={"coverage": "gnmt", "coverage_weight": 0.0})
    )
    sources = [source for source, each in zip(SOURCES, found) for _ in each]
    scores = found_by.score(sources, [each.tokens for entries in found for each in entries])
    for hypothesis, score in zip([each for entries in found for each in entries], scores):
        assert hypothesis.score == pytest.approx(sum(score) / len(score), abs=1e-4)


def test_fairseqs_own_search(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    both, sources = [], [[5, 6, 7], [9]]
    model = engine(trained, trained.two_sided)
    for own in (True, False):
        if not own:
            monkeypatch.setattr(BeamGenerator, "_obstacle", lambda *arguments: "it is to be compared")
        generator = model._generator(SearchSettings(beam=4, max_len_b=9))
        inputs = batch(sources, [[], []])
        del inputs["prev_output_tokens"]
        with torch.no_grad():
            both.append(generator.forward({"net_input": inputs}))
    for one, other in zip([h for each in both[0] for h in each], [h for each in both[1] for h in each]):
        assert one["tokens"].equal(other["tokens"])
        assert float(one["score"]) == pytest.approx(float(other["score"]), abs=1e-5)
