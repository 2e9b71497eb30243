"""What generate.sh does around fairseq-generate: scripts/translations.py, checks, and folders of translations."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import translations
from fairseq.options import get_generation_parser
from fairseq.tasks.translation import TranslationConfig
from support.data_folders import TYPES, data_folder
from support.script_runs import SCRIPTS, error_of, folder_of_translations, run_script

from deepnmt.checkpoints.data_fit import check_checkpoint
from deepnmt.errors import UserError
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

# What a training keeps beside its model.
KEPT: dict[str, Any] = {"extra_state": {}, "optimizer_history": [{}]}


def checkpoint(
    path: Path, encoder: int = TYPES, decoder: int = TYPES, languages: tuple[str, str] = ("de", "en")
) -> Path:
    task = {"source_lang": languages[0], "target_lang": languages[1]}
    model = {
        "encoder.embed_tokens.weight": torch.ones(encoder, 2),
        "decoder.embed_tokens.weight": torch.ones(decoder, 2),
    }
    torch.save({"model": model, "cfg": {"task": task, "model": {"_name": "transformer"}}, **KEPT}, path)
    return path


def test_dictionary_that_does_not_fit(tmp_path: Path) -> None:
    data, wrong = data_folder(tmp_path / "data"), checkpoint(tmp_path / "wrong.pt", decoder=14)
    earlier = folder_of_translations(tmp_path / "out", {"hyp": ["earlier"]})
    (earlier / "generate.log").write_text(LOG)
    good = checkpoint(tmp_path / "good.pt")
    message = error_of(run_script("generate.sh", f"{good}:{wrong}", data, earlier))
    assert f"{wrong}: must have the 12 types of {data}/dict.en.txt in its decoder, but has 14: it was" in message
    assert (earlier / "hyp.en").read_text() == "earlier\n"
    assert {path.name for path in tmp_path.iterdir()} == {"data", "good.pt", "wrong.pt", "out"}


def test_other_bad_checkpoints(tmp_path: Path) -> None:
    data, good = data_folder(tmp_path / "data"), checkpoint(tmp_path / "good.pt")
    check_checkpoint(good, data)
    whole = good.read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    message = error_of(run_script("generate.sh", tmp_path / "cut.pt", data, tmp_path / "out"))
    assert f"{tmp_path}/cut.pt: must be a whole fairseq checkpoint, but is truncated" in message
    with pytest.raises(UserError, match=r"\.pt: must have the 12 types of .*dict\.de\.txt in its encoder, but has 9"):
        check_checkpoint(checkpoint(tmp_path / "wrong.pt", encoder=9), data)
    back = checkpoint(tmp_path / "back.pt", languages=("en", "de"))
    with pytest.raises(UserError, match=r"back\.pt: must translate de to en, but translates en to de; --reverse tr"):
        check_checkpoint(back, data)
    check_checkpoint(back, data, reverse=True)
    with pytest.raises(UserError, match=r"good\.pt: must translate en to de, but translates de to en$"):
        check_checkpoint(good, data, reverse=True)
    wrong = checkpoint(tmp_path / "wrong.pt", encoder=9, languages=("en", "de"))
    with pytest.raises(UserError, match=r"\.pt: must have the 12 types of .*dict\.en\.txt in its encoder, but has 9"):
        check_checkpoint(wrong, data, reverse=True)


def test_languages_of_a_model_without_a_dataclass(tmp_path: Path) -> None:
    data, state = data_folder(tmp_path / "data"), torch.load(checkpoint(tmp_path / "new.pt"), weights_only=True)
    args = Namespace(source_lang="en", target_lang="de")
    torch.save({**state, "cfg": None, "args": args}, tmp_path / "old.pt")
    with pytest.raises(UserError, match=r"old\.pt: must translate de to en, but translates en to de"):
        check_checkpoint(tmp_path / "old.pt", data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}/good.pt", "{0}/data"], "CHECKPOINT, DATA and OUT_DIR must be given"),
        (
            ["{0}/good.pt", "{0}/data", "{0}/out", "--subset", "valid"],
            "the subset must be one of test, train ({0}/data), but is valid",
        ),
        (["{0}/no.pt", "{0}/data", "{0}/out"], "{0}/no.pt: no such checkpoint"),
        (["{0}/good.pt", "{0}/no", "{0}/out"], "{0}/no/preprocess.json: no such file"),
        (["{0}/good.pt", "{0}/a:b", "{0}/out"], "DATA must not have a colon in its name, but is '{0}/a:b'"),
        (["{0}/good.pt", "{0}/data", "{0}/data"], "{0}/data exists, and was not made by generate.sh"),
        (["{0}/good.pt", "{0}/data", "{0}/reranked"], "{0}/reranked exists, and was not made by generate.sh"),
        (["{0}/good.pt", "{0}/data", "{0}/good.pt"], "{0}/good.pt exists, and is not a folder"),
        (["{0}/good.pt", "{0}/data", "{0}/out", "--quiet"], "--quiet must not be given: OUT_DIR is made from the"),
        (
            ["{0}/good.pt", "{0}/data", "{0}/out", "--nbest", "2", "--nbest-file", "x"],
            "--nbest-file must not be given: --nbest makes it",
        ),
        (
            ["{0}/good.pt", "{0}/data", "{0}/out", "--nbest=2", "--nbest-file=x"],
            "--nbest-file must not be given: --nbest makes it",
        ),
    ],
)
def test_bad_arguments_of_generate(tmp_path: Path, arguments: list[str], message: str) -> None:
    data_folder(tmp_path / "data", ["train", "test"])
    checkpoint(tmp_path / "good.pt")
    # What deepnmt-rerank leaves, too.
    (tmp_path / "reranked").mkdir()
    (tmp_path / "reranked" / "generate.json").write_text("{}")
    before = {path.name for path in tmp_path.iterdir()}
    result = run_script("generate.sh", *(argument.format(tmp_path) for argument in arguments))
    assert message.format(tmp_path) in error_of(result)
    assert {path.name for path in tmp_path.iterdir()} == before


LOG = """2026-11-21 | INFO | fairseq
S-2\tde 3 .
H-2\t-0.5\ten three .
D-2\t-0.5\ten three .
H-2\t-0.9\tsecond best
H-0\t-0.1\t&quot; en &quot; one .
Generate test with beam=5: BLEU4 = 0.00
"""


def test_translations_are_in_the_order_of_the_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_folder(tmp_path / "data")
    (tmp_path / "log").write_text(LOG)
    output = tmp_path / "out"
    output.mkdir()
    translations.extract(tmp_path / "log", data, "test", output)
    texts = {path.name: path.read_text() for path in output.iterdir()}
    record: dict[str, Any] = json.loads(texts.pop("generate.json"))
    assert texts == {
        "hyp.tok.en": "&quot; en &quot; one .\n\nen three .\n",
        "hyp.en": '"en" one.\n\nen three.\n',
        "ref.tok.en": "en 1 .\nen 2 .\nen 3 .\n",
        "ref.en": "en 1.\nen 2.\nen 3.\n",
        "src.de": "de 1.\nde 2.\nde 3.\n",
    }
    assert record == {"target_lang": "en", "subset": "test", "lowercase": True, "untranslated": 1}
    assert "warning: 1 of 3 sentences were not translated" in capsys.readouterr().err


def test_translations_of_the_other_direction(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    (tmp_path / "log").write_text(LOG)
    output = tmp_path / "out"
    output.mkdir()
    (output / "nbest.tsv").write_text("2\t1\ta\tmodel=-1\n0\t1\tb\tmodel=-1\n0\t2\tc\tmodel=-2\n")
    translations.extract(tmp_path / "log", data, "test", output, reverse=True)
    assert (output / "nbest.tsv").read_text() == "0\t1\tb\tmodel=-1\n0\t2\tc\tmodel=-2\n2\t1\ta\tmodel=-1\n"
    assert (output / "hyp.tok.de").read_text().split("\n")[1:3] == ["", "en three ."]
    assert (output / "ref.de").read_text() == "de 1.\nde 2.\nde 3.\n"
    assert (output / "src.en").read_text() == "en 1.\nen 2.\nen 3.\n"
    record = json.loads((output / "generate.json").read_text())
    assert (record["target_lang"], record["reverse"]) == ("de", True)


def test_data_with_placeholders_are_not_translated_in_the_other_direction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_folder(tmp_path / "data")
    record = json.loads((data / "preprocess.json").read_text())
    (data / "preprocess.json").write_text(json.dumps({**record, "placeholders": "numbers"}))
    result = run_script("generate.sh", checkpoint(tmp_path / "a.pt"), data, tmp_path / "out", "--reverse")
    message = error_of(result)
    assert f"{data}: must be made without --placeholders to be translated with --reverse, but has numbers" in message
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(sys, "argv", ["", "check", str(data), "test"])
    translations.main()


def test_log_of_another_subset(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG + "H-3\t-1\tmore\nH-x\tno hypothesis\n")
    with pytest.raises(UserError, match="log: must be of the 3 sentences of the subset, but has number 3"):
        translations.hypotheses(tmp_path / "log", 3)
    assert translations.hypotheses(tmp_path / "log", 4)[3] == "more"


def test_texts_and_binarised_sentences_must_match(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    assert translations.check_data(data, "test") == 3
    record = json.loads((data / "preprocess.json").read_text())
    del record["files"]
    (data / "preprocess.json").write_text(json.dumps(record))
    (data / "text" / "test.raw.en").write_text("en 1.\n")
    with pytest.raises(UserError, match=r"test\.raw\.en must have a line for each of the 3 sentences, but has 1"):
        translations.check_data(data, "test")
    (data / "text" / "test.tok.de").unlink()
    with pytest.raises(UserError, match=r"test\.tok\.de: no such file; .*/data must be a whole folder"):
        translations.check_data(data, "test")


def test_watched_command_keeps_its_output_and_status(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = f"import sys; print({LOG!r}, end=''); sys.exit(3)"
    assert translations.watch(tmp_path / "log", 3, [sys.executable, "-c", program]) == 3
    assert (tmp_path / "log").read_text() == LOG
    assert "2.00/3.00" in capfd.readouterr().err


def run_generate(folder: Path, fairseq: str, *options: str) -> subprocess.CompletedProcess[str]:
    """generate.sh with this shell script in the place of fairseq-generate, which takes long to start."""
    (folder / "bin").mkdir()
    generate = 'if [ "$2" = deepnmt.commands.generate ]; then shift 2; exec fairseq-generate "$@"; fi'
    python = f'{generate}\nexec "{sys.executable}" "$@"'
    for name, script in (("python3", python), ("fairseq-generate", fairseq)):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    (folder / "log").write_text(LOG)
    command = [
        str(SCRIPTS / "generate.sh"),
        str(folder / "good.pt"),
        str(folder / "data"),
        str(folder / "out"),
        *options,
    ]
    environment = {**os.environ, "DEEPNMT_PYTHON_BIN": str(folder / "bin")}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def earlier_translations(folder: Path) -> Path:
    data_folder(folder / "data")
    checkpoint(folder / "good.pt")
    earlier = folder_of_translations(folder / "out", {"hyp": ["earlier"], "old": ["earlier"]})
    (earlier / "generate.log").write_text(LOG)
    return earlier


def test_new_translations_replace_earlier_ones(tmp_path: Path) -> None:
    earlier = earlier_translations(tmp_path)
    result = run_generate(tmp_path, f'echo "$@"; cat "{tmp_path}/log"', "--subset", "test", "--beam", "2")
    assert result.returncode == 0, result.stderr
    assert {path.name for path in earlier.iterdir()} == {
        *("generate.json", "generate.log", "src.de"),
        *("hyp.en", "hyp.tok.en", "ref.en", "ref.tok.en"),
    }
    arguments, log = (earlier / "generate.log").read_text().split("\n", 1)
    assert log == LOG
    assert arguments.startswith(f"{tmp_path}/data --path {tmp_path}/good.pt --selected-on {tmp_path}/out.tmp.")
    assert f" --user-dir {SCRIPTS.parent}/deepnmt --task deep_translation --gen-subset test" in arguments
    assert "--source-lang de --target-lang en --beam 5 --batch-size 128" in arguments
    assert arguments.endswith(" --beam 2")
    shutil.rmtree(tmp_path / "bin")
    checkpoint(tmp_path / "good.pt", languages=("en", "de"))
    result = run_generate(tmp_path, f'echo "$@"; cat "{tmp_path}/log"', "--reverse", "--nbest", "3")
    assert result.returncode == 0, result.stderr
    arguments = (earlier / "generate.log").read_text().split("\n")[0]
    assert "--source-lang en --target-lang de" in arguments
    assert " --reverse " in arguments
    assert re.search(rf"--nbest-file {tmp_path}/out\.tmp\.\d+/nbest\.tsv --nbest 3$", arguments)
    assert (earlier / "src.en").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "data", "good.pt", "log", "out"}


def test_failure_of_fairseq_keeps_earlier_translations_and_the_log(tmp_path: Path) -> None:
    earlier = earlier_translations(tmp_path)
    result = run_generate(tmp_path, "echo first; echo 'error: no such option' >&2; exit 3")
    assert result.returncode == 2
    log = f"{tmp_path}/out.failed.log"
    assert f"fairseq-generate failed: error: no such option (all of its output is in {log})\n" in result.stderr
    assert Path(log).read_text() == "first\nerror: no such option\n"
    assert (earlier / "hyp.en").read_text() == "earlier\n"
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "data", "good.pt", "log", "out", "out.failed.log"}


@pytest.mark.parametrize("choices", [3, 40])
def test_a_list_of_choices_is_shown_if_it_is_short(choices: int, tmp_path: Path) -> None:
    earlier_translations(tmp_path)
    names = ", ".join(f"'task_{number}'" for number in range(choices))
    error = f"fairseq-generate: error: argument --task: invalid choice: 'x' (choose from {names})"
    result = run_generate(tmp_path, f'echo "{error}" >&2; exit 2')
    shown = error if choices == 3 else error.split("(")[0] + "(see fairseq-generate --help)"
    assert f": {shown} (all of its output is in {tmp_path}/out.failed.log)\n" in result.stderr


def test_options_that_the_script_gives_itself_are_refused() -> None:
    words = ["--user-dir", "own", "--path=a.pt", "--gen-subset", "valid", "--source-lang=x", "--target-lang", "y"]
    with pytest.raises(UserError, match=r"^--user-dir must not be given: it is the plug-in") as error:
        translations.check_options([*words, "--results-path", "z", "--beam", "3"])
    assert str(error.value).splitlines()[1:] == [
        "--path must not be given: it is CHECKPOINT",
        "--gen-subset must not be given: use --subset",
        "--source-lang must not be given: it is DATA's, or with --reverse its target",
        "--target-lang must not be given: it is DATA's, or with --reverse its source",
        "--results-path must not be given: it is OUT_DIR",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-s", "en", "-t", "de"], "-s must not be given: it is DATA's source language, or with --reverse its target"),
        (["--beam=3", "-sen"], "-s must not be given: it is DATA's source language, or with --reverse its target"),
        (["-t=de"], "-t must not be given: it is DATA's target language, or with --reverse its source"),
        (["--constraint-file=x"], "--constraint-file must not be given: --terms makes it"),
        (["--constraint-file", "x"], "--constraint-file must not be given: --terms makes it"),
        (["--nbest-file=x"], "--nbest-file must not be given: --nbest makes it"),
        (["--results-path=x"], "--results-path must not be given: it is OUT_DIR"),
        (["--selected-on=x"], "--selected-on must not be given: generate.json has it"),
    ],
)
def test_other_forms_of_these_options_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        translations.check_options(words)


def test_all_names_of_these_options_are_known() -> None:
    """fairseq-generate has no other name for any of them."""
    parser = get_generation_parser()
    DeepTranslationTask.add_args(parser)
    names = [set(action.option_strings) for action in parser._actions]
    assert {"--source-lang", "-s"} in names
    given = {*translations.GIVEN}
    assert all(each <= given for each in names if each & given)


def test_negative_numbers_are_no_short_options() -> None:
    translations.check_options(["--lenpen", "-1", "--unkpen=-2", "--prefix-size", "-0.5"])


def test_options_of_the_task_are_refused_beside_another() -> None:
    own = {field.name for field in fields(DeepTranslationConfig)} - {field.name for field in fields(TranslationConfig)}
    # The seed is fairseq's, and has another place.
    assert {*translations.OF_THE_TASK} == {"nbest", *(name.replace("_", "-") for name in own - {"seed"})}
    for options in (
        [],
        ["--nbest", "3", "--coverage=gnmt"],
        ["--task", "deep_translation", "--nbest=3"],
        ["--task=x", "--beam=2"],
    ):
        translations.check_options(options)
    with pytest.raises(UserError, match=r"^--nbest: must be given with --task") as error:
        translations.check_options(["--nbest=3", "--task", "translation", "--lenpen", "1", "--prune-gap", "2"])
    assert str(error.value).splitlines() == [
        "--nbest: must be given with --task deep_translation alone, but is with translation",
        "--prune-gap: must be given with --task deep_translation alone, but is with translation",
    ]
