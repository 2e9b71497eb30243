"""Each option of the cheap decoders on the command line of fairseq-train: train, save, resume, translate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.checkpoints import load
from support.trainings import binarised_text, fairseq_train

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.torch.fairseq_engine import load_checkpoints

SOURCES = [["a1", "a2", "a3"], ["a5"], ["a7", "a7", "a1", "a2", "a4", "a0"]]
# Options, and for each decoder layer the maps of its two attentions; a bias of each is left out.
FULL = ["k", "out", "q", "v"]
KINDS: dict[str, tuple[list[str], list[tuple[list[str], list[str]]]]] = {
    "shared": (
        ["--decoder-self-attention=shared", "--shared-attention-blocks=0,1,3", "--shared-cross-attention"],
        [(FULL, FULL), (FULL, FULL), (["out", "v"], ["out"])],
    ),
    "average": (
        ["--decoder-self-attention=average", "--average-attention-ffn", "--encoder-share-layers=0,1,0"],
        [(["gate"], FULL)] * 3,
    ),
    "ssru": (["--decoder-self-attention=ssru", "--decoder-share-layers=0,0,1"], [(["forget", "v"], FULL)] * 3),
}
# Layers with the same weights.
TIED = {"shared": [], "average": [("encoder", 0, 2)], "ssru": [("decoder", 0, 1)]}


@pytest.mark.parametrize("kind", KINDS)
def test_train_resume_translate(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, maps = KINDS[kind]
    data, save = binarised_text(tmp_path), tmp_path / "save"
    given = [str(data), "--batch-size=20", "--no-epoch-checkpoints", "--share-all-embeddings", *options]
    fairseq_train(monkeypatch, given, save, "--max-update=2")
    before = load(save / "checkpoint_last.pt")["model"]
    assert list(fairseq_train(monkeypatch, given, save, "--max-update=3")) == [2]
    state = load(save / "checkpoint_last.pt")
    model = state["model"]
    for name in (option.partition("=")[0] for option in options):
        assert state["cfg"]["model"][name[2:].replace("-", "_")] not in (None, False, "none", "full", "2")
    for layer, parts in enumerate(maps):
        for attention, expected in zip(("self_attn", "encoder_attn"), parts):
            pattern = rf"decoder\.layers\.{layer}\.{attention}\.(\w+)_proj\.weight"
            assert sorted(found[1] for name in model if (found := re.fullmatch(pattern, name))) == expected
    assert ("decoder.layers.0.self_attn.fc1.weight" in model) == (kind == "average")
    for stack in ("encoder", "decoder"):
        weights = [model[f"{stack}.layers.{layer}.fc1.weight"] for layer in range(3)]
        assert not any(weight.equal(before[f"{stack}.layers.{n}.fc1.weight"]) for n, weight in enumerate(weights))
        same = [(stack, i, j) for j in range(3) for i in range(j) if weights[i].equal(weights[j])]
        assert same == [each for each in TIED[kind] if each[0] == stack]
    engine = load_checkpoints([save / "checkpoint_last.pt"], data, ("a", "b"), device="cpu")
    found = engine.search(SOURCES, SearchSettings(beam=3, nbest=2, max_len_b=8))
    sources = [source for source, each in zip(SOURCES, found) for _ in each]
    scores = engine.score(sources, [each.tokens for entries in found for each in entries])
    assert len(scores) == 2 * len(SOURCES)
    for hypothesis, score in zip([each for entries in found for each in entries], scores):
        assert hypothesis.score == pytest.approx(sum(score) / len(score), abs=1e-4)
