"""`deepnmt seeds`: real trainings, their translations, scores and hours, and a second start with nothing to train."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from grammar.generate import write_splits
from support import warm
from support.models import ROOT, SIZE
from support.processes import finish

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.text.lines import read_text

OPTIONS = ["--max-update", "4", "--save-interval-updates", "2", "--disable-validation"]


def run(*command: Any) -> str:
    done = finish(command, env={**os.environ, **warm.environment(), "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    write_splits(folder, {"train": 100, "valid": 6}, seed=1)
    run(
        ROOT / "scripts" / "preprocess.sh", "--source-lang", "de", "--target-lang", "en", "--train", folder / "train",
        "--valid", folder / "valid", "--test", folder / "valid", "--dest", folder / "data", "--bpe-merges", 100,
        "--workers", 1,
    )  # fmt: skip
    return folder / "data"


def recipe(path: Path, rate: str) -> Path:
    size = "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in SIZE.items())
    text = f"arch: dlcl_transformer\noptimizer: adam\nlr: {rate}\nmax-tokens: 400\nshare-all-embeddings: true\n{size}"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("names", "seeds"), [(["one"], [1]), pytest.param(["one", "two"], [1, 2], marks=pytest.mark.slow)]
)
def test_recipes_are_trained_and_compared(names: list[str], seeds: list[int], data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    recipes = [recipe(tmp_path / f"{name}.yaml", f"0.{number}") for number, name in enumerate(names, start=1)]
    words = [",".join(map(str, recipes)), data, out, "--seeds", ",".join(map(str, seeds)), "--last", "2", *OPTIONS]
    deepnmt = [warm.program("python3"), "-m", "deepnmt", "seeds"]
    lines = run(*deepnmt, *words).splitlines()[-len(names) :]
    table = json.loads((out / "test.json").read_text("utf-8"))
    hours = {}
    for line, name in zip(lines, names, strict=True):
        scores, hours[name] = [], 0.0
        for seed in seeds:
            place = out / name / f"seed{seed}"
            state = CheckpointState.of(place / "checkpoints" / "checkpoint_last.pt", numbers=False)
            assert state.updates() == 4
            # Warm processes fork from a server, and have used nothing at their start.
            assert 0 < state.processor_seconds() < 60
            hours[name] += state.processor_seconds() / 3600
            texts = [read_text(place / "update4.last2" / "test" / f"{side}.en") for side in ("hyp", "ref")]
            assert texts[1] == read_text(data / "text" / "test.raw.en")
            scores.append(sacrebleu.corpus_bleu(texts[0], [texts[1]]).score)
        assert table[name]["scores"] == pytest.approx(scores)
        deviation = f"{statistics.stdev(scores):.2f}" if len(seeds) > 1 else "-"
        assert line.split()[:4] == [name, str(len(seeds)), f"{statistics.mean(scores):.2f}", deviation]
        assert line.split()[-len(seeds) - 1 :] == [f"{hours[name]:.2f}", *(f"{score:.2f}" for score in scores)]
        assert table[name]["hours"] == pytest.approx(hours[name])
    # Nothing is left to do, and nothing is counted twice.
    made = {path: path.stat().st_mtime_ns for path in out.rglob("*.*") if path.suffix in (".pt", ".en", ".tok")}
    again = run(*deepnmt, *words)
    assert again.splitlines()[-len(names) :] == lines
    assert made == {path: path.stat().st_mtime_ns for path in made}
    assert json.loads((out / "test.json").read_text("utf-8")) == table
