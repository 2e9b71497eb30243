"""Each command that loads a checkpoint refuses a data folder with another dictionary of the same size."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq_cli import eval_lm, generate, interactive, train, validate
from support.checkpoints import load, run_main
from support.data_folders import write_side
from support.known_data import earlier, knows, warned_of
from support.language_models import save_language_model
from support.models import SIZE
from support.translation_models import write_checkpoint, write_data

from deepnmt.cli import combine, datastore, export, inspect, rerank, translate
from deepnmt.errors import UserError
from deepnmt.text.dictionary import read_types
from deepnmt.text.nbest import Translation, write_nbest
from deepnmt.text.subword_identity import TARGET, SubwordIdentity

SIDES = ("de", "en")
MODEL = [f"--{name.replace('_', '-')}={value}" for name, value in SIZE.items()]
TRAINING = ["--task=deep_translation", "--arch=dlcl_transformer", *MODEL, "--optimizer=adam", "--lr=0.01", "--cpu"]
TRAINING += ["--max-tokens=200", "--max-update=1", "--num-workers=0", "--disable-validation", "--save-dir={save}"]
LOSS = "--criterion=label_smoothed_cross_entropy_fused"
DISTILS = "--criterion=label_smoothed_cross_entropy_distillation"
RERANK = ["--nbest={list}", "--data={data}", "--tune", "{out}"]
SEARCH = ["{data}", "--cpu", "--gen-subset=valid", "--task=deep_translation"]

# Name, command, its words. {data} is the folder at hand, {own} the one that {model} was trained on.
COMMANDS: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("generate", generate.cli_main, [*SEARCH, "--path={model}"]),
    ("generate with an ensemble", generate.cli_main, [*SEARCH, "--path={fits}:{model}"]),
    ("generate right to left", generate.cli_main, [*SEARCH, "--path={reversed}"]),
    ("generate with a language model", generate.cli_main, [*SEARCH, "--path={fits}", "--lm-path={lm}"]),
    ("interactive", interactive.cli_main, ["{data}", "--cpu", "--path={model}", "--input={text}"]),
    ("validate", validate.cli_main, ["{data}", "--cpu", "--path={model}", "--task=translation", "--max-tokens=200"]),
    ("eval-lm", eval_lm.cli_main, ["{lm_data}", "--cpu", "--path={lm}", "--task=language_modeling"]),
    ("train, resuming", train.cli_main, ["{data}", *TRAINING, LOSS, "--restore-file={model}"]),
    ("train, beginning", train.cli_main, ["{data}", *TRAINING, LOSS, "--finetune-from-model={model}"]),
    ("train, distilling", train.cli_main, ["{data}", *TRAINING, DISTILS, "--teacher={model}"]),
    ("translate", translate.main, ["{model}", "--data={data}"]),
    ("export", export.main, ["{model}", "{data}", "{out}"]),
    ("export to ONNX", export.main, ["{model}", "{data}", "{out}", "--engine=onnx"]),
    ("export to CTranslate2", export.main, ["{model}", "{data}", "{out}", "--engine=ctranslate2"]),
    ("rerank by the same direction", rerank.main, [*RERANK, "--score=a={model}"]),
    ("rerank by the other direction", rerank.main, [*RERANK, "--reverse=a={back}"]),
    ("rerank by a language model", rerank.main, [*RERANK, "--lm=a={lm}"]),
    ("combine", combine.main, ["--nbest={list}", "--data={data}", "--models={fits}:{model}", "{out}"]),
    ("datastore", datastore.main, ["{model}", "{data}", "{out}", "--subset=valid"]),
    ("inspect", inspect.main, ["{model}", "--data={data}", "--subset=valid"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two data folders, whose dictionaries differ in the order of two types, and models of the first."""
    folder = tmp_path_factory.mktemp("other")
    own = write_data(folder / "own")
    for language in SIDES:
        for subset in ("train", "valid"):
            write_side(own / f"{subset}.de-en.{language}", [[4, 5, 6, 2], [7, 8, 2]])
    data = Path(shutil.copytree(own, folder / "data"))
    for language in SIDES:
        first, second, *rest = (own / f"dict.{language}.txt").read_text("utf-8").splitlines(keepends=True)
        (data / f"dict.{language}.txt").write_text("".join([second, first, *rest]), encoding="utf-8")
    found = {"own": own, "data": data, "out": folder / "out", "save": folder / "save", "text": folder / "text"}
    found["text"].write_text("Nina .\n", encoding="utf-8")
    identity = SubwordIdentity.of_folder(own, SIDES)
    for name, seed in (("model", 1), ("reversed", 2), ("back", 3)):
        found[name] = knows(write_checkpoint(folder / f"{name}.pt", own, seed), identity)
    found["fits"] = knows(write_checkpoint(folder / "fits.pt", data), SubwordIdentity.of_folder(data, SIDES))
    state = load(found["reversed"])
    torch.save({**state, "task_state": {"right_to_left": True}}, found["reversed"])
    state = load(found["back"])
    state["cfg"]["task"].update(source_lang="en", target_lang="de")
    torch.save(state, found["back"])
    types = read_types(own / "dict.en.txt")
    # The dictionary that lies beside a language model would be seen to differ by itself.
    found["lm"] = save_language_model(folder, Dictionary.load(str(own / "dict.en.txt")))
    knows(found["lm"], SubwordIdentity("lm", {TARGET: types}))
    found["lm_data"] = folder / "lm_data"
    found["lm_data"].mkdir()
    for place in (found["lm_data"], folder):
        shutil.copy(data / "dict.en.txt", place / "dict.txt")
    found["list"] = nbest_list(folder / "list", data)
    return found


