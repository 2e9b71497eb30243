"""A line in is a line out, whatever the lines; an engine that reverses words stands for a model."""

from __future__ import annotations

import io
import json
import os
import re
import select
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import run_main

from deepnmt.cli import translate
from deepnmt.console import progress
from deepnmt.engines.engine import Hypothesis, SearchSettings
from deepnmt.errors import UserError
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.settings import TextSettings
from deepnmt.translator.line_stream import LineStream, as_json, numbered, plain, scored
from deepnmt.translator.translator import Translator


class Reverser:
    """Reverses the words of a sentence; its n-th best translation lacks n - 1 of them."""

    longest = 6

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def check(self, settings: SearchSettings) -> None:
        """Everything goes."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        self.batches.append([len(sentence) for sentence in sentences])
        words = [list(reversed(sentence)) for sentence in sentences]
        return [
            [Hypothesis(each[: len(each) - lack], -0.5 * (lack + 1)) for lack in range(min(settings.nbest, len(each)))]
            for each in words
        ]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        raise NotImplementedError


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("codes") / "codes"
    # Letters of these words join; others stay apart.
    path.write_text("#version: 0.2\no n\non e</w>\nt w\ntw o</w>\nt h\nth r\nthr e\nthre e</w>\n")
    (path.parent / "dict.xx.txt").write_text("".join(f"{word} 1\n" for word in ("one", "two", "three", ".")))
    return path


def make(codes: Path) -> Translator:
    pipeline = TextPipeline.of(TextSettings("xx", "xx", pretokenized=True), codes)
    return Translator.of_parts(pipeline, Reverser(), SearchSettings(), codes.parent / "dict.xx.txt")


def run(codes: Path, text: bytes, **options: Any) -> tuple[str, list[list[int]]]:
    translator = make(codes)
    settings = SearchSettings(nbest=options.pop("nbest", 1))
    output, done = io.BytesIO(), []
    LineStream(translator, settings, **options).run(io.BytesIO(text), "in", output, done.append)
    assert sum(done) == text.count(b"\n") + (not text.endswith(b"\n") and text != b"")
    engine: Any = translator.engine
    return output.getvalue().decode(), engine.batches


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"one two\ntwo one\n", "two one\none two\n"),
        (b"one two", "two one\n"),
        (b"", ""),
        (b"\n", "\n"),
        (b"one two\n\n \t\nthree\n", "two one\n\n\nthree\n"),
        (b"one two\r\ntwo one\r\n", "two one\none two\n"),
        ("one\u2028two\u0085one\x0bx\n".encode(), "x one two one\n"),
        (b"one\x00two\n\x00\n", "two one\n\n"),
        ("\ufeffone two\n".encode(), "two one\n"),
    ],
)
def test_a_line_in_is_a_line_out(codes: Path, text: bytes, expected: str) -> None:
    assert run(codes, text)[0] == expected


def test_lines_are_sorted_within_a_chunk_and_written_in_order(codes: Path) -> None:
    text = b"one two three\none\n\none two\nthree\ntwo two\none two three one\n"
    found, batches = run(codes, text, batch_size=2, chunk=5)
    assert found == "three two one\none\n\ntwo one\nthree\ntwo two\none three two one\n"
    assert batches == [[1, 1], [2, 3], [2, 4]]


def test_a_batch_of_long_sentences_is_small(codes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepnmt.translator.translator.BATCH_SUBWORDS", 6)
    assert run(codes, b"one\n" * 4 + b"one two three\n" * 3)[1] == [[1] * 4, [3, 3], [3]]


def test_too_long_is_an_empty_line_and_a_warning(codes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = b"one\n" + b"one " * 7 + b"\ntwo\n" + b"x" * 1001 + b"\n" + b"y " * 9999 + b"\n" + b"z" * 9999 + b"\n"
    assert run(codes, text)[0] == "one\n\ntwo\n\n\n\n"
    warnings = capsys.readouterr().err.splitlines()
    assert [line.split(";")[0] for line in warnings] == [
        "warning: in:2: too long: 7 subwords",
        "warning: in:4: too long: a word has more than 1,000 characters",
        "warning: in:5: too long: 19997 characters",
        "warning: in:6: too long: 9999 characters",
    ]
    with pytest.raises(UserError, match=r"^in:2: too long: 7 subwords; the model has 6 \(--strict\)$"):
        run(codes, text, strict=True)


def test_a_warning_is_a_line_of_its_own_beside_a_progress_bar(codes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with progress(2, "translating", " sentences"):
        run(codes, b"one\n" + b"one " * 7 + b"\n")
    assert re.search(r"[\r\n]warning: in:2: too long: 7 subwords;[^\r\n]*\n", capsys.readouterr().err)


def test_invalid_utf8_names_the_line(codes: Path) -> None:
    with pytest.raises(UserError, match=r"^in:2: invalid UTF-8 \(byte 0xff at position 3 of the line\)$"):
        run(codes, b"one\nt \xff\n")


def test_unknown_words_are_one_warning(
    codes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reverser, "longest", 100)
    assert run(codes, "one é two\né ü\none\n".encode(), chunk=1)[0] == "two é one\nü é\none\n"
    assert capsys.readouterr().err == "warning: in: 2 words unknown to the model, in 2 lines: é (2 times), ü\n"
    run(codes, b"one\n" + "é\n".encode())
    assert capsys.readouterr().err == "warning: in: 1 word unknown to the model, in 1 line: é\n"
    # The whole word, not its subword; each as often as it stands there, and no more than fits.
    many = [f"ö{number}" for number in range(23)]
    run(codes, f"{' '.join(many[:4])}\n".encode() + f"{many[3]} {'é' * 50}\n".encode() * 2)
    listed = f"{many[3]} (3 times), {'é' * 40} (2 times), ö0, ö1, ö2"
    assert capsys.readouterr().err == f"warning: in: 5 words unknown to the model, in 3 lines: {listed}\n"
    run(codes, "".join(f"{word}\n" for word in many).encode())
    expected = f"warning: in: 23 words unknown to the model, in 23 lines: {', '.join(many[:20])}, and 3 more\n"
    assert capsys.readouterr().err == expected
    # All of them fit, and each stands there as in a text.
    run(codes, "".join(f"{word}\n" for word in [*many[:19], "&amp;"]).encode())
    expected = f"warning: in: 20 words unknown to the model, in 20 lines: {', '.join(many[:19])}, &\n"
    assert capsys.readouterr().err == expected


def test_forms(codes: Path) -> None:
    text = b"one two three\n\none\n"
    assert run(codes, text, form=plain)[0] == "three two one\n\none\n"
    assert run(codes, text, form=scored)[0] == "-0.5000\tthree two one\n0.0000\t\n-0.5000\tone\n"
    expected = "1\t-0.5000\tthree two one\n1\t-1.0000\tthree two\n2\t0.0000\t\n3\t-0.5000\tone\n"
    assert run(codes, text, form=numbered, nbest=2)[0] == expected
    lines = [json.loads(line) for line in run(codes, text, form=as_json, nbest=2)[0].splitlines()]
    assert [line["line"] for line in lines] == [1, 2, 3]
    assert [[found["text"] for found in line["translations"]] for line in lines] == [
        ["three two one", "three two"], [""], ["one"],
    ]  # fmt: skip
    assert lines[0]["source_tokens"] == ["one", "two", "three"]
    assert lines[0]["translations"][1] == {"text": "three two", "score": -1.0, "tokens": ["three", "two"]}


def test_a_terminal_is_answered_line_by_line(codes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translate, "_translator", lambda arguments: make(codes))
    terminal, command_line = os.openpty()
    answers, output = os.pipe()
    monkeypatch.setattr("sys.argv", ["deepnmt-translate", "model"])
    with os.fdopen(command_line, encoding="utf-8") as stdin, os.fdopen(output, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stdout", stdout)
        thread = threading.Thread(target=translate.main, daemon=True)
        thread.start()
        for line, expected in ((b"one two\n", b"two one\n"), (b"\n", b"\n"), (b"three\n", b"three\n")):
            os.write(terminal, line)
            assert select.select([answers], [], [], 60)[0], "no answer before the next line"
            assert os.read(answers, 100) == expected
        os.write(terminal, b"\x04")
        thread.join(60)
        assert not thread.is_alive()
    os.close(terminal)
    os.close(answers)


def test_the_interface_of_python(codes: Path, caplog: pytest.LogCaptureFixture) -> None:
    translator = make(codes)
    assert translator.translate("one two") == "two one"
    assert translator.translate(["one two", "", "three"]) == ["two one", "", "three"]
    assert translator.translate([]) == []
    found = translator.nbest(["one two", ""], 2)
    assert [[(each.text, each.score) for each in line] for line in found] == [
        [("two one", -0.5), ("two", -1.0)], [("", 0.0)],
    ]  # fmt: skip
    assert translator.translate("one " * 7) == ""
    assert [record.getMessage() for record in caplog.records] == [
        "sentence 1 is too long: 7 subwords; the model has 6; its translation is left empty"
    ]
    with pytest.raises(UserError, match=r"--nbest must be from 1 to --beam, 2, but is 3"):
        translator.nbest(["one"], 3, beam=2)
    with pytest.raises(UserError, match=r"--batch-size must be at least 1, but is 0"):
        translator.translate("one", batch_size=0)


def test_zero_is_a_value_and_a_switch_that_is_off_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--beam", "0", "--lenpen", "0", "--max-len-a", "0", "--lm-path", "lm.pt"]
    monkeypatch.setattr("sys.argv", ["deepnmt-translate", "model", *words])
    expected = {"beam": 0, "lenpen": 0.0, "max_len_a": 0.0, "lm_path": "lm.pt"}
    assert translate._given(translate.parse()) == expected


def test_a_text_is_not_replaced_by_its_translation(tmp_path: Path) -> None:
    (tmp_path / "raw.de").write_text("a\n")
    (tmp_path / "same").symlink_to("raw.de")
    message = rf"^--output: {tmp_path}/same must not be the text to translate$"
    with pytest.raises(UserError, match=message):
        run_main(translate.main, "deepnmt-translate", "model", tmp_path / "raw.de", "--output", tmp_path / "same")
    assert (tmp_path / "raw.de").read_text() == "a\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "1\t-0.5000\tthree two one\n1\t-1.0000\tthree two\n1\t-1.5000\tthree\n"),
        (["--beam", "2"], "1\t-0.5000\tthree two one\n1\t-1.0000\tthree two\n"),
        (["--nbest", "1"], "1\t-0.5000\tthree two one\n"),
    ],
)
def test_the_number_of_translations_of_a_model_folder(
    words: list[str], expected: str, codes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = TextPipeline.of(TextSettings("xx", "xx", pretokenized=True), codes)
    made = Translator.of_parts(pipeline, Reverser(), SearchSettings(nbest=3), codes.parent / "dict.xx.txt")
    monkeypatch.setattr(translate, "_translator", lambda arguments: made)
    (tmp_path / "text").write_text("one two three\n")
    out = tmp_path / "out"
    monkeypatch.setattr(
        "sys.argv", ["deepnmt-translate", "model", str(tmp_path / "text"), "--output", str(out), *words]
    )
    translate.main()
    assert out.read_text() == expected
