"""deepnmt-translate: what is refused before a model is loaded."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.checkpoints import run_main

from deepnmt.cli import translate
from deepnmt.errors import UserError


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
