"""Lists are merged, each translation once, and lists of other sentences are refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from support.nbest_folders import nbest_folder, plain_lists, text_folder

from deepnmt.errors import UserError
from deepnmt.reranking.merged_lists import merge, read_lists
from deepnmt.text.nbest import Translation


def line(sentence: int, rank: int, text: str, model: float) -> Translation:
    features = {"model": model, "length": len(text.split()) + 1.0, "coverage": -0.5, "unk": 0.0}
    return Translation(sentence, rank, text, features)


def test_one_list_keeps_its_features() -> None:
    (first, second), names = merge([[line(0, 1, "a b", -1.0), line(0, 2, "a", -2.0)]], 2)
    assert names == ("model", "length", "coverage", "unk")
    assert [each.subwords for each in first] == ["a b", "a"]
    assert first[0].features == {"model": -1.0, "length": 3.0, "coverage": -0.5, "unk": 0.0}
    assert second == []


def test_several_lists_are_one_without_repetitions() -> None:
    one = [line(0, 1, "a", -1.0), line(0, 2, "b", -2.0), line(0, 3, "b", -2.0)]
    other = [line(0, 1, "b", -0.5), line(0, 2, "c", -0.5), line(1, 1, "d", -9.0)]
    (first, second), names = merge([one, other], 2)
    assert names == ("length", "unk")
    assert [each.subwords for each in first] == ["a", "b", "c"]
    assert first[1].features == {"length": 2.0, "unk": 0.0}
    ratio = math.exp(-1)
    assert [each.probability for each in first] == pytest.approx(
        [0.5 / (1 + ratio), 0.5 * ratio / (1 + ratio) + 0.25, 0.25]
    )
    assert [each.share for each in first] == pytest.approx([1 / 6, 2 / 6 + 1 / 4, 1 / 4])
    # The list without the second sentence does not count there.
    assert (second[0].probability, second[0].share) == (1.0, 1.0)


def test_reading(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "data")
    one = nbest_folder(tmp_path / "a", plain_lists(["w1", "w2"], [], ["w3"]))
    other = nbest_folder(tmp_path / "b", plain_lists(["w2"], [], ["w4"]))
    lists = read_lists([one / "nbest.tsv", other], data)
    assert (lists.subset, lists.reverse, lists.names) == ("valid", False, ("length",))
    assert [[each.subwords for each in found] for found in lists.candidates] == [["w1", "w2"], [], ["w3", "w4"]]
    assert lists.tops == [["w1", None, "w3"], ["w2", None, "w4"]]
    back = nbest_folder(tmp_path / "back", plain_lists(["w1"]), reverse=True)
    assert read_lists([back], data).reverse
    record = json.loads((data / "preprocess.json").read_text())
    (data / "preprocess.json").write_text(json.dumps({**record, "placeholders": "numbers"}))
    assert not read_lists([one], data).reverse
    with pytest.raises(UserError, match=r"data: --reverse cannot be combined with --placeholders"):
        read_lists([back], data)


def test_lists_of_other_sentences(tmp_path: Path) -> None:
    data = text_folder(tmp_path / "data")
    lists = plain_lists(["w1"], ["w2"], ["w3"])
    good = nbest_folder(tmp_path / "good", lists)
    test = nbest_folder(tmp_path / "test", lists, "test")
    with pytest.raises(UserError, match=r"test/nbest\.tsv: must be of valid, as .*good/nbest\.tsv is, but is of test$"):
        read_lists([good, test], data)
    back = nbest_folder(tmp_path / "back", lists, reverse=True)
    with pytest.raises(UserError, match=r"back/nbest\.tsv: must be of valid, .* of valid in the other direction"):
        read_lists([good, back], data)
    (test / "src.de").write_text("w1 w2\nw3 w3\nw4 w5 w6\n")
    with pytest.raises(UserError, match=r"test/src\.de:2: must be 'w3', as in .*test\.raw\.de, but is 'w3 w3'"):
        read_lists([test], data)
    (test / "src.de").write_text("w1 w2\n")
    with pytest.raises(UserError, match=r"test/src\.de: must have the 3 lines of .*test\.raw\.de, but has 1"):
        read_lists([test], data)
    (test / "src.de").unlink()
    with pytest.raises(UserError, match=r"test/src\.de: no such file; is .*test a folder made by deepnmt generate\?"):
        read_lists([test], data)
    more = nbest_folder(tmp_path / "more", [*lists, lists[0]])
    with pytest.raises(UserError, match=r"more/nbest\.tsv: must be of the 3 sentences of valid, but has number 3"):
        read_lists([more], data)
    nowhere = nbest_folder(tmp_path / "nowhere", lists, "test7")
    with pytest.raises(UserError, match=r"nowhere/nbest\.tsv: must be of a subset of .*data, but is of test7"):
        read_lists([nowhere], data)
    record = json.loads((good / "generate.json").read_text())
    (good / "generate.json").write_text(json.dumps({**record, "target_lang": "fr"}))
    with pytest.raises(UserError, match=r"good/nbest\.tsv: must be translations to en, but are to fr"):
        read_lists([good], data)
