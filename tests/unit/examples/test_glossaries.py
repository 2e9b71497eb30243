"""Glossaries out of lexicons, for examples/multi30k/glossary.sh."""

from __future__ import annotations

import json
from pathlib import Path

import glossaries


def test_words_that_translate_each_other(tmp_path: Path) -> None:
    rows = {
        "forward": [("dog", "hund", 0.9), ("dog", "tier", 0.1), ("cat", "katze", 0.5), ("few", "wenige", 0.9)],
        "reverse": [
            ("hund", "dog", 0.6),
            ("katze", "cat", 0.7),
            ("wenige", "few", 0.9),
            ("3", "3", 1),
            ("so", "so", 1),
        ],
    }
    rows["forward"] += [("3", "3", 1), ("so", "so", 1), ("big", "groß", 0.8)]
    for way, lines in rows.items():
        text = "".join(f"{word}\t{other}\t{probability}\n" for word, other, probability in lines)
        (tmp_path / f"lexicon.{way}.tsv").write_text("header\n" + text)
    (tmp_path / "text").write_text("dog cat 3 so big\n" * 5 + "few\n" * 4)
    assert glossaries.make(tmp_path, tmp_path / "text", 0.5) == {"cat": "katze", "dog": "hund"}
    assert glossaries.make(tmp_path, tmp_path / "text", 0.6) == {"dog": "hund"}


def test_no_term_keeps_its_translation() -> None:
    pairs = {f"word{number}": f"wort{number}" for number in range(30)}
    wrong = glossaries.wrong(pairs)
    assert list(wrong) == sorted(pairs)
    assert sorted(wrong.values()) == sorted(pairs.values())
    assert not any(pairs[word] == other for word, other in wrong.items())
    unseen = glossaries.unseen(pairs)
    assert list(unseen) == list(pairs)
    assert len(set(unseen.values())) == 30


def test_the_table_has_a_line_for_each_result(tmp_path: Path) -> None:
    for name, terms in (("test", {}), ("test.right", {"glossary": {"wanted": 4, "found": 3}})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "generate.json").write_text(json.dumps(terms))
        (tmp_path / name / "scores.json").write_text('{"tokenised BLEU": {"score": 40.5}}')
    assert list(glossaries.rows(tmp_path, "test")) == ["test\t0/0\t40.5", "test.right\t3/4\t40.5"]