def nbest_list(folder: Path, data: Path) -> Path:
    """A list of two translations of each sentence of `valid`."""
    folder.mkdir()
    lines = (data / "text" / "valid.bpe.en").read_text("utf-8").splitlines()
    for language in SIDES:
        (data / "text" / f"valid.tok.{language}").write_bytes((data / "text" / f"valid.bpe.{language}").read_bytes())
    (folder / "src.de").write_bytes((data / "text" / "valid.bpe.de").read_bytes())
    record = '{"target_lang": "en", "subset": "valid", "lowercase": false, "untranslated": 0}'
    (folder / "generate.json").write_text(record, encoding="utf-8")
    found = [
        Translation(number, rank, text, {"model": -float(rank), "length": 3.0})
        for number, line in enumerate(lines)
        for rank, text in enumerate((line, f"{line} ."), start=1)
    ]
    write_nbest(folder / "nbest.tsv", found)
    return folder


def fault(command: Callable[[], Any], words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command ends with: a command of ours prints it, one of fairseq's raises it."""
    with pytest.raises((UserError, SystemExit), match=r"cannot be used|2") as caught:
        run_main(command, "command", *words)
    return str(caught.value) if isinstance(caught.value, UserError) else capsys.readouterr().err


@pytest.mark.parametrize(("command", "words"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS])
def test_refused(
    places: dict[str, Path], command: Callable[[], Any], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = fault(command, [word.format(**places) for word in words], capsys)
    # The faulty checkpoint, not the one that fits.
    (wrong,) = {each for each in ("model", "reversed", "back", "lm") if f"{{{each}}}" in " ".join(words)}
    faults = [line for line in said.splitlines() if "cannot be used with" in line]
    assert len(faults) == 1, said
    assert re.search(
        rf"{places[wrong]} cannot be used with .*: it was trained with another \w+ dictionary; give", faults[0]
    )
    assert not places["out"].exists()


@pytest.mark.parametrize("name", ["datastore", "combine"])
def test_an_earlier_checkpoint_is_used_and_one_line_says_so(
    places: dict[str, Path], name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = earlier(places["model"], tmp_path / "model.pt")
    given = {**places, "model": model, "fits": model, "out": tmp_path / "out"}
    command, words = {row[0]: row[1:] for row in COMMANDS}[name]
    said = warned_of(lambda: run_main(command, name, *(word.format(**given) for word in words)), caplog)
    assert said == [str(model)]
