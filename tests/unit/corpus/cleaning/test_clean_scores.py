"""`deepnmt clean` with files of scores: their names, places and values."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from support.cleaned_corpora import GOOD, cleaned, write

from deepnmt.errors import UserError
from deepnmt.text.record import read_record, sha256


@pytest.mark.parametrize("name", ["source", "target"])
def test_scores_may_be_in_a_file_of_any_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    corpus = [("a", "b"), ("c", "d"), ("e", "f")]
    prefix = write(tmp_path / "corpus", corpus)
    Path(name).write_text("1\n3\n2\n")
    assert cleaned(prefix, tmp_path / "filtered", "--score-filter", f"{name} >= 2") == corpus[1:]
    assert cleaned(prefix, tmp_path / "best", "--length", "1:9", "--rank-by", name, "--keep-best", "1") == [corpus[1]]
    sides = read_record(tmp_path / "best.clean.json")["job"]["inputs"]
    assert sides["source"] == sha256(tmp_path / "corpus.de") != sha256(Path(name)) == sides[f"./{name}"]


def test_scores_that_are_infinite_have_a_histogram(tmp_path: Path) -> None:
    prefix = write(tmp_path / "corpus", [(f"a{n}", "b") for n in range(20)])
    ranks = tmp_path / "ranks"
    for scores in (["-inf"] * 3 + [f"{n}" for n in range(17)], ["-inf"] * 20):
        out = tmp_path / f"out{scores.count('-inf')}"
        ranks.write_text("\n".join([*scores, ""]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(cleaned(prefix, out, "--length", "1:9", "--rank-by", str(ranks), "--keep-best", "0.5")) == 10
        assert "nan" not in Path(f"{out}.report.html").read_text()


@pytest.mark.parametrize("end", ["de", "report.txt", "clean.json"])
def test_scores_are_not_written_over_a_result(end: str, tmp_path: Path) -> None:
    prefix = write(tmp_path / "corpus", GOOD)
    with pytest.raises(
        UserError, match=r"^--score must not be a file that deepnmt clean writes otherwise, but is .*out\."
    ):
        cleaned(prefix, tmp_path / "out", "--length", "1:9", "--score", f"{tmp_path}/out.{end}")
