"""A language model knows its codes and text settings; other translation models do not take it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fairseq_cli import generate, interactive, train
from support.checkpoints import load, run_main
from support.data_folders import change_record
from support.flow import corpus, preprocess
from support.slow import slow_but
from support.translation_models import write_checkpoint

from deepnmt import Translator
from deepnmt.checkpoints.state import TRAINED_ON
from deepnmt.cli import export
from deepnmt.errors import UserError
from deepnmt.reranking.model_scores import Kind, ModelFeature
from deepnmt.text import language_model_data

TRAINING = ["--task=language_modeling", "--arch=transformer_lm", "--criterion=cross_entropy", "--optimizer=adam"]
TRAINING += ["--lr=0.01", "--max-update=1", "--num-workers=0", "--disable-validation", "--cpu", "--decoder-layers=1"]
TRAINING += ["--sample-break-mode=eos", "--tokens-per-sample=60", "--max-tokens=120"]
TRAINING += [f"--decoder-{name}=16" for name in ("embed-dim", "input-dim", "output-dim", "ffn-embed-dim")]
SEARCH = ["--cpu", "--path={model}", "--task=deep_translation", "--lm-path={lm}", "--lm-weight=0.1", "--beam=1"]
OTHERS = {"codes": "it was trained with other codes", "settings": "its text was prepared without normalise"}
COMMANDS: dict[str, Callable[[dict[str, Path]], Any]] = {
    "generate": lambda at: run_main(generate.cli_main, "generate", *_words(at, "{data}", "--gen-subset=valid")),
    "interactive": lambda at: run_main(interactive.cli_main, "interactive", *_words(at, "{data}", "--input={text}")),
    "a checkpoint": lambda at: Translator.from_checkpoint(at["model"], at["data"]).translate("Hund", lm_path=at["lm"]),
    "rerank": lambda at: ModelFeature("a", Kind.LANGUAGE, (at["lm"],)).check(at["data"], False),
}


def _words(places: dict[str, Path], *words: str) -> list[str]:
    return [word.format(**places) for word in (*words, *SEARCH)]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data folders that differ in one respect, models of each, and a language model of the first."""
    folder = tmp_path_factory.mktemp("lm")
    own, save = folder / "own", folder / "save"
    assert preprocess(corpus(folder / "text"), own).returncode == 0
    found = {"own": own, **{name: Path(shutil.copytree(own, folder / name)) for name in OTHERS}}
    lines = (own / "codes").read_text("utf-8").splitlines(keepends=True)
    (found["codes"] / "codes").write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]), encoding="utf-8")
    change_record(found["settings"], normalise="punctuation")
    language_model_data.make(own, save, "en", "train", "valid", own)
    run_main(train.cli_main, "train", save / "data", *TRAINING, f"--save-dir={save}")
    found |= {"lm": save / "checkpoint_last.pt", "text": folder / "lines", "model": folder / "model.pt"}
    found["text"].write_text("Hund\n", encoding="utf-8")
    write_checkpoint(found["model"], own)
    return found


def test_the_checkpoint_has_checksums(places: dict[str, Path]) -> None:
    known = load(places["lm"])["extra_state"][TRAINED_ON]
    types = [line.split()[0] for line in (places["own"] / "dict.en.txt").read_text("utf-8").splitlines()]
    text = "".join(f"{each}\n" for each in ("<s>", "<pad>", "</s>", "<unk>", *types))
    assert known["dictionaries"] == {
        "target": {"types": 4 + len(types), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    }
    assert known["files"] == {"codes": hashlib.sha256((places["own"] / "codes").read_bytes()).hexdigest()}
    record = json.loads((places["own"] / "preprocess.json").read_text("utf-8"))
    assert known["settings"] == {name: True for name in ("language_case", "all_numbers") if record.get(name)}


@pytest.mark.parametrize("name", slow_but(["generate", "a checkpoint", "rerank"], COMMANDS))
def test_used_with_its_own_data(places: dict[str, Path], name: str) -> None:
    COMMANDS[name]({**places, "data": places["own"]})


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", COMMANDS)
def test_refused_with_others(places: dict[str, Path], name: str, other: str) -> None:
    with pytest.raises(
        UserError, match=rf"checkpoint_last\.pt cannot be used with .*{other}: {OTHERS[other]}"
    ) as caught:
        COMMANDS[name]({**places, "data": places[other]})
    assert len(str(caught.value).splitlines()) == 1


def test_refused_by_a_model_folder(places: dict[str, Path], tmp_path: Path) -> None:
    for name in ("own", "codes"):
        run_main(export.main, "export", places["model"], places[name], tmp_path / name, "--check=0")
    Translator(tmp_path / "own").translate("Hund", lm_path=str(places["lm"]), lm_weight=0.1)
    with pytest.raises(UserError, match="it was trained with other codes"):
        Translator(tmp_path / "codes").translate("Hund", lm_path=str(places["lm"]), lm_weight=0.1)


@pytest.mark.parametrize("other", OTHERS)
def test_no_training_goes_on_with_others(places: dict[str, Path], other: str, tmp_path: Path) -> None:
    own, save = places["own"], tmp_path / "save"
    with pytest.raises(UserError, match=r"own: must have the codes and text settings of .*, but has others"):
        language_model_data.make(places[other], save, "en", "train", "valid", own)
    assert not save.exists()
    language_model_data.make(own, save, "en", "train", "valid", own)
    with pytest.raises(UserError, match=r"save: has a model of other codes or text settings than .*"):
        language_model_data.make(places[other], save, "en", "train", "valid", places[other])
