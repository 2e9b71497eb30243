"""A translator with a glossary, by an engine that follows it, and by each engine of a model folder."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.data_folders import change_record
from support.translation_models import write_checkpoint, write_data

from deepnmt.checkpoints.data_fit import check_inline_targets, trained_settings
from deepnmt.engines.engine import Hypothesis, SearchSettings
from deepnmt.errors import UserError
from deepnmt.text import second_pass
from deepnmt.text.inline_targets import AS, END, MARKS, TERM
from deepnmt.text.pipeline import TextPipeline, tokens_of
from deepnmt.text.settings import TextSettings
from deepnmt.translator.line_stream import LineStream, as_json
from deepnmt.translator.translator import Translator

HERE = TextSettings("de", "en", pretokenized=True, glossary=True)


class Follower:
    """Writes the translations of terms in their places, and other words as they are."""

    longest = 14

    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def check(self, settings: SearchSettings) -> None:
        """Everything goes."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        self.read += map(list, sentences)
        return [[Hypothesis(self.followed(list(sentence)), 0.0)] for sentence in sentences]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        raise NotImplementedError

    def followed(self, words: list[str]) -> list[str]:
        found: list[str] = []
        while words:
            if words[0] == TERM:
                found += words[words.index(AS) + 1 : words.index(END)]
                words = words[words.index(END) + 1 :]
            else:
                found.append(words.pop(0))
        return found


def make(folder: Path, settings: TextSettings = HERE) -> Translator:
    (folder / "codes").write_text("#characters\n")
    letters = [*"abcdefgxyz<>/tmr", "ä"]
    (folder / "dict.de.txt").write_text("".join(f"{letter}{end} 1\n" for letter in letters for end in ("", "@@")))
    pipeline = TextPipeline.of(settings, folder / "codes")
    return Translator.of_parts(pipeline, Follower(), SearchSettings(), folder / "dict.de.txt")


def test_terms_get_their_translations(tmp_path: Path) -> None:
    translator = make(tmp_path)
    assert translator.translate("a b c", glossary={"b": "xy"}) == "a xy c"
    assert translator.translate("a b c") == "a b c"
    assert translator.translate(["a b", "c"], glossary={}) == ["a b", "c"]
    (tmp_path / "terms").write_text("a b\txy z\nc\tä\n")
    for path in (tmp_path / "terms", str(tmp_path / "terms")):
        assert translator.translate(["a b c", "b a", ""], glossary=path) == ["xy z ä", "b a", ""]
    known = translator.glossary(tmp_path / "terms")
    assert translator.nbest(["c c"], 1, glossary=known)[0][0].text == "ä ä"


def test_words_that_no_text_has_are_spelt(tmp_path: Path) -> None:
    translator = make(tmp_path)
    (tmp_path / "codes").write_text("#version: 0.2\nx y\nxy z</w>\n")
    translator = Translator.of_parts(
        TextPipeline.of(HERE, tmp_path / "codes"), Follower(), SearchSettings(), tmp_path / "dict.de.txt"
    )
    assert translator.translate("a b", glossary={"b": "xyz"}) == "a xyz"
    engine: Any = translator.engine
    # The merges make a piece that is no type.
    assert engine.read == [["a", "b"], ["a", TERM, "b", AS, "x@@", "y@@", "z", END]]


def test_translations_keep_pieces_that_are_types(tmp_path: Path) -> None:
    translator = make(tmp_path)
    (tmp_path / "codes").write_text("#version: 0.2\nx y</w>\n")
    with (tmp_path / "dict.de.txt").open("a") as file:
        file.write("xy 1\n")
    engine = Follower()
    pipeline = TextPipeline.of(HERE, tmp_path / "codes")
    translator = Translator.of_parts(pipeline, engine, SearchSettings(), tmp_path / "dict.de.txt")
    assert translator.translate("a b", glossary={"b": "xy"}) == "a xy"
    assert engine.read[-1] == ["a", TERM, "b", AS, "xy", END]


