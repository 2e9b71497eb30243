"""Sentences of a line are translated one by one and joined; an engine that reverses words stands for a model."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from deepnmt.cli import translate
from deepnmt.engines.engine import Hypothesis, SearchSettings
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.settings import TextSettings
from deepnmt.translator.line_stream import LineStream, as_json, numbered, plain
from deepnmt.translator.paragraphs import Paragraph
from deepnmt.translator.translator import Translator


class Echo:
    """Repeats a sentence; its n-th best translation lacks the first n - 1 words. Scores are minus the words."""

    longest = 6

    def __init__(self) -> None:
        self.sources: list[list[str]] = []

    def check(self, settings: SearchSettings) -> None:
        """Everything goes."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        self.sources += [list(sentence) for sentence in sentences]
        return [
            [Hypothesis([*each[lack:]], -float(len(each))) for lack in range(min(settings.nbest, len(each)))]
            for each in sentences
        ]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        raise NotImplementedError


def translator(folder: Path, pretokenized: bool = False, languages: tuple[str, str] = ("en", "de")) -> Translator:
    (folder / "codes").write_text("#version: 0.2\nq q\n")
    words = [*"onetwhr.!z今日は。"]
    types = [*words, *(f"{word}@@" for word in words)]
    (folder / "dict").write_text("".join(f"{each} 1\n" for each in types), encoding="utf-8")
    pipeline = TextPipeline.of(TextSettings(*languages, pretokenized=pretokenized), folder / "codes")
    return Translator.of_parts(pipeline, Echo(), SearchSettings(), folder / "dict")


def run(folder: Path, text: str, pretokenized: bool = False, **options: object) -> str:
    settings = SearchSettings(nbest=int(str(options.pop("nbest", 1))))
    output, done = io.BytesIO(), []
    stream = LineStream(translator(folder, pretokenized), settings, **options)  # type: ignore[arg-type]
    stream.run(io.BytesIO(text.encode()), "in", output, done.append)
    assert sum(done) == text.count("\n")
    return output.getvalue().decode()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("One!  Two. ", "One!  Two."),
        ("One!\u3000Two.", "One!\u3000Two."),
        ("One!\xa0 Two.", "One!\xa0 Two."),
        # Neither may end a line or a column.
        ("One!\tTwo.\u2028One.\rTwo.", "One! Two. One. Two."),
        ("One", "One"),
        ("", ""),
        ("  ", ""),
    ],
)
def test_white_space_between_sentences_is_kept(line: str, expected: str, tmp_path: Path) -> None:
    assert run(tmp_path, f"{line}\nOne\n") == f"{expected}\nOne\n"


def test_each_sentence_is_a_source(tmp_path: Path) -> None:
    model = translator(tmp_path)
    engine = model.engine
    assert isinstance(engine, Echo)
    assert model.translate(["Two. One!", "Two"]) == ["Two. One!", "Two"]
    assert sorted(map("".join, engine.sources)) == ["O@@n@@e!", "T@@w@@o", "T@@w@@o."]
    engine.sources.clear()
    # Together they are longer than the model's longest source.
    assert model.translate("Two. One!", split=False) == ""
    assert [found[0].text for found in model.nbest(["Two. One!", "One"])] == ["Two. One!", "One"]
    assert [found[0].text for found in model.nbest(["Two. One!", "One"], split=False)] == ["", "One"]


def test_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Echo, "longest", 20)
    assert run(tmp_path, "One!  Two.\n", split=False) == "One! Two.\n"
    assert run(tmp_path, "One!  Two.\n") == "One!  Two.\n"
    # Tokenised text is as it was in training.
    assert run(tmp_path, "one !  two .\n", pretokenized=True) == "one! two.\n"
    seen: list[bool] = []
    monkeypatch.setattr(translate, "_translator", lambda arguments: translator(tmp_path))
    monkeypatch.setattr(LineStream, "run", lambda stream, *rest: seen.append(stream.split))
    translate.main(["model"])
    translate.main(["model", "--no-split"])
    assert seen == [True, False]


def test_translations_and_their_score(tmp_path: Path) -> None:
    # "One." has four subwords and score -4, "Two" three and -3: with end symbols, lengths 5 and 4.
    assert run(tmp_path, "One. Two\n", form=numbered, nbest=2) == (
        f"1\t{-(4 * 5 + 3 * 4) / 9:.4f}\tOne. Two\n1\t{-(4 * 4 + 3 * 3) / 7:.4f}\tne. wo\n"
    )
    # A sentence with fewer translations repeats its last one.
    lines = run(tmp_path, "One. z\n", form=numbered, nbest=3).splitlines()
    assert [line.split("\t")[2] for line in lines] == ["One. z", "ne. z", "e. z"]


def test_details_of_a_line(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path, "One. Öne!\n", form=as_json))
    assert found["source_tokens"] == ["O@@", "n@@", "e", ".", "Ö@@", "n@@", "e", "!"]
    assert found["unknown"] == ["O@@", "Ö@@"]
    assert found["translations"][0]["tokens"] == found["source_tokens"]


def test_a_sentence_that_is_too_long_leaves_its_line_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "One. Onetwothree. Two.\n", form=plain) == "\n"
    assert capsys.readouterr().err == (
        "warning: in:1: too long: 12 subwords; the model has 6 (sentence 2); its translation is left empty\n"
    )


@pytest.mark.parametrize(
    ("languages", "line", "gaps"),
    [
        (("ja", "de"), "今日は。今日は。 今日は。", [" ", " "]),
        (("ja", "zh"), "今日は。今日は。 今日は。", ["", " "]),
        (("de", "ja"), "Eins. Zwei.  Drei.", ["", "  "]),
        (("de", "th"), "Eins. Zwei.  Drei.", [" ", "  "]),
    ],
)
def test_space_between_sentences_is_of_the_target_language(
    languages: tuple[str, str], line: str, gaps: list[str]
) -> None:
    assert Paragraph.of(line, *languages).gaps == gaps
