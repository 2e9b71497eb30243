"""`deepnmt train-lm`: the data folder of a language model, its recipe, and what is refused before a training."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import train
from support.data_folders import SENTENCES, TYPES, data_folder, write_side

from deepnmt import cli, recipe
from deepnmt.errors import UserError
from deepnmt.recipe.checking import check_recipe
from deepnmt.runs import supervision
from deepnmt.text import language_model_data

ROOT = Path(__file__).resolve().parents[3]
RECIPE = ROOT / "configs" / "language_model.yaml"


def make(data: Path, save: Path, language: str = "de", train: str = "train", text: Path | None = None) -> None:
    language_model_data.make(data, save, language, train, "valid", text or data)


def test_folder_and_recipe_train_a_model_that_the_search_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, save = data_folder(tmp_path / "data"), tmp_path / "lm"
    make(data, save)
    make(data, save)  # as a training that is resumed does
    assert (save / "dict.txt").read_bytes() == (data / "dict.de.txt").read_bytes()
    read = recipe.read_recipe(RECIPE)
    check_recipe(RECIPE, read, [])
    monkeypatch.setattr(sys, "argv", ["fairseq-train"])
    small = ["--max-update=2", "--decoder-layers=1", "--decoder-embed-dim=16", "--cpu", f"--save-dir={save}"]
    small += ["--decoder-input-dim=16", "--decoder-output-dim=16"]
    command = [str(save / "data"), *recipe.to_arguments(read), *small]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    samples = [task.datasets["train"][number] for number in range(len(SENTENCES))]
    # As a translation starts: with an end symbol, and nothing of the sentence before.
    assert sorted(sample["target"].tolist() for sample in samples) == sorted(map(list, SENTENCES))
    assert all(sample["source"].tolist() == [2, *sample["target"].tolist()[:-1]] for sample in samples)
    assert len(task.dictionary) == TYPES
    train.main(cfg)
    assert (save / "checkpoint_last.pt").is_file()  # the best loss is fairseq's of the whole process


def test_text_of_one_language(tmp_path: Path) -> None:
    data, more, save = data_folder(tmp_path / "data"), tmp_path / "more", tmp_path / "lm"
    more.mkdir()
    write_side(more / "mono.de-None.de", SENTENCES[:1])
    make(data, save, train="mono", text=more)
    assert (save / "data" / "train.idx").resolve() == more / "mono.de-None.de.idx"
    assert (save / "data" / "valid.bin").resolve() == data / "valid.de-en.de.bin"


def test_refused(tmp_path: Path) -> None:
    data, other, save = data_folder(tmp_path / "data"), data_folder(tmp_path / "other"), tmp_path / "lm"
    for arguments, message in (
        ((data, save, "fr"), r"dict\.fr\.txt: no such dictionary"),
        ((data, save, "de", "mono"), r"data: must have one file such as mono\.de-xx\.de\.idx, but has none$"),
        ((data, save, "de", "train", tmp_path / "none"), "none: data folder not found$"),
    ):
        with pytest.raises(UserError, match=message):
            make(*arguments)  # type: ignore[arg-type]
        assert not save.exists()
    make(data, save)
    (other / "dict.de.txt").write_text((other / "dict.de.txt").read_text().replace("w1", "v1"))
    with pytest.raises(UserError, match=r"other/dict\.de\.txt: must be the same as .*data/dict\.de\.txt, but is not$"):
        make(data, save, text=other)
    with pytest.raises(UserError, match=r"lm/dict\.txt: must be the same as .* has a model of another dictionary$"):
        make(other, save)
    (data / "train.de-en.de.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"train\.de-en\.de\.bin"):
        make(data, save)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data"], "DATA and SAVE must be given, before any option of fairseq-train (see --help)"),
        (["data", "lm"], "the following arguments are required: --lang (see --help)"),
        (
            ["data", "lm", "--lang", "de", "--recipe", "none.yaml"],
            "--recipe must be a file, or a name that 'deepnmt recipe' lists, but there is no 'none.yaml'",
        ),
    ],
)
def test_faulty_command_lines(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        cli.call("train-lm", words)


def test_the_training_that_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, save, begun = data_folder(tmp_path / "data"), tmp_path / "lm", []
    monkeypatch.setattr(supervision, "run_process", lambda command: begun.append(command[-6:]) or 0)
    cli.call("train-lm", [f"{data}/", "--lang", "de", str(save), "--max-update", "3", "--valid=train"])
    words = [str(RECIPE), str(save / "data"), str(save), "--max-update", "3"]
    assert begun == [["deepnmt.runs.training", *words]]
    assert (save / "data" / "valid.idx").resolve() == data / "train.de-en.de.idx"
    # Other text and another recipe.
    (tmp_path / "own.yaml").write_text("arch: transformer_lm\n")
    text, save = data_folder(tmp_path / "text"), tmp_path / "second"
    words = ["--train", "test", "--text", str(text), "--recipe", str(tmp_path / "own.yaml")]
    cli.call("train-lm", [str(data), str(save), "--lang", "en", *words])
    assert begun[-1][-3:] == [str(tmp_path / "own.yaml"), str(save / "data"), str(save)]
    assert (save / "data" / "train.idx").resolve() == text / "test.de-en.en.idx"
    assert (save / "data" / "valid.idx").resolve() == data / "valid.de-en.en.idx"
