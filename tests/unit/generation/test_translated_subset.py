"""Folders of translations: checks before the search, what is made of its results, and what a failure leaves."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.data_folders import TYPES, data_folder
from support.script_runs import folder_of_translations

from deepnmt.checkpoints.data_fit import check_checkpoint
from deepnmt.cli import generate
from deepnmt.errors import UserError
from deepnmt.generation import subset_search
from deepnmt.text.translated_folder import check_data, check_direction

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
    (earlier / "generate.log").write_text("earlier")
    good = checkpoint(tmp_path / "good.pt")
    message = f"{wrong}: must have the 12 types of {data}/dict.en.txt in its decoder, but has 14: it was"
    with pytest.raises(UserError, match=re.escape(message)):
        generate.main([f"{good}:{wrong}", str(data), str(earlier)])
    assert (earlier / "hyp.en").read_text() == "earlier\n"
    assert {path.name for path in tmp_path.iterdir()} == {"data", "good.pt", "wrong.pt", "out"}


def test_other_bad_checkpoints(tmp_path: Path) -> None:
    data, good = data_folder(tmp_path / "data"), checkpoint(tmp_path / "good.pt")
    check_checkpoint(good, data)
    whole = good.read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"cut\.pt: must be a whole fairseq checkpoint, but is truncated"):
        generate.main([str(tmp_path / "cut.pt"), str(data), str(tmp_path / "out")])
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
        (
            ["{0}/good.pt", "--beam", "4", "{0}/data", "{0}/out"],
            "CHECKPOINT, DATA and OUT_DIR must be given, before any",
        ),
        (
            ["{0}/good.pt", "{0}/data", "{0}/out", "--terms=x", "--glossary=x"],
            "--glossary cannot be combined with --terms",
        ),
        (
            ["{0}/good.pt", "{0}/data"],
            "must be given, before any option of fairseq-generate",
        ),
        (
            ["{0}/good.pt", "{0}/data", "{0}/out", "--subset", "valid"],
            "the subset must be one of test, train ({0}/data), but is valid",
        ),
        (["{0}/no.pt", "{0}/data", "{0}/out"], "{0}/no.pt: no such checkpoint"),
        (["{0}/good.pt", "{0}/no", "{0}/out"], "{0}/no/preprocess.json: no such file"),
        (["{0}/good.pt", "{0}/a:b", "{0}/out"], "DATA must not have a colon in its name, but is '{0}/a:b'"),
        (["{0}/good.pt", "{0}/data", "{0}/data"], "{0}/data exists, and was not made by deepnmt generate"),
        (["{0}/good.pt", "{0}/data", "{0}/reranked"], "{0}/reranked exists, and was not made by deepnmt generate"),
        (["{0}/good.pt", "{0}/data", "{0}/good.pt"], "{0}/good.pt exists, and was not made by deepnmt generate"),
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
    with pytest.raises(UserError, match=re.escape(message.format(tmp_path))):
        generate.main([argument.format(tmp_path) for argument in arguments])
    assert {path.name for path in tmp_path.iterdir()} == before


FOUND = {2: "en three .", 0: "&quot; en &quot; one ."}


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of a search that finds `FOUND`, and lists if they are wanted."""
    calls: list[list[str]] = []

    def search(words: Sequence[str], log: Path, total: int) -> dict[int, str]:
        calls.append(list(words))
        log.write_text(f"a log of {total}")
        if "--nbest-file" in words:
            path = Path(words[words.index("--nbest-file") + 1])
            path.write_text("2\t1\ta\tmodel=-1\n0\t1\tb\tmodel=-1\n0\t2\tc\tmodel=-2\n")
        return FOUND

    monkeypatch.setattr(subset_search, "search", search)
    return calls


