"""What stays open is bounded, however many words it meets."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from deepnmt.text.subwords import Bpe
from deepnmt.text.unigram import Unigram

ROOT = Path(__file__).parents[3]
# Caches of functions without arguments have one entry.
ONE_ENTRY = 0


def test_cut_words_are_bounded_and_cut_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b\nab c</w>\n", encoding="utf-8")
    words = ["".join(random.Random(number).choices("abcd", k=8)) for number in range(300)]
    free = Bpe(tmp_path / "codes")
    expected = [free(word) for word in words]
    monkeypatch.setattr("deepnmt.text.unigram.MOST_CHARACTERS", 400)
    for cut in (bpe := Bpe(tmp_path / "codes")), (unigram := Unigram({"a": -1.0, "ab": -1.5, "c</w>": -2.0})):
        largest = 0
        for word in words * 2:
            cut(word)
            largest = max(largest, sum(map(len, cut.cache)))
        # The limit, and the last word.
        assert 0 < largest <= 408
    assert [bpe(word) for word in words] == expected
    assert unigram("abc") == ["ab", "c"]


def test_dropout_leaves_later_cuts_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b\nab c</w>\n", encoding="utf-8")
    cut = Bpe(tmp_path / "codes")
    # Each merge is left out.
    assert cut("abc abc", dropout=1) == "a@@ b@@ c a@@ b@@ c"
    assert cut("abc abd") == "abc ab@@ d"


def test_no_cache_grows_without_bound() -> None:
    """`functools.cache` and `lru_cache(maxsize=None)` stand on functions without arguments alone."""
    found = 0
    for folder in ("deepnmt", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    for decorator in map(ast.unparse, node.decorator_list):
                        name = decorator.rpartition(".")[2] if "(" not in decorator else decorator
                        if name == "cache" or ("lru_cache" in decorator and "maxsize=None" in decorator):
                            found += 1
                            assert len(node.args.args) == ONE_ENTRY, f"{path}:{node.lineno}"
    assert found > 5