def test_numbers_of_the_source_are_put_back(tmp_path: Path) -> None:
    translator = make(tmp_path, replace(HERE, placeholders="numbers"))
    with (tmp_path / "dict.de.txt").open("a") as file:
        file.write("<num> 1\n")
    pipeline = translator.pipeline
    translator = Translator.of_parts(pipeline, Follower(), SearchSettings(), tmp_path / "dict.de.txt")
    assert translator.translate("a 7 b") == "a 7 b"
    engine: Any = translator.engine
    assert engine.read == [["a", "<num>", "b"]]
    # A number stands between the words of the term.
    second = second_pass.SecondPass(pipeline.glossary({"a": "x y"}, {*"axy"}), pipeline, (), {0: "a 7"})
    assert [term.text for term in second.missing(0, "x <num> y")] == ["a"]
    assert second.missing(0, "<num> x y") == []


def test_bytes_become_characters_before_terms_are_looked_for(tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"vocabulary.{language}").write_text("a\nx\nx@@\n")
    pipeline = make(tmp_path, replace(HERE, byte_fallback=True)).pipeline
    glossary = pipeline.glossary({"a": "xä"}, {"x@@", "<0xC3>@@", "<0xA4>", "x", "ä"})
    second = second_pass.SecondPass(glossary, pipeline, (), {0: "a"})
    assert second.missing(0, "x<0xC3><0xA4>") == []
    assert [term.text for term in second.missing(0, "x<0xC3><0xA5>")] == ["a"]


def test_marks_in_a_text_are_plain_text(tmp_path: Path) -> None:
    translator = make(tmp_path)
    text = "a <term> b"
    assert translator.translate(text) == text
    assert translator.translate(text, glossary={"b": "x"}) == "a <term> x"
    assert translator.translate(f"a {TERM} b") == text


def test_json_has_the_plain_source_and_the_terms(tmp_path: Path) -> None:
    translator = make(tmp_path)
    output = io.BytesIO()
    stream = LineStream(translator, translator.settings(), as_json, glossary=translator.glossary({"ab": "x"}))
    stream.run([b"ab c\n", b"c\n"], "here", output, lambda lines: None)
    first, second = map(json.loads, output.getvalue().decode().splitlines())
    assert (first["text"], first["source_tokens"]) == ("x c", ["a@@", "b", "c"])
    assert first["terms"] == [{"term": "ab", "translation": "x", "found": True}]
    assert "terms" not in second


def test_what_is_too_long_with_its_terms_is_translated_without(tmp_path: Path) -> None:
    translator = make(tmp_path)
    assert translator.translate(["a a a", "a a"], glossary={"a": "x"}) == ["a a a", "x x"]
    found = translator.run(["a a a"], translator.settings(), glossary=translator.glossary({"a": "x"}))[0]
    assert [term.translation for term in found.missing] == ["x", "x", "x"]


def test_only_what_lacks_a_term_is_translated_again(tmp_path: Path) -> None:
    translator = make(tmp_path)
    engine: Any = translator.engine
    glossary = translator.glossary({"a": "a", "b": "x y", "c": "d"})
    # The last two have places for one term.
    text = ["a b", "a", "g", "x y b", "c c d"]
    assert translator.translate(text, glossary=glossary) == ["a x y", "a", "g", "x y b", "d d d"]
    again = [" ".join(read) for read in engine.read if TERM in read]
    assert sorted(again) == sorted(
        [f"{TERM} a {AS} a {END} {TERM} b {AS} x y {END}", f"{TERM} c {AS} d {END} {TERM} c {AS} d {END} d"]
    )


