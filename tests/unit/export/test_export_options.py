"""Options of deepnmt export: each reaches the export, and faults are found before anything is loaded or written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import run_main
from support.translation_models import write_checkpoint, write_data

from deepnmt.cli import export as command
from deepnmt.engines.engine import SearchSettings
from deepnmt.errors import UserError
from deepnmt.export import exporter
from deepnmt.export.exporter import Export


def test_each_option_reaches_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.json").write_text('{"weights": {"model": 0.5, "length": 0.25}}')
    made: list[Any] = []
    monkeypatch.setattr(exporter, "export", lambda task, target, say: made.append((task, target)))
    words = ("--weights", "int8", "--check", 7, "--allow-loss", "--shortlist", 9, "--lexicon", "lexicon.tsv")
    search = ("--beam", 3, "--lenpen", 0.7, "--rerank", tmp_path / "weights.json")
    run_main(command.main, "deepnmt export", "a.pt", "data", "out", "--engine", "onnx", *words, *search)
    run_main(
        command.main, "deepnmt export", "a.pt", "data", "out", "--engine", "transformers", "--scores", "scores.json"
    )
    run_main(command.main, "deepnmt export", "a.pt:b.pt", "data", "out")
    paths, data, out = [Path("a.pt")], Path("data"), Path("out")
    settings = SearchSettings(beam=3, lenpen=0.7, rerank="model=0.5,length=0.25")
    assert made == [
        (Export(paths, data, "onnx", "int8", 7, True, settings, 9, Path("lexicon.tsv")), out),
        (Export(paths, data, "transformers", scores=Path("scores.json")), out),
        (Export([*paths, Path("b.pt")], data, "auto"), out),
    ]


MANY = "an ensemble of 2 checkpoints: use --engine torch"
REFUSED: list[tuple[str, str]] = [
    ("a.pt --engine onnx --weights bfloat16", "--weights bfloat16: use --engine torch"),
    ("a.pt --engine ctranslate2 --weights bfloat16", "--weights bfloat16: use --engine torch"),
    ("a.pt --engine transformers --weights int8", "--weights int8: use --engine torch"),
    *((f"a.pt:b.pt --engine {engine}", MANY) for engine in ("onnx", "ctranslate2", "transformers")),
    (
        "a.pt:b.pt --engine ctranslate2 --weights bfloat16 --shortlist 500",
        "--engine ctranslate2: has no shortlist for each sentence; use --engine onnx or torch\n"
        f"--weights bfloat16: use --engine torch\n{MANY}",
    ),
    (
        "a.pt --engine transformers --shortlist 500",
        "--engine transformers: has no shortlist for each sentence; use --engine onnx or torch",
    ),
    (
        "a.pt --engine transformers --rerank weights.json",
        "--rerank cannot be combined with --engine transformers",
    ),
    ("a.pt --scores scores.json", "--scores needs --engine transformers"),
    ("a.pt --engine torch --scores scores.json", "--scores needs --engine transformers"),
    ("a.pt --lexicon lexicon.tsv", "--lexicon needs --shortlist"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_no_model_makes_possible_is_refused_before_a_file_is_read(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.json").write_text('{"weights": {"model": 1.0}}')
    checkpoints, *options = words.split()
    with pytest.raises(UserError, match=f"^{message}$"):
        run_main(command.main, "deepnmt export", checkpoints, "no-data", "out", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["weights.json"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_data(tmp_path_factory.mktemp("options") / "data")
    write_checkpoint(folder.parent / "checkpoint.pt", folder)
    return folder


SCORES: list[tuple[object, str]] = [
    ({}, "no scores found$"),
    ([1], "must be a JSON object, but is a list$"),
    ({"BLEU": 41.5}, "'BLEU' must be an object, but is 41.5$"),
    ({"BLEU": {"signature": "x"}}, "must have the key 'BLEU.score', but does not$"),
    ({"BLEU": {"score": 41.5}}, "must have the key 'BLEU.signature', but does not$"),
    ({"BLEU": {"score": "high", "signature": "x"}}, "'BLEU.score' must be a number, but is \"high\"$"),
    ({"BLEU": {"score": True, "signature": "x"}}, "'BLEU.score' must be a number, but is true$"),
    ({"BLEU": {"score": 1, "signature": None}}, "'BLEU.signature' must be text, but is null$"),
]


@pytest.mark.parametrize("missing", ["no scores", *range(len(SCORES)), "no lexicon", "no text", "one line"])
def test_faulty_files_are_found_before_a_model_is_loaded(
    missing: str | int, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "load_checkpoints", lambda *_, **__: pytest.fail("loaded"))
    copy = shutil.copytree(data, tmp_path / "data")
    for language in ("de", "en"):
        shutil.copy(copy / "text" / f"valid.bpe.{language}", copy / "text" / f"train.bpe.{language}")
    words: list[object] = ["--engine", "transformers", "--scores", tmp_path / "scores.json"]
    message = rf"^{tmp_path}/scores\.json:? "
    if missing == "no scores":
        message += "no such file$"
    elif missing == "no lexicon":
        words, message = ["--shortlist", 5, "--lexicon", tmp_path / "no.tsv"], r"^--lexicon .*no\.tsv: no such file$"
    elif isinstance(missing, int):
        value, fault = SCORES[missing]
        (tmp_path / "scores.json").write_text(json.dumps(value))
        message += fault
    else:
        words, text = [], copy / "text" / "valid.bpe.en"
        text.unlink()
        message = r"valid\.bpe\.en: no such file, but --check needs it \(--check 0 exports without a check\)$"
        if missing == "one line":
            text.write_text("a\n")
            message = r"valid\.bpe\.de has 12 lines, but .*valid\.bpe\.en has 1: line n of both must be one pair$"
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        run_main(command.main, "deepnmt export", data.parent / "checkpoint.pt", copy, tmp_path / "model", *words)
    assert sorted(tmp_path.rglob("*")) == before
