"""The cases of benchmarks/engines.py, and the rows that it keeps and resumes from."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import Row
from engines import CASES, Saved, computable

from deepnmt.kernels import products

SETTINGS = {"commit": "abc", "repetitions": 3}


def test_rows_are_resumed_from_and_never_mixed_with_others(tmp_path: Path) -> None:
    file = tmp_path / "engines.json"
    saved = Saved(file, SETTINGS)
    first, second = Row("a", 1.5, ">= 1.2", "x"), Row("b", 0.5, "", "")
    assert saved.add("Tiny", "batches", iter([first, second])) == [first, second]
    assert not saved.has("Tiny")
    again = Saved(file, SETTINGS)
    assert again.rows("Tiny", "batches") == [first, second]
    assert again.rows("Tiny", "single sentences") == []
    assert again.rows("base", "batches") == []
    again.add("Tiny", "single sentences", iter([second]))
    assert Saved(file, SETTINGS).has("Tiny")
    assert not Saved(file, SETTINGS).has("base")
    with pytest.raises(
        SystemExit, match=r"engines\.json must be of .*'repetitions': 5.*, but is of .*'repetitions': 3"
    ):
        Saved(file, {**SETTINGS, "repetitions": 5})


def test_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    saved = Saved(None, SETTINGS)
    saved.add("Tiny", "batches", iter([Row("a", 1.0, "", "")]))
    assert saved.rows("Tiny", "batches") == [Row("a", 1.0, "", "")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("feature", "missing"), [("avx2", {"package bfloat16"}), ("avx512_bf16", set())])
def test_cases_that_the_processor_cannot_compute_are_left_out(
    feature: str, missing: set[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(products, "_capabilities", lambda: {feature: True})
    assert set(CASES) - set(computable()) == missing
    assert ("engines: no package bfloat16: needs a processor with" in capfd.readouterr().err) == bool(missing)
