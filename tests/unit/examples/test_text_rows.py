"""The test sets and the table of examples/multi30k/text.sh."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import text_rows

from deepnmt.errors import UserError


def test_a_tenth_of_the_long_words_have_two_letters_swapped() -> None:
    words = ["sunflower", "cat", "b4dgers", "running", "."] * 400
    line = " ".join(words)
    changed = text_rows.misspelt(line, 7).split(" ")
    places = [place for place, (old, new) in enumerate(zip(words, changed)) if old != new]
    assert len(changed) == len(words)
    assert {words[place] for place in places} <= {"sunflower", "running"}
    # 800 words at 0.1; two equal neighbours ("nn") are swapped without an effect.
    assert 50 <= len(places) <= 110
    for place in places:
        old, new = words[place], changed[place]
        differ = [at for at, (one, other) in enumerate(zip(old, new)) if one != other]
        assert len(differ) == 2
        assert differ[1] == differ[0] + 1
        assert (old[differ[0]], old[differ[1]]) == (new[differ[1]], new[differ[0]])
        assert differ[0] > 0
    assert text_rows.misspelt(line, 7).split(" ") == changed
    assert text_rows.misspelt(line, 8).split(" ") != changed


def test_the_half_on_one_topic() -> None:
    lines = ["a dog and a cat", "the car on a road"] * 10 + ["dog chases cat", "road with car"]
    half = text_rows.topic_half(lines)
    assert half in ([*range(0, 22, 2)], [*range(1, 22, 2)])


def test_the_table(tmp_path: Path) -> None:
    row = tmp_path / "results" / "seed-3" / "few"
    for name, bleu in (("valid.average3", 20.0), ("valid.average10", 21.5), ("test", 22.0), ("misspelt", 11.0)):
        (row / name).mkdir(parents=True)
        scores = {"tokenised BLEU": {"score": bleu}, "BLEU": {"score": bleu + 1}}
        (row / name / "scores.json").write_text(json.dumps(scores))
    right, wrong = "ein Hund läuft über die Wiese .", "zwei rote Autos fahren sehr schnell ."
    (row / "test" / "hyp.tok.de").write_text(f"{right}\n{right}\n")
    (row / "test" / "ref.tok.de").write_text(f"{right}\n{wrong}\n")
    (row / "test" / "hyp.de").write_text("ein Hund läuft über die Wiese.\nein Hund läuft über die Wiese.\n")
    (row / "test" / "generate.json").write_text('{"lowercase": false}')
    (tmp_path / "lines").write_text("0\n")
    (tmp_path / "cased").write_text("Ein Hund läuft über die Wiese.\nEin Hund läuft über die Wiese.\n")
    table = text_rows.table(tmp_path / "results", tmp_path / "lines", tmp_path / "cased")
    assert table[0][:6] == ["few", "3", "21.50", "22.00", "11.00", "100.00"]
    assert float(table[0][6]) < 10
    assert table[0][7:] == ["23.00", "100.00"]
    # Which a translation in lower case cannot be like, whatever it says.
    (row / "test" / "generate.json").write_text('{"lowercase": true}')
    table = text_rows.table(tmp_path / "results", tmp_path / "lines", tmp_path / "cased")
    assert table[0][7:] == ["23.00", "-"]
    with pytest.raises(UserError, match="must have scores of a test set, but has none"):
        text_rows.table(tmp_path / "other", tmp_path / "lines", tmp_path / "cased")
