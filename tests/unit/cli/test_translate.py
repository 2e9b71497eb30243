"""deepnmt translate: refusals before a model is loaded, and the way of each option to the translator."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.checkpoints import run_main

from deepnmt.cli import translate
from deepnmt.engines.engine import FUSION, SearchSettings
from deepnmt.errors import UserError
from deepnmt.options.option_table import SEARCHES, Row, option
from deepnmt.translator import line_stream


@pytest.mark.parametrize(
    ("stream", "words", "message"),
    [
        ("stdin", [], r"^INPUT must be given, since standard input is closed$"),
        ("stdout", ["{0}/text"], r"^--output must be given, since standard output is closed$"),
    ],
)
def test_closed_streams(
    stream: str, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("ein\n")
    monkeypatch.setattr(sys, stream, None)
    with pytest.raises(UserError, match=message):
        run_main(translate.main, "deepnmt-translate", tmp_path / "model", *(word.format(tmp_path) for word in words))


@pytest.mark.parametrize(("closed", "named"), [("<&-", "INPUT"), (">&-", "--output")])
def test_streams_that_a_shell_closes(closed: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("ein\n")
    given = [] if closed == "<&-" else [tmp_path / "text"]
    command = shlex.join(map(str, [sys.executable, "-m", "deepnmt", "translate", tmp_path / "model", *given]))
    result = subprocess.run(
        ["bash", "-c", f"{command} {closed}"], stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert f"error: {named} must be given, since standard " in line


def test_streams_that_are_not_needed_may_be_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text("ein\n")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(sys, stream, None)
    words = [tmp_path / "model", tmp_path / "text", "--output", tmp_path / "out"]
    with pytest.raises(UserError, match=r"model: no folder made by deepnmt export was found$"):
        run_main(translate.main, "deepnmt-translate", *words)


@pytest.mark.parametrize("option", ["--rerank", "--lm-path", "--output", "--data"])
def test_empty_values(option: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"^option {option} needs a value \(see --help\)$"):
        run_main(translate.main, "deepnmt-translate", tmp_path / "model", option, "")


class Stub:
    """A translator, and a stream, that keep what they are given."""

    search = SearchSettings(beam=4, nbest=2)
    given: ClassVar[list[Any]] = []

    def __init__(self, *given: Any) -> None:
        self.given.append(given)

    from_checkpoint = classmethod(lambda cls, *given: cls("checkpoint", *given))

    def settings(self, **given: Any) -> SearchSettings:
        self.given.append(given)
        return SearchSettings()

    def glossary(self, path: Path | None) -> Path | None:
        return path


class Stream(Stub):
    """The stream."""

    def run(self, source: Any, name: str, output: Any, done: Any) -> None:
        output.write(source.read().upper())


def test_each_option_reaches_the_translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.json").write_text('{"weights": {"model": 0.5}}')
    (tmp_path / "text").write_text("ein\n")
    monkeypatch.setattr(translate, "Translator", Stub)
    monkeypatch.setattr(translate, "LineStream", Stream)

    def given(*words: object) -> list[Any]:
        Stub.given.clear()
        run_main(translate.main, "deepnmt translate", "model", tmp_path / "text", "--output", tmp_path / "out", *words)
        assert (tmp_path / "out").read_text() == "EIN\n"
        return Stub.given[:-1] + list(Stub.given[-1][2:])

    sizes = [translate.BATCH, translate.CHUNK]
    # No option of the search, and the defaults of the stream.
    assert given() == [("model", None), {}, line_stream.plain, *sizes, False, None, True]
    more = ("--strict", "--no-split", "--batch-size", 3, "--buffer", 9, "--glossary", "terms.tsv", "--threads", 2)
    search = ("--beam", 3, "--lenpen", 0.7, "--max-len-a", 1.5, "--max-len-b", 0, "--nbest", 2)
    found = {"beam": 3, "lenpen": 0.7, "max_len_a": 1.5, "max_len_b": 0, "nbest": 2, "rerank": "model=0.5"}
    assert given(*more, *search, "--rerank", tmp_path / "weights.json", "--data", "data") == [
        ("checkpoint", "model", "data", 2), found, line_stream.numbered, 3, 9, True, Path("terms.tsv"), False
    ]  # fmt: skip
    # Of the model's own list, no more than the beam has.
    assert given("--beam", 1, "--scores")[1:3] == [{"beam": 1, "nbest": 1}, line_stream.scored]
    assert given("--json")[2] == line_stream.as_json
    for name, row in {**SEARCHES, **dict.fromkeys(FUSION, Row("", metavar="X"))}.items():
        expected: dict[str, object] = {name: "0.5" if row.metavar else True}
        assert given(option(name), *(["0.5"] if row.metavar else []))[1] == expected
