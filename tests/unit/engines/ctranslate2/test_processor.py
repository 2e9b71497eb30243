"""Which processors sum products of int8 exactly, and what is computed on those that do not."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
from support.models import PLAIN, build, dictionary

from deepnmt.engines.ctranslate2 import engine
from deepnmt.engines.ctranslate2.engine import sums_int8_exactly
from deepnmt.engines.ctranslate2.writer import save, specification


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [
        ("x86_64", "fpu avx2 avx512f", False),
        ("AMD64", "fpu avx2 avx512_vnni", True),
        ("x86_64", "fpu avx_vnni", True),
        ("x86_64", "fpu my_avx_vnni_too", False),
        ("x86_64", None, False),
        ("aarch64", None, True),
    ],
)
def test_processors(
    machine: str, flags: str | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(engine, "FLAGS", tmp_path / "cpuinfo")
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"model name : avx_vnni\nflags : {flags}\n")
    assert sums_int8_exactly() is expected


@pytest.mark.parametrize(
    ("weights", "exact", "computed"),
    [("int8", True, "int8"), ("int8", False, "float32"), ("float32", False, "float32")],
)
def test_ctranslate2_computes_what_the_processor_can(
    weights: str, exact: bool, computed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = dictionary()
    save(specification(build(PLAIN), types, types), tmp_path / "model", weights)
    asked: list[str] = []

    def translator(files: str, compute_type: str, **options: Any) -> None:
        asked.append(compute_type)

    monkeypatch.setattr(ctranslate2, "Translator", translator)
    monkeypatch.setattr(engine, "sums_int8_exactly", lambda: exact)
    engine.CTranslate2Engine(tmp_path / "model", weights)
    assert asked == [computed]
