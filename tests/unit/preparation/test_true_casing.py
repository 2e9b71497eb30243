"""Normalisation and true case from raw text to data, to more data like it, to model folders, and back to text."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.flow import Result, corpus, errors, in_process, preprocess, write

from deepnmt.engines.model_folder import ModelFolder
from deepnmt.reranking.corpus import Corpus
from deepnmt.text import TextPipeline, TextSettings
from deepnmt.text.translated_folder import write_translations
from deepnmt.text.truecase import model_name

# Full-width digits and signs; words that begin sentences and stand inside of them.
GERMAN = ["Der Hund schläft． Das ist der Hund！", "Hier ist das Haus ５ ﹪．", "„Das Haus“ ist Das．"]
ENGLISH = ["The dog sleeps. It is the dog!", "Here it is, the House 5 %.", "The House is here."]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("case")
    files = corpus(folder / "raw")
    write(folder / "raw", "train", GERMAN * 5, ENGLISH * 5)
    write(folder / "raw", "valid", GERMAN, ENGLISH)
    result = preprocess(files, folder / "data", "--truecase", "--normalise", "nfkc,width")
    assert result.returncode == 0, result.stderr
    return folder / "data"


def test_data_is_normalised_and_in_true_case(data: Path) -> None:
    text = data / "text"
    assert (text / "valid.tok.de").read_text("utf-8").splitlines() == [
        "der Hund schläft . das ist der Hund !",
        "Hier ist das Haus 5 ␣ % .",
        "„ das Haus “ ist Das .",
    ]
    assert (text / "valid.tok.en").read_text("utf-8").splitlines()[0] == "the dog sleeps . it is the dog !"
    assert (text / "valid.raw.de").read_text("utf-8").splitlines() == GERMAN
    record = json.loads((data / "preprocess.json").read_text())
    assert (record["normalise"], record["truecase"]) == ("width,nfkc", True)
    assert {"truecase.de", "truecase.en"} < set(record["files"])


def test_the_pipeline_does_what_the_data_had_and_undoes_it(data: Path) -> None:
    pipeline = TextPipeline.read(data)
    segmented = (data / "text" / "valid.bpe.de").read_text("utf-8").splitlines()
    assert [pipeline.encode(line) for line in GERMAN] == segmented
    english = (data / "text" / "valid.bpe.en").read_text("utf-8").splitlines()
    assert [pipeline.decode(line) for line in english] == ENGLISH
    back = TextPipeline(pipeline.settings.reversed(), data / "codes")
    assert [back.encode(line) for line in ENGLISH] == english


def test_translations_begin_with_capitals_again(data: Path, tmp_path: Path) -> None:
    write_translations(tmp_path, ["the dog . it sleeps !"], data, "valid", 0)
    assert (tmp_path / "hyp.en").read_text() == "The dog. It sleeps!\n"
    assert (tmp_path / "hyp.tok.en").read_text() == "the dog . it sleeps !\n"
    assert Corpus([], [], [""], TextSettings("de", "en", truecase=True), False).text(0, "th@@ e dog .") == "The dog."


def test_more_text_is_prepared_alike(data: Path, tmp_path: Path) -> None:
    write(tmp_path, "news", ["Der Hund ５！"], ["The dog 5!"])
    more = ("--like", data, "--train", tmp_path / "news", "--dest", tmp_path / "more", "--workers", 1)
    assert in_process("binarise", *more).returncode == 0
    assert (tmp_path / "more" / "text" / "train.tok.de").read_text("utf-8") == "der Hund 5 !\n"
    assert TextSettings.read(tmp_path / "more") == TextSettings.read(data)
    assert (tmp_path / "more" / "truecase.de").read_bytes() == (data / "truecase.de").read_bytes()


def test_protected_words_keep_their_case_in_data_and_in_more_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without protection, DAS would be das; the prefix begins like an option.
    files = corpus(tmp_path / "raw")
    lines = ["DAS Haus ist hier.", "Das ist das Haus, das ist gut."]
    write(tmp_path / "raw", "train", lines * 5, ENGLISH[:2] * 5)
    write(tmp_path / "raw", "valid", lines, ENGLISH[:2])
    (tmp_path / "patterns").write_text("[A-Z]{2,}\n")
    result = preprocess(files, tmp_path / "data", "--truecase", "--protect", tmp_path / "patterns")
    assert result.returncode == 0, result.stderr
    expected = ["DAS Haus ist hier .", "das ist das Haus , das ist gut ."]
    assert (tmp_path / "data" / "text" / "valid.tok.de").read_text("utf-8").splitlines() == expected
    write(tmp_path, "-news", lines, ENGLISH[:2])
    monkeypatch.chdir(tmp_path)
    more = ("--like", "data", "--train", "-news", "--dest", "more", "--workers", 1)
    assert in_process("binarise", *more).returncode == 0
    assert (tmp_path / "more" / "text" / "train.tok.de").read_text("utf-8").splitlines() == expected
    pipeline = TextPipeline.read(tmp_path / "data")
    assert [pipeline.tokenize(line) for line in lines] == expected


def test_model_folders_of_each_format(data: Path, tmp_path: Path) -> None:
    settings = TextSettings.read(data)
    for name in ("codes", model_name("de"), model_name("en")):
        shutil.copyfile(data / name, tmp_path / name)
    for engine, number in (("torch", 4), ("transformers", 4), ("onnx", 3)):
        ModelFolder(tmp_path, settings, engine, "float32").write()
        folder, record = ModelFolder.read(tmp_path)
        assert (record["format"], folder.text) == (number, settings)
    assert folder.pipeline().encode(GERMAN[0]) == TextPipeline.read(data).encode(GERMAN[0])

    earlier = TextSettings("de", "en", reversible=False)
    ModelFolder(tmp_path, replace(earlier, truecase=True), "onnx", "float32").write()
    assert ModelFolder.read(tmp_path)[1]["format"] == 2
    ModelFolder(tmp_path, earlier, "onnx", "float32").write()
    _, record = ModelFolder.read(tmp_path)
    assert record["format"] == 1
    for name in ("normalise", "truecase"):
        del record[name]
    (tmp_path / "model.json").write_text(json.dumps(record))
    assert ModelFolder.read(tmp_path)[0].text == earlier


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--truecase", "--lowercase"], "--truecase cannot be combined with --lowercase, which leaves no case"),
        (["--normalise", "width,case"], "--normalise must have steps of width, nfkc, punctuation, simplified, but has"),
        (["--normalise", "simplified"], "--normalise simplified must have a language zh, but has de and en"),
        (
            ["--normalise", "punctuation", "--keep-punctuation"],
            "--normalise punctuation cannot be combined with --keep",
        ),
        (["--normalise", "width", "--pretokenized"], "--normalise is for text that is not --pretokenized"),
    ],
)
def test_refused(tmp_path: Path, options: list[str], message: str) -> None:
    (line,) = errors(preprocess({"train": tmp_path / "x", "valid": tmp_path / "x"}, tmp_path / "data", *options))
    assert message in line


def truecase(*words: object) -> Result:
    return in_process("truecase", *words)


def test_the_command_learns_applies_and_undoes_true_case(tmp_path: Path) -> None:
    text, model, true = tmp_path / "text", tmp_path / "model", tmp_path / "true"
    lines = "Der Hund schläft .\nDas ist der Hund und das Haus .\nHund und Katze .\n"
    text.write_text(lines, "utf-8")
    assert truecase("learn", text, model).returncode == 0
    assert truecase("apply", model, text, true, "--workers", 1).returncode == 0
    assert true.read_text("utf-8") == "der Hund schläft .\ndas ist der Hund und das Haus .\nHund und Katze .\n"
    assert truecase("undo", true, true).returncode == 0
    assert true.read_text("utf-8") == lines


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learn", "text", "text"], "MODEL must be another file than TEXT, but is text"),
        (["learn", "loop", "model"], "loop: Too many levels of symbolic links"),
        (["learn", "text"], "the following arguments are required: MODEL (see --help)"),
        (["apply", "model", "text"], "the following arguments are required: OUT (see --help)"),
        (
            ["guess", "text"],
            "invalid choice: 'guess' (choose from 'learn', 'apply', 'undo') (see --help)",
        ),
        (["undo", "text", "out", "--workers", ""], "option --workers needs a value (see --help)"),
        (["undo", "text", "out", "--workers", "0"], "--workers must be a whole number from 1 to 1024, but is '0'"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    (tmp_path / "text").write_text("Der Hund und der Hund .\n", "utf-8")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    result = truecase(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].endswith(message)
    assert (tmp_path / "text").read_text("utf-8") == "Der Hund und der Hund .\n"