class Stubborn(Follower):
    """Drops what has marks, but for the first translation of terms; two translations of each sentence."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        found = [" ".join(sentence).partition(END)[0] for sentence in sentences]
        words = [text.partition(AS)[2].split() or text.split() for text in found]
        return [[Hypothesis(each, -1.0 - (AS in text)), Hypothesis(["z"], -3.0)] for each, text in zip(words, found)]


def test_the_second_translation_is_taken_if_it_has_more_terms(tmp_path: Path) -> None:
    translator = make(tmp_path)
    translator.engine = Stubborn()
    glossary = {"a": "x", "b": "b", "c": "y"}
    found = translator.nbest(["c d", "a b", "b b"], 2, glossary=glossary)
    # Of `a b`, each of the two has one term: the first stays, with its list and its scores.
    assert [[(each.text, each.score) for each in line] for line in found] == [
        [("y", -2.0), ("z", -3.0)],
        [("a b", -1.0), ("z", -3.0)],
        [("b b", -1.0), ("z", -3.0)],
    ]
    run = translator.run(["a b"], translator.settings(), glossary=translator.glossary(glossary))[0]
    assert [term.text for term in run.terms] == ["a", "b"]
    assert [term.text for term in run.missing] == ["a"]


@pytest.mark.parametrize(
    ("terms", "fault"),
    [
        ({"a": "狗"}, "glossary: '狗' must be of types of the dictionary, but has '狗'"),
        ({"a": ""}, "glossary: must be a term and its translation, with a tab between them, but is 'a'"),
        ("no", "--glossary must be a file of terms, but there is no 'no'"),
    ],
)
def test_faulty_glossaries(tmp_path: Path, terms: dict[str, str] | str, fault: str) -> None:
    with pytest.raises(UserError, match=f"^{fault}$"):
        make(tmp_path).translate("a", glossary=terms)


def test_a_model_without_inline_targets_is_refused(tmp_path: Path) -> None:
    translator = make(tmp_path, TextSettings("de", "en", pretokenized=True))
    with pytest.raises(UserError, match=r"^--glossary needs a model trained with inline targets \(deepnmt preprocess"):
        translator.translate("a", glossary={"a": "x"})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Data with marks in the dictionaries, and a checkpoint of a model that was trained on them."""
    root = tmp_path_factory.mktemp("trained")
    data = write_data(root / "data")
    for language in ("de", "en"):
        with (data / f"dict.{language}.txt").open("a") as file:
            file.writelines(f"{mark} 0\n" for mark in MARKS)
    change_record(data, glossary=True)
    checkpoint = write_checkpoint(root / "trained.pt", data, encoder_groups="none", decoder_groups="none")
    return data, checkpoint


def note(checkpoint: Path, path: Path) -> Path:
    contents = torch.load(checkpoint, weights_only=True)
    torch.save({**contents, "task_state": {"glossary": True}}, path)
    return path


def test_a_checkpoint_says_what_it_was_trained_with(trained: tuple[Path, Path], tmp_path: Path) -> None:
    data, plain = trained
    other = note(plain, tmp_path / "other.pt")
    assert trained_settings([other], data).glossary
    assert not trained_settings([other, plain], data).glossary
    check_inline_targets(other)
    with pytest.raises(UserError, match=f"^{plain}: --glossary needs a model trained with inline targets"):
        check_inline_targets(plain)
    with pytest.raises(UserError, match=r"^--glossary needs a model trained with inline targets"):
        Translator.from_checkpoint(plain, data).translate("Der Hund schläft.", glossary={"Hund": "cat"})


def test_all_engines_read_the_same(trained: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ctranslate2")
    from deepnmt.export.exporter import Export, export

    data, plain = trained
    checkpoint = note(plain, tmp_path / "other.pt")
    text, terms = ["Der Hund schläft.", "Das ist z. B. ein Haus!"], {"Hund": "cat", "Haus": "eats"}
    direct = Translator.from_checkpoint(checkpoint, data)
    without = direct.translate(text)
    plain = {tokens_of(" ".join(found[0].tokens), direct.pipeline.settings) for found in direct.nbest(text)}
    # A random model follows no term.
    monkeypatch.setattr(
        second_pass, "missing_terms", lambda tokens, terms, settings: list(terms) if tokens in plain else []
    )
    expected = direct.translate(text, glossary=terms)
    assert expected != without
    for engine in ("torch", "onnx", "ctranslate2"):
        export(Export([checkpoint], data, engine, check=0), tmp_path / engine)
        assert json.loads((tmp_path / engine / "model.json").read_text())["glossary"] is True
        translator = Translator(tmp_path / engine)
        assert translator.translate(text, glossary=terms) == expected
        assert translator.translate(text) == without
