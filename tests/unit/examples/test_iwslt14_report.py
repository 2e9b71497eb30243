"""What a training is recorded as, and the report of all rows: nothing that was not run, and no figure but its own."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu import corpus_bleu
from study import record, report, rows
from study.pages import Table, to_html, to_markdown
from study.results import spread

from deepnmt.cli.score import main as score_main
from deepnmt.errors import UserError
from deepnmt.text.corpus_scores import split_compounds

REFERENCE = [f"das ist der satz nummer {n} von vielen sätzen" for n in range(40)]


def write_scores(folder: Path, bleu: float, hypotheses: list[str] | None = None) -> Path:
    folder.mkdir(parents=True)
    named = {"tokenised BLEU": bleu, "compounds split": bleu + 1, "BLEU": bleu + 2, "chrF": 1.0}
    (folder / "scores.json").write_text(json.dumps({name: {"score": value} for name, value in named.items()}))
    (folder / "generate.json").write_text(json.dumps({"target_lang": "en"}))
    for kind, text in (("hyp", hypotheses or REFERENCE), ("ref", REFERENCE)):
        (folder / f"{kind}.tok.en").write_text("".join(line + "\n" for line in text), encoding="utf-8")
    return folder


def finished(
    output: Path, row: str, seed: int, bleu: float = 30.0, hypotheses: list[str] | None = None, **more: Any
) -> Path:
    """A training as run.sh leaves it."""
    folder = output / "runs" / row / f"seed{seed}"
    write_scores(folder / "test.average5.beam5.lenpen1", bleu, hypotheses)
    scores = {"bleu": bleu, "compounds": bleu + 1, "sacrebleu": bleu + 2}
    found = {
        "row": row,
        "seed": seed,
        "options": [],
        "best_epoch": 40 + seed,
        "hours": 1.5,
        "best": {"folder": "test.best", **{name: value - 0.5 for name, value in scores.items()}},
        "average": {"folder": "test.average5.beam5.lenpen1", **scores},
        "versions": {"device": "CPU", "torch": "2"},
        **more,
    }
    (folder / "run.json").write_text(json.dumps(found))
    return folder


def lines_of(output: Path, baseline: str = "") -> dict[str, dict[str, str]]:
    table = report.make_table(output, baseline, samples=200)
    return {line[0]: dict(zip(table.columns, line)) for line in table.rows}


def test_rows_that_were_not_run_say_so(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    lines = lines_of(tmp_path)
    assert list(lines) == list(rows.all_rows())
    for line in lines.values():
        assert line["BLEU"] == "not run"
        assert not any(line[name] for name in ("last 5", "split", "sacreBLEU", "epochs to the best", "hours", "seeds"))
    assert lines["3.7/6.2"]["published"] == "35.65, last 5 35.72, 65 epochs"
    assert lines["3.5/1"]["published"] == "failed"
    assert lines["bet/dlcl_simcut"]["published"] == "-"
    assert report.make_table(tmp_path, "", 1).notes[0] == "0 of 54 rows have been run."


def test_several_seeds(tmp_path: Path) -> None:
    for seed, bleu in ((1, 30.0), (2, 31.0), (10, 33.5)):
        finished(tmp_path, "3.1/4", seed, bleu)
    line = lines_of(tmp_path)["3.1/4"]
    # Mean 31.5; deviations -1.5, -0.5, 2; sqrt(6.5 / 2) = 1.80.
    assert (line["last 5"], line["BLEU"]) == ("31.50 ± 1.80", "31.00 ± 1.80")
    assert (line["split"], line["sacreBLEU"]) == ("32.50 ± 1.80", "33.50 ± 1.80")
    # Epochs 41, 42, 50; deviations -10/3, -7/3, 17/3; sqrt((100 + 49 + 289) / 9 / 2) = 4.93.
    assert (line["epochs to the best"], line["hours"], line["seeds"]) == ("44.3 ± 4.9", "1.50 ± 0.00", "1, 2, 10")
    assert spread([3.14159], 1) == "3.1"


def test_failed_and_unfinished_trainings(tmp_path: Path) -> None:
    finished(tmp_path, "3.5/1", 1, failed="training stopped at update 7: NaN")
    finished(tmp_path, "3.5/3", 1)
    finished(tmp_path, "3.5/3", 2, failed="training stopped at update 9: NaN")
    (tmp_path / "runs" / "3.5" / "3" / "seed3").mkdir()
    (tmp_path / "runs" / "3.5" / "4" / "seed2").mkdir(parents=True)
    lines = lines_of(tmp_path)
    assert lines["3.5/1"]["BLEU"] == "failed (seed 1)"
    assert lines["3.5/1"]["last 5"] == ""
    assert lines["3.5/3"]["BLEU"] == "29.50; failed (seed 2); unfinished (seed 3)"
    assert lines["3.5/3"]["last 5"] == "30.00"
    assert lines["3.5/4"]["BLEU"] == "unfinished (seed 2)"
    assert "3.5/1, seed 1: training stopped at update 7: NaN" in report.make_table(tmp_path, "", 1).notes


def test_rows_of_the_same_recipe_share_a_training(tmp_path: Path) -> None:
    finished(tmp_path, "3.1/10", 1, 35.0)
    finished(tmp_path, "3.1/9", 1, 34.0)
    finished(tmp_path, "3.7/4.1", 1, 33.0)
    lines = lines_of(tmp_path)
    assert lines["3.7/1.1"]["last 5"] == "35.00"
    assert lines["3.7/1.1"]["what"].endswith("6 + 6 layers (the training of 3.1/10)")
    # A row that was run itself shows that.
    assert (lines["3.7/4.1"]["last 5"], lines["3.1/9"]["last 5"]) == ("33.00", "34.00")
    assert "training of" not in lines["3.7/4.1"]["what"]
    assert lines["3.1/8"]["BLEU"] == "not run"


def test_options_beside_the_recipe_and_the_machine_are_named(tmp_path: Path) -> None:
    finished(tmp_path, "3.1/1", 1, options=["--max-epoch", "2"])
    notes = report.make_table(tmp_path, "", 1).notes
    assert "3.1/1 was run with --max-epoch 2" in notes
    assert "run with device CPU, torch 2" in notes


def worse(every: int) -> list[str]:
    return [line if n % every else "etwas ganz anderes steht hier" for n, line in enumerate(REFERENCE)]


def test_paired_bootstrap(tmp_path: Path) -> None:
    finished(tmp_path, "3.1/1", 1, hypotheses=worse(2))
    finished(tmp_path, "3.1/1", 2, hypotheses=worse(2))
    finished(tmp_path, "3.1/3", 2, hypotheses=REFERENCE)
    finished(tmp_path, "3.1/4", 1, hypotheses=worse(2))
    finished(tmp_path, "3.1/5", 7, hypotheses=REFERENCE)
    finished(tmp_path, "3.1/6", 1, failed="training stopped at update 1: NaN")
    lines = lines_of(tmp_path, "3.1/1")
    found = {name: line["against 3.1/1"] for name, line in lines.items() if line["against 3.1/1"]}
    assert set(found) == {"3.1/3", "3.1/4"}
    difference, p_value = re.fullmatch(r"([+-][\d.]+) \(p = ([\d.]+), seed 2\)", found["3.1/3"]).groups()  # type: ignore[union-attr]
    assert float(difference) > 30
    assert float(p_value) < 0.02
    assert found["3.1/4"] == "+0.00 (p = 1.000, seed 1)"


def test_a_small_difference_is_not_significant(tmp_path: Path) -> None:
    finished(tmp_path, "3.1/1", 1, hypotheses=worse(4))
    finished(tmp_path, "3.1/3", 1, hypotheses=[*worse(4)[1:], worse(4)[0]][-1:] + worse(4)[1:38] + REFERENCE[:2])
    line = lines_of(tmp_path, "3.1/1")["3.1/3"]["against 3.1/1"]
    match = re.search(r"p = ([\d.]+)", line)
    assert match is not None
    assert float(match[1]) > 0.05


def test_bootstrap_refuses_another_test_set_or_no_baseline(tmp_path: Path) -> None:
    finished(tmp_path, "3.1/1", 1)
    other = finished(tmp_path, "3.1/3", 1)
    (other / "test.average5.beam5.lenpen1" / "ref.tok.en").write_text("another\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"3\.1/3/seed1 must have the same test set as .*3\.1/1/seed1, but has another"):
        report.make_table(tmp_path, "3.1/1", 10)
    with pytest.raises(UserError, match=r"--baseline must be a row that has been run, but 3\.1/5 has not"):
        report.make_table(tmp_path, "3.1/5", 10)
    with pytest.raises(UserError, match=r"--baseline must be a row that run\.sh --list shows, .* but is '3\.1/99'"):
        report.make_table(tmp_path, "3.1/99", 10)


def test_report_writes_both_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finished(tmp_path, "3.1/4", 1, 34.0)
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path)])
    report.main()
    markdown = (tmp_path / "report.md").read_text("utf-8")
    assert markdown in capsys.readouterr().out
    line = next(line for line in markdown.splitlines() if line.startswith("| 3.1/4 |"))
    assert " | 34.21 | 33.50 | 34.00 | 35.00 | 36.00 | 41 | 1.50 | 1 |" in line
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<td>3.1/4</td>" in page
    assert page.count("<tr>") == 55
    assert "generated text" not in markdown + page
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path), "--smoke"])
    report.main()
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text("utf-8")
        assert "Trial of the IWSLT14 study, on generated text" in text
        assert "cannot be held against the published ones" in text
    faults = {"OUT must be the folder of run.sh, but there is no": ["no"], "--samples must be at least 1, but is 0": []}
    for message, folder in faults.items():
        monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path.joinpath(*folder)), "--samples", "0"])
        with pytest.raises(UserError, match=message):
            report.main()


def test_pages_escape_what_would_break_them() -> None:
    table = Table(["a|b"], [["<x> & | y"]], ["1 < 2"])
    assert "| <x> & \\| y |" in to_markdown("T", table)
    page = to_html("T", table)
    assert "<td>&lt;x&gt; &amp; | y</td>" in page
    assert "<li>1 &lt; 2</li>" in page


def test_the_best_setting_and_of_equal_ones_the_first(tmp_path: Path) -> None:
    scores = {"valid.beam5.lenpen1": 20.0, "valid.beam5.lenpen0.6": 21.0, "valid.beam8.lenpen1.4": 21.0}
    folders = [write_scores(tmp_path / name, bleu) for name, bleu in scores.items()]
    assert record.best(folders) == ("5", "0.6")
    with pytest.raises(UserError, match="must be named"):
        record.best([write_scores(tmp_path / "valid.beam5", 50)])


def checkpoint(path: Path, epoch: int, iterations: int, seconds: float) -> None:
    position = {"epoch": epoch, "iterations_in_epoch": iterations}
    extra = {"train_iterator": position, "previous_training_time": seconds}
    cfg = {"model": {"_name": "dlcl_transformer"}, "task": {"_name": "translation"}}
    torch.save({"model": {"a": torch.ones(1)}, "cfg": cfg, "extra_state": extra, "optimizer_history": [{}]}, path)


def test_record_of_a_finished_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "seed4"
    (run / "checkpoints").mkdir(parents=True)
    # fairseq saves at the end of epoch 49 with the number of the next one; in the middle of one, with its own.
    checkpoint(run / "checkpoints" / "checkpoint_best.pt", 50, 0, 5000)
    checkpoint(run / "checkpoints" / "checkpoint_last.pt", 60, 3, 9000)
    folders = [write_scores(run / name, bleu) for name, bleu in (("v.beam4.lenpen0.6", 20), ("b", 31), ("a", 32))]
    command = ["finish", run, "3.1/10", "4", *folders, "--", "--max-epoch", "60", "--lr=1"]
    monkeypatch.setattr(sys, "argv", ["record.py", *map(str, command)])
    record.main()
    found = json.loads((run / "run.json").read_text("utf-8"))
    assert found.pop("versions")["device"]
    assert found == {
        "row": "3.1/10",
        "seed": 4,
        "options": ["--max-epoch", "60", "--lr=1"],
        "beam": 4,
        "lenpen": 0.6,
        "best_epoch": 49,
        "epochs": 60,
        "hours": 2.5,
        "valid": {"bleu": 20.0, "compounds": 21.0, "sacrebleu": 22.0},
        "best": {"folder": "b", "bleu": 31.0, "compounds": 32.0, "sacrebleu": 33.0},
        "average": {"folder": "a", "bleu": 32.0, "compounds": 33.0, "sacrebleu": 34.0},
    }


def test_record_of_a_training_that_broke_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "checkpoints" / "train.log"
    log.parent.mkdir()
    broke = "deepnmt: error: training stopped at update 7: NaN in the model; lower --lr\n"
    # It broke down, was started again with another rate, and then met a full disk.
    log.write_text(broke + "deepnmt: error: cannot write a checkpoint: disk full\n")
    command = ["record.py", "failed", str(tmp_path), "3.5/1", "1"]
    monkeypatch.setattr(sys, "argv", [*command, str(len(broke))])
    with pytest.raises(UserError, match=r"the training ended with an error: see .*train\.log"):
        record.main()
    assert not (tmp_path / "run.json").exists()
    monkeypatch.setattr(sys, "argv", [*command, "0", "--", "--lr=1"])
    record.main()
    found = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert found["failed"] == "training stopped at update 7: NaN in the model; lower --lr"


def test_smoke_options() -> None:
    warm, cold = rows.smoke(rows.find("3.1/10")), rows.smoke(rows.find("3.5/12"))
    assert set(warm) - set(cold) == {"--warmup-updates=40"}
    assert "--encoder-embed-dim=64" in cold
    assert "--warmup-updates" not in " ".join(rows.smoke(rows.find("own/pre_no_warmup")))


def test_compounds_are_split_as_fairseqs_script_does() -> None:
    # s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g
    lines = {
        "a well-known - thing": "a well ##AT##-##AT## known - thing",
        "--x-": "- ##AT##-##AT## x-",
        "ab-cd-ef": "ab ##AT##-##AT## cd ##AT##-##AT## ef",
        "a-b-c": "a ##AT##-##AT## b-c",
    }
    assert {line: split_compounds(line) for line in lines} == lines


def test_split_compounds_is_an_option_of_score(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_scores(folder, 0, REFERENCE)
    (folder / "ref.tok.en").write_text("\n".join(["a well-known thing is it", *REFERENCE[1:]]) + "\n", "utf-8")
    (folder / "hyp.tok.en").write_text("\n".join(["a well-read thing is it", *REFERENCE[1:]]) + "\n", "utf-8")
    (folder / "generate.json").write_text(json.dumps({"target_lang": "en", "lowercase": True}))
    found = []
    for options in ([], ["--split-compounds"]):
        score_main([str(folder), *options])
        found.append(json.loads((folder / "scores.json").read_text("utf-8")))
    assert "compounds split" not in found[0]
    assert found[1]["tokenised BLEU"] == found[0]["tokenised BLEU"]
    hypothesis, reference = (f"a well ##AT##-##AT## {word} thing is it" for word in ("read", "known"))
    wanted = corpus_bleu(
        [hypothesis, *REFERENCE[1:]], [[reference, *REFERENCE[1:]]], tokenize="none", smooth_method="none", force=True
    )
    assert found[1]["compounds split"]["score"] == round(wanted.score, 2)