def test_translations_are_in_the_order_of_the_corpus(
    tmp_path: Path, searched: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    data, output = data_folder(tmp_path / "data"), tmp_path / "new" / "out"
    generate.main([str(checkpoint(tmp_path / "good.pt")), str(data), str(output)])
    texts = {path.name: path.read_text() for path in output.iterdir()}
    record: dict[str, Any] = json.loads(texts.pop("generate.json"))
    assert texts == {
        "hyp.tok.en": "&quot; en &quot; one .\n\nen three .\n",
        "hyp.en": '"en" one.\n\nen three.\n',
        "ref.tok.en": "en 1 .\nen 2 .\nen 3 .\n",
        "ref.en": "en 1.\nen 2.\nen 3.\n",
        "src.de": "de 1.\nde 2.\nde 3.\n",
        "generate.log": "a log of 3",
    }
    assert record == {"target_lang": "en", "subset": "test", "lowercase": True, "untranslated": 1}
    printed = capsys.readouterr()
    assert "warning: 1 of 3 sentences were not translated" in printed.err
    assert printed.out == f"{output} is ready: translations in {output}/hyp.en\n"


def test_translations_of_the_other_direction(tmp_path: Path, searched: list[list[str]]) -> None:
    data, output = data_folder(tmp_path / "data"), tmp_path / "out"
    path = checkpoint(tmp_path / "good.pt", languages=("en", "de"))
    generate.main([str(path), str(data), str(output), "--reverse", "--nbest", "3"])
    assert (output / "nbest.tsv").read_text() == "0\t1\tb\tmodel=-1\n0\t2\tc\tmodel=-2\n2\t1\ta\tmodel=-1\n"
    assert (output / "hyp.tok.de").read_text().split("\n")[1:3] == ["", "en three ."]
    assert (output / "ref.de").read_text() == "de 1.\nde 2.\nde 3.\n"
    assert (output / "src.en").read_text() == "en 1.\nen 2.\nen 3.\n"
    record = json.loads((output / "generate.json").read_text())
    assert (record["target_lang"], record["reverse"]) == ("de", True)


def test_data_with_placeholders_are_not_translated_in_the_other_direction(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    record = json.loads((data / "preprocess.json").read_text())
    (data / "preprocess.json").write_text(json.dumps({**record, "placeholders": "numbers"}))
    message = f"{data}: --reverse cannot be combined with --placeholders numbers"
    with pytest.raises(UserError, match=re.escape(message)):
        generate.main([str(checkpoint(tmp_path / "a.pt")), str(data), str(tmp_path / "out"), "--reverse"])
    assert not (tmp_path / "out").exists()
    check_direction(data, reverse=False)


def test_texts_and_binarised_sentences_must_match(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data")
    assert check_data(data, "test") == 3
    record = json.loads((data / "preprocess.json").read_text())
    del record["files"]
    (data / "preprocess.json").write_text(json.dumps(record))
    (data / "text" / "test.raw.en").write_text("en 1.\n")
    with pytest.raises(UserError, match=r"test\.raw\.en must have a line for each of the 3 sentences, but has 1"):
        check_data(data, "test")
    (data / "text" / "test.tok.de").unlink()
    with pytest.raises(UserError, match=r"test\.tok\.de: no such file; .*/data must be a whole folder"):
        check_data(data, "test")


def earlier_translations(folder: Path) -> Path:
    data_folder(folder / "data")
    checkpoint(folder / "good.pt")
    earlier = folder_of_translations(folder / "out", {"hyp": ["earlier"], "old": ["earlier"]})
    (earlier / "generate.log").write_text("earlier")
    return earlier


def test_new_translations_replace_earlier_ones(tmp_path: Path, searched: list[list[str]]) -> None:
    earlier = earlier_translations(tmp_path)
    places = [str(tmp_path / name) for name in ("good.pt", "data", "out")]
    generate.main([*places, "--beam", "2", "--subset", "test", "--lenpen", "-1"])
    assert {path.name for path in earlier.iterdir()} == {
        *("generate.json", "generate.log", "src.de"),
        *("hyp.en", "hyp.tok.en", "ref.en", "ref.tok.en"),
    }
    assert searched[0][:3] == [places[1], "--path", places[0]]
    words = " ".join(searched[0])
    assert "/deepnmt --task deep_translation --gen-subset test --source-lang de --target-lang en" in words
    assert words.endswith(" --no-progress-bar --beam 2 --lenpen -1")
    # What is given comes after the defaults, and wins.
    assert " --beam 5 --batch-size 128 " in words
    checkpoint(tmp_path / "good.pt", languages=("en", "de"))
    generate.main([*places, "--reverse", "--nbest=3", "--unkpen=-2"])
    words = " ".join(searched[1])
    assert "--source-lang en --target-lang de" in words
    assert re.search(rf"--nbest-file {tmp_path}/out\.tmp\.\d+/nbest\.tsv --unkpen=-2 --nbest 3$", words)
    assert (earlier / "src.en").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "good.pt", "out"}


def test_failure_of_fairseq_keeps_earlier_translations_and_the_log(tmp_path: Path) -> None:
    earlier = earlier_translations(tmp_path)
    words = [str(tmp_path / name) for name in ("good.pt", "data", "out")]
    log = tmp_path / "out.failed.log"
    with pytest.raises(UserError, match=r"^fairseq-generate failed: fairseq-generate: error: .* --no-such") as error:
        generate.main([*words, "--no-such"])
    assert str(error.value).endswith(f" (all of its output is in {log})")
    assert log.read_text().startswith(f"+ fairseq-generate {tmp_path}/data --path {tmp_path}/good.pt --")
    assert (earlier / "hyp.en").read_text() == "earlier\n"
    assert {path.name for path in tmp_path.iterdir()} == {"data", "good.pt", "out", "out.failed.log"}


def test_a_success_removes_the_log_of_a_failure(tmp_path: Path, searched: list[list[str]]) -> None:
    earlier_translations(tmp_path)
    (tmp_path / "out.failed.log").write_text("failed")
    generate.main([str(tmp_path / name) for name in ("good.pt", "data", "out")])
    assert not (tmp_path / "out.failed.log").exists()


def test_a_folder_behind_a_link_is_replaced(tmp_path: Path, searched: list[list[str]]) -> None:
    earlier = earlier_translations(tmp_path)
    earlier.rename(tmp_path / "disk")
    earlier.symlink_to(tmp_path / "disk")
    generate.main([str(tmp_path / name) for name in ("good.pt", "data", "out")])
    assert earlier.is_symlink()
    assert not (tmp_path / "disk" / "old.en").exists()
