"""`deepnmt bleu-per-depth`: models of ever fewer layers, translated and scored, from a small corpus on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import tasks
from grammar.generate import write_splits
from support import warm
from support.models import ROOT, SIZE
from support.processes import finish

from deepnmt.checkpoints.importing.importer import configuration, new_checkpoint
from deepnmt.errors import UserError
from deepnmt.generation import depths

SCRIPT = ROOT / "scripts" / "bleu_per_depth.sh"


def run(*command: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = finish(command, env={**os.environ, **warm.environment()})
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-4000:]
    if status:
        assert "Traceback" not in done.stderr
    return done


def error(*command: Any) -> str:
    (line,) = [line for line in run(*command, status=2).stderr.splitlines() if "error:" in line]
    return line.split("error: ", 1)[1]


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data folder, and the checkpoint of a model of four and two layers that was never trained."""
    folder = tmp_path_factory.mktemp("flow")
    write_splits(folder / "text", {"train": 200, "valid": 6}, seed=1)
    texts = folder / "text"
    run(
        ROOT / "scripts" / "preprocess.sh", "--source-lang", "de", "--target-lang", "en", "--train", texts / "train",
        "--valid", texts / "valid", "--test", texts / "valid", "--dest", folder / "data", "--bpe-merges", 100,
        "--workers", 1,
    )  # fmt: skip
    size = {**SIZE, "encoder_layers": 4, "decoder_layers": 2, "share_all_embeddings": True}
    cfg = configuration(folder / "data", size, ("de", "en"))
    torch.manual_seed(1)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    torch.save(new_checkpoint(cfg, model), folder / "model.pt")
    return {"folder": folder, "data": folder / "data", "model": folder / "model.pt"}


def table(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_depth_is_scored_once(flow: dict[str, Path]) -> None:
    out, options = flow["folder"] / "out", ("--beam", "1", "--max-len-b", "5")
    command = (SCRIPT, flow["model"], flow["data"], out, "--encoder-every", "2", *options)
    run(*command)
    head, *rows = table(out / "bleu.tsv")
    assert head == ["model", "encoder_layers", "decoder_layers", "tokenised BLEU", "BLEU", "chrF", "TER"]
    assert [row[:3] for row in rows] == [["whole", "4", "2"], ["encoder-every-2", "2", "2"]]
    for name, *_, bleu, chrf, _ in rows:
        scores = json.loads((out / name / "scores.json").read_text(encoding="utf-8"))
        assert [float(bleu), float(chrf)] == [scores["BLEU"]["score"], scores["chrF"]["score"]]
    assert not list(out.glob("*.pt*"))
    # The models differ, and so do the scores that they give to their translations.
    logs = [(out / name / "generate.log").read_text(encoding="utf-8") for name in ("whole", "encoder-every-2")]
    whole, shrunk = ([line.split("\t")[1] for line in log.splitlines() if line.startswith("H-")] for log in logs)
    assert len(whole) == len(shrunk) == 6
    assert not set(whole) & set(shrunk)

    # One whose scores are missing is made anew; the rest is not.
    (out / "encoder-every-2" / "scores.json").unlink()
    (out / "shrunk.pt").write_bytes(b"left by a killed command")
    before = (out / "whole" / "scores.json").stat().st_mtime_ns
    done = run(*command)
    assert f"whole is scored: {out / 'whole'}" in done.stdout
    assert (out / "whole" / "scores.json").stat().st_mtime_ns == before
    assert table(out / "bleu.tsv") == [head, *rows]
    assert done.stdout.splitlines()[-1] == f"{out} is ready: scores in {out / 'bleu.tsv'}"
    assert not list(out.glob("*.pt*"))
    assert error(*command[:-1], "6").startswith(f"{out} was begun with options --beam, 1, --max-len-b, ")


def test_faults(flow: dict[str, Path], tmp_path: Path) -> None:
    model, data, out = flow["model"], flow["data"], tmp_path / "out"
    assert error(SCRIPT, model, data) == (
        "CHECKPOINT, DATA and OUT must be given, before any option of fairseq-generate (see --help)"
    )
    assert error(SCRIPT, model, data, out, "--encoder-every") == "option --encoder-every needs a value (see --help)"
    assert error(SCRIPT, tmp_path / "no.pt", data, out) == f"{tmp_path / 'no.pt'}: no such checkpoint"
    assert error(SCRIPT, model, data, out, "--decoder-every=2,5").startswith("--decoder-every must be whole numbers")
    assert not out.exists()
    assert "usage: bleu_per_depth.sh CHECKPOINT DATA OUT" in run(SCRIPT, "--help").stdout


def test_plan(flow: dict[str, Path], tmp_path: Path) -> None:
    model, out = flow["model"], tmp_path / "new" / "out"

    def plan(encoder: str = "2", decoder: str = "", subset: str = "valid", options: tuple[str, ...] = ()) -> list[str]:
        every = {"encoder": encoder, "decoder": decoder}
        job = depths.Depths(model, flow["data"], out, subset, every, options).job()
        with job.begun():
            return [f"{model['model']} {model['option']}" for model in job.told["models"]]

    assert plan() == ["whole ", "encoder-every-2 --encoder-every=2"]
    # Other depths may be asked for later, but of the same model, text and search.
    assert plan("4,2", "2") == [
        "whole ",
        "encoder-every-2 --encoder-every=2",
        "encoder-every-4 --encoder-every=4",
        "decoder-every-2 --decoder-every=2",
    ]
    for more, key in (({"subset": "test"}, "subset"), ({"options": ("--beam", "2")}, "options")):
        with pytest.raises(UserError, match=f"was begun with(out)? {key} .*; remove it or choose another OUT$"):
            plan(**more)
    os.utime(model, (1, 1))
    with pytest.raises(UserError, match=r"was begun with checkpoint .*bytes of 20.*, not .*bytes of 1970-"):
        plan()
    out = tmp_path / "other"
    out.mkdir()
    (out / "file").touch()
    with pytest.raises(UserError, match=r"exists, and was not made by deepnmt bleu-per-depth; remove it or"):
        plan()


def test_which_models() -> None:
    def names(encoder: str, decoder: str, layers: tuple[int, int] = (12, 4)) -> list[tuple[str, int, int]]:
        both = dict(zip(("encoder", "decoder"), layers))
        found = list(depths.models(both, {"encoder": encoder, "decoder": decoder}))
        return [(model["option"], model["encoder_layers"], model["decoder_layers"]) for model in found]

    default = [(f"--encoder-every={n}", depth, 4) for n, depth in ((2, 6), (3, 4), (4, 3), (6, 2))]
    assert names("", "") == [("", 12, 4), *default]
    assert names("", "", (3, 4)) == [("", 3, 4), ("--encoder-every=2", 2, 4), ("--encoder-every=3", 1, 4)]
    assert names("", "", (1, 4)) == [("", 1, 4)]
    assert names("5,12,5", "3") == [
        ("", 12, 4),
        ("--encoder-every=5", 3, 4),
        ("--encoder-every=12", 1, 4),
        ("--decoder-every=3", 12, 2),
    ]
    for text, message in (
        ("2,1", r"^--encoder-every must be whole numbers from 2 to 12 with commas between them, but is '2,1'$"),
        ("13", r"^--encoder-every must be whole numbers from 2 to 12 with commas between them, but is '13'$"),
        ("2-4", r"^--encoder-every must be whole numbers from 2 to 12 with commas between them, but is '2-4'$"),
    ):
        with pytest.raises(UserError, match=message):
            names(text, "")
