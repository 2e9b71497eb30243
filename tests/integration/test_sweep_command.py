"""scripts/sweep.sh: the translations chosen from an n-best list are those of a search with the penalty."""

from __future__ import annotations

import json
import os
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
from deepnmt.cli.sweep import main
from deepnmt.generation.sweep_plan import chosen
from deepnmt.text.lines import read_text
from deepnmt.text.nbest import read_nbest

PENALTIES = ("-1", "2")


def run(*command: Any) -> str:
    done = finish(command, env={**os.environ, **warm.environment()})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_a_sweep_and_its_best_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, data, out = tmp_path / "text", tmp_path / "data", tmp_path / "out"
    write_splits(texts, {"train": 200, "valid": 6}, seed=1)
    run(
        ROOT / "scripts" / "preprocess.sh", "--source-lang", "de", "--target-lang", "en", "--train", texts / "train",
        "--valid", texts / "valid", "--test", texts / "valid", "--dest", data, "--bpe-merges", 100, "--workers", 1,
    )  # fmt: skip
    cfg = configuration(data, {**SIZE, "share_all_embeddings": True}, ("de", "en"))
    torch.manual_seed(1)
    (tmp_path / "save").mkdir()
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    with torch.no_grad():
        # The end of a sentence is likely in some places and not in others, so that lengths differ.
        model.decoder.embed_tokens.weight[2] *= 3
    torch.save(new_checkpoint(cfg, model), tmp_path / "save" / "checkpoint1.pt")
    words = [str(tmp_path / "save"), str(data), str(out), "--beam", "3", "--max-len-b", "6"]
    found = set()
    for penalty in PENALTIES:
        if penalty == PENALTIES[0]:
            said = run(ROOT / "scripts" / "sweep.sh", *words, f"--lenpen={penalty}")
        else:
            # Many searches in one process, as well.
            main([*words, f"--lenpen={penalty}"])
            said = capsys.readouterr().out
        best = json.loads((out / "best.json").read_text(encoding="utf-8"))
        assert [best["checkpoint"], best["beam"], best["lenpen"]] == ["last1.pt", 3, float(penalty)]
        # With one setting, the search of the best one is of that setting; it must find what the list has.
        (score,) = {line.split("\t")[3] for line in (out / "sweep.tsv").read_text(encoding="utf-8").splitlines()[1:]}
        assert abs(float(score) - best["tokenised BLEU"]) < 0.01
        folder = out / f"best.last1.beam3.lenpen{penalty}"
        assert f"with --beam 3 --lenpen {penalty}" in said
        translations = read_text(folder / "hyp.tok.en")
        assert chosen(read_nbest(out / "last1.beam3" / "nbest.tsv"), float(penalty), 6) == translations
        found.add(tuple(translations))
    # The searches of the two penalties differ, and the list was searched for once.
    assert len(found) == len(PENALTIES)
    assert "last1.beam3 is done" in said
