"""Terms of generate.sh: what is found in the sources, written for the search, and counted in the translations."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.data_folders import data_folder
from support.script_runs import folder_of_translations

from deepnmt.errors import UserError
from deepnmt.generation import term_constraints
from deepnmt.text.found_terms import note_terms
from deepnmt.text.pipeline import Tokenizer
from deepnmt.text.settings import TextSettings
from deepnmt.text.terms import terms_from
from deepnmt.text.truecase import model_name


def given_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], terms: str, **settings: Any
) -> list[str]:
    """The constraints of a subset, whose words are types."""
    data = data_folder(tmp_path / "data", lines=lines)
    (data / "dict.en.txt").write_text("".join(f"{word} 1\n" for word in ("machine", "translation", "10", "windows")))
    (data / model_name("de")).write_text("maschine (3/4) Maschine (1)\n")
    (tmp_path / "terms").write_text(terms)
    monkeypatch.setattr(term_constraints, "Subwords", lambda *_: str)
    monkeypatch.setattr(
        term_constraints,
        "data_settings",
        lambda *_: TextSettings(source_lang="de", target_lang="en", lowercase=False, **settings),
    )
    term_constraints.write_constraints(tmp_path / "terms", data, "test", tmp_path / "constraints")
    return (tmp_path / "constraints").read_text().splitlines()


@pytest.mark.parametrize("truecase", [False, True])
def test_terms_are_found_where_they_begin_a_sentence(
    truecase: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["maschine x", "Maschine x", "eine Maschine"]
    found = given_terms(tmp_path, monkeypatch, lines, "Maschine\tmachine\n", truecase=truecase)
    assert found == ["machine" if truecase else "", "machine", "machine"]


def test_a_form_that_the_file_has_itself_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = "Maschine\tmachine\nmaschine\ttranslation\n"
    assert given_terms(tmp_path, monkeypatch, ["maschine", "eine Maschine"], terms, truecase=True) == [
        "translation",
        "machine",
    ]


def test_terms_that_no_source_has_are_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = "".join(f"{word}\tmachine\n" for word in ("usf.", "Firma Bau.", "a", "b", "c", "d"))
    lines = ["Hunde usf. sehen c", "eine Firma Bau . Hunde usf ."]
    assert given_terms(tmp_path, monkeypatch, lines, terms) == ["machine", "machine"]
    assert capsys.readouterr().err.splitlines() == [
        "2 terms in 2 of 2 sentences",
        f"warning: {tmp_path}/terms: no source has 3 of the terms: 'a', 'b', 'd'",
    ]
    shutil.rmtree(tmp_path / "data")
    assert given_terms(tmp_path, monkeypatch, ["c"], terms) == ["machine"]
    assert capsys.readouterr().err.endswith("no source has 5 of the terms: 'usf.', 'Firma Bau.', 'a', ...\n")
    shutil.rmtree(tmp_path / "data")
    inside = "Firma Bau\tmachine\nFirma\ttranslation\nBau x\tmachine\ny\tmachine\n"
    assert given_terms(tmp_path, monkeypatch, ["eine Firma Bau x"], inside) == ["machine"]
    assert capsys.readouterr().err.endswith("no source has 1 of the terms: 'y'\n")
    shutil.rmtree(tmp_path / "data")
    given_terms(tmp_path, monkeypatch, ["usf. x"], "usf.\tmachine\n")
    assert capsys.readouterr().err == "1 terms in 1 of 1 sentences\n"


def test_terms_are_counted_in_every_form(tmp_path: Path) -> None:
    hypotheses = ["the Apple Inc. here .", "the Apple Inc .", "the Apple here", "&apos; 90s"]
    folder, settings = folder_of_translations(tmp_path / "out", {"hyp.tok": hypotheses}), TextSettings("de", "en")
    sides = Tokenizer(settings, "de"), Tokenizer(settings, "en")
    wanted = [terms_from([("here", ("Wort", text))], *sides).values() for text in ["Apple Inc."] * 3 + ["'90s"]]
    note_terms(folder, list(map(list, wanted)), settings, "terms")
    assert json.loads((folder / "generate.json").read_text())["terms"] == {"wanted": 4, "found": 3}


def test_terms_have_nothing_that_is_taken_from_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"terms: 'windows 10' cannot be combined with --placeholders numbers"):
        given_terms(tmp_path, monkeypatch, ["a"], "Fenster 10\twindows 10\n", placeholders="numbers")
