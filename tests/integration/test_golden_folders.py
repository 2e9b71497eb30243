"""Folders that commit c63d22f has made are read by everything: see `tests/golden/README.md` for how they were made."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest
from support import warm
from support.flow import Result, contents, in_process
from support.models import ROOT
from support.processes import finish

from deepnmt.checkpoints.file import read
from deepnmt.text.nbest import read_nbest

PLACE = "/tmp/golden"  # where the folders were made, in records with whole paths
SEARCH = ("--beam", 2, "--max-len-b", 6)
PREPROCESSING = (
    "--source-lang", "de", "--target-lang", "en", "--train", "text/train", "--valid", "text/valid", "--test",
    "text/test", "--dest", "data", "--bpe-merges", 20, "--workers", 1,
)  # fmt: skip


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders, in a folder which is the current one, as when they were made."""
    for name in ("c63d22f", "c63d22f-further"):
        with tarfile.open(ROOT / "tests" / "golden" / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
    for record in tmp_path.rglob("*.json"):
        if PLACE in (text := record.read_text("utf-8")):
            record.write_text(text.replace(PLACE, str(tmp_path)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def done(name: str, *words: object) -> Result:
    result = in_process(name, *words)
    assert result.returncode == 0, result.stderr
    return result


def trained(golden: Path, *words: object) -> str:
    """Run a subcommand that trains, in a process of its own."""
    environment = {**os.environ, **warm.environment(), "CUDA_VISIBLE_DEVICES": ""}
    result = finish([warm.program("deepnmt"), *words], env=environment, cwd=golden)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-3000:]
    return result.stdout + result.stderr


def same_weights(one: Path, other: Path) -> None:
    """Sums may be rounded otherwise on another processor, and that is the whole gradient of the keys' biases."""
    first, second = (read(path)["model"] for path in (one, other))
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert name.endswith("k_proj.bias") or tensor.float().allclose(second[name].float(), rtol=1e-3, atol=1e-4), name


def test_data_are_the_same_as_before_and_more_text_is_prepared_by_them(golden: Path) -> None:
    before = contents(golden / "data")
    done("preprocess", *PREPROCESSING)
    assert contents(golden / "data") == before
    done("binarise", "--like", "data", "--train", "text/train", "--dest", "more", "--workers", 1)
    for name in ("train.de-en.de.bin", "train.de-en.en.bin", "codes", "dict.de.txt"):
        assert (golden / "more" / name).read_bytes() == (golden / "data" / name).read_bytes()


def test_checkpoints_are_averaged_and_translate_as_they_did(golden: Path) -> None:
    done("average", "checkpoints", "new.pt", "--last", 2)
    same_weights(golden / "new.pt", golden / "average.pt")
    done("generate", "average.pt", "data", "new", *SEARCH, "--nbest", 2)
    for name in ("hyp.en", "hyp.tok.en", "ref.en", "src.de"):
        assert (golden / "new" / name).read_bytes() == (golden / "results" / name).read_bytes()
    old, new = (read_nbest(golden / folder / "nbest.tsv") for folder in ("results", "new"))
    assert [(line.sentence, line.subwords) for line in old] == [(line.sentence, line.subwords) for line in new]
    assert [line.features["model"] for line in new] == pytest.approx([line.features["model"] for line in old], abs=1e-3)


def test_results_are_scored_reranked_and_combined(golden: Path) -> None:
    scores = golden / "results" / "scores.json"
    before = json.loads(scores.read_text("utf-8"))
    scores.unlink()
    done("score", "results")
    after = json.loads(scores.read_text("utf-8"))
    assert {name: score["score"] for name, score in after.items()} == pytest.approx(
        {name: score["score"] for name, score in before.items()}
    )
    done("rerank", "--nbest", "results", "--data", "data", "--consensus", "chrf", "reranked")
    done("combine", "--nbest", "results", "--data", "data", "--models", "average.pt", "combined")
    for folder in ("reranked", "combined"):
        assert len((golden / folder / "hyp.en").read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("engine", "expected"), [("torch", "results"), ("onnx", "results"), ("ctranslate2", "plain-results")]
)
def test_model_folders_translate(golden: Path, engine: str, expected: str) -> None:
    done("translate", f"model-{engine}", "text/test.de", "--output", "out", "--max-len-b", 6)
    assert (golden / "out").read_bytes() == (golden / expected / "hyp.en").read_bytes()


def test_a_checkpoint_is_exported_inspected_grown_and_shrunk(golden: Path) -> None:
    done("export", "average.pt", "data", "model", "--beam", 2, "--check", 2)
    done("translate", "model", "text/test.de", "--output", "out", "--max-len-b", 6)
    assert (golden / "out").read_bytes() == (golden / "results" / "hyp.en").read_bytes()
    done("inspect", "average.pt", "--data", "data", "--json", "inspected.json")
    assert json.loads((golden / "inspected.json").read_text("utf-8"))
    done("grow", "average.pt", "grown.pt", "--encoder-layers", 4)
    done("shrink", "average.pt", "shrunk.pt", "--encoder-every", 2)
    for name, depth in (("grown", 4), ("shrunk", 1)):
        assert read(golden / f"{name}.pt")["cfg"]["model"]["encoder_layers"] == depth


def test_trainings_go_on(golden: Path) -> None:
    said = trained(golden, "train", "recipe.yaml", "data", "checkpoints", "--max-epoch", 21)
    assert "checkpoint_last.pt (epoch 21 @ " in said
    same_weights(golden / "checkpoints" / "checkpoint_last.pt", golden / "third.pt")
    trained(golden, "finetune", "average.pt", "data", "tuned", "--max-update", 2)
    assert read(golden / "tuned" / "checkpoint_last.pt")["cfg"]["model"]["encoder_layers"] == 2


def test_data_made_from_data_are_the_same_as_before(golden: Path) -> None:
    for name, words in {
        "selected": ("select", "data", "selected", "--like", "text/test.de", "--number", 10),
        "distilled": ("synthesise", "distil", "average.pt", "data", "distilled", "--beam", 2),
        "mixed": ("mix", "mixed", "data", "distilled"),
    }.items():
        before = contents(golden / name)
        assert f"{name} is up to date" in done(*words).stdout
        assert contents(golden / name) == before


def test_studies_are_finished_and_stay(golden: Path) -> None:
    same = {
        "swept/sweep.tsv": ("sweep", "checkpoints", "data", "swept", "--last=1,2", "--beam=2", "--lenpen=1"),
        "depths/bleu.tsv": ("bleu-per-depth", "average.pt", "data", "depths", "--encoder-every=2"),
    }
    for name, words in same.items():
        before = (golden / name).read_bytes()
        (golden / name).unlink()
        done(*words, "--max-len-b", 6)
        assert (golden / name).read_bytes() == before
    before = (golden / "errors" / "sentences.tsv").read_bytes()
    done("search-errors", "average.pt", "data", "--beams", 1, "--max-len", 6, "--out", "errors")
    assert (golden / "errors" / "sentences.tsv").read_bytes() == before


def test_a_datastore_is_searched(golden: Path) -> None:
    done("generate", "average.pt", "data", "near", *SEARCH, "--datastore", "datastore", "--neighbour-weight", 0.5)
    assert len((golden / "near" / "hyp.en").read_text("utf-8").splitlines()) == 3


@pytest.mark.slow
def test_finetuning_and_progressive_training_go_on(golden: Path) -> None:
    said = trained(golden, "finetune", "average.pt", "selected", "tuned", "--max-epoch", 3, "--keep-last-epochs", 1)
    assert "checkpoint_last.pt (epoch 3 @ " in said
    progressive = golden / "progressive"
    before = progressive / "before.pt"
    (progressive / "stage-2-2" / "checkpoint_last.pt").rename(before)
    (progressive / "stage-2-2" / "stage.json").unlink()
    for path in (progressive / "stage-2-2").glob("checkpoint*.pt"):
        path.unlink()
    trained(golden, "train-progressive", "stages.yaml", "data", "progressive")
    same_weights(progressive / "stage-2-2" / "checkpoint_last.pt", before)
