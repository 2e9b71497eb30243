"""The unigram model against every way to cut a word, and against sentencepiece."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cut_data import random_words

from deepnmt.errors import UserError
from deepnmt.text.unigram import Unigram, learn_unigram


def all_cuts(word: str) -> Iterator[list[str]]:
    if not word:
        yield []
    for length in range(1, len(word) + 1):
        yield from ([word[:length], *rest] for rest in all_cuts(word[length:]))


def test_best_cut_is_that_of_all_cuts() -> None:
    draw = random.Random(3)
    pieces = {"".join(draw.choices("abc", k=draw.randint(1, 4))) + draw.choice(["", "</w>"]) for _ in range(60)}
    log_probs = {piece: -draw.random() * 8 for piece in pieces}
    log_probs |= {character + mark: -9 - draw.random() for character in "ab" for mark in ("", "</w>")}
    cut = Unigram(log_probs)
    unknown = min(log_probs.values()) - 10
    for _ in range(200):
        # `c` need not be a piece.
        word = "".join(draw.choices("abc", k=draw.randint(1, 7)))
        sums = {}
        for pieces_of_word in all_cuts(word):
            *inner, last = pieces_of_word
            probs = [log_probs.get(name, unknown if len(name.removesuffix("</w>")) == 1 else None)
                     for name in (*inner, f"{last}</w>")]  # fmt: skip
            if None not in probs:
                sums[tuple(pieces_of_word)] = sum(probs)
        assert sums[tuple(cut(word))] == pytest.approx(max(sums.values()), abs=1e-9)


def test_learning(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    draw = random.Random(5)
    vocabulary = [*random_words(draw, 50), "ä", "x▁y", "中文"]
    lines = [" ".join(draw.choices(vocabulary, k=6)) for _ in range(200)]
    model = learn_unigram(lines, 60)
    assert 60 <= len(model.log_probs) <= 60 + 2 * len(set("".join(vocabulary)))
    for character in set("".join(vocabulary)) - set("x▁y"):
        assert {character, f"{character}</w>"} <= model.log_probs.keys()
    model.write(tmp_path / "codes")
    again = Unigram.read(tmp_path / "codes")
    assert again.log_probs == model.log_probs
    for word in vocabulary:
        assert "".join(again(word)) == word
    # What sentencepiece itself makes of the words, white space being the end of the last piece.
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(" ".join(word for word in line.split() if word != "x▁y") for line in lines),
        model_prefix=str(tmp_path / "theirs"), model_type="unigram", vocab_size=61, hard_vocab_limit=False,
        character_coverage=1.0, normalization_rule_name="identity", treat_whitespace_as_suffix=True,
        num_threads=1, bos_id=-1, eos_id=-1, minloglevel=2,
    )  # fmt: skip
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "theirs.model"))
    same = [[*model(word)[:-1], f"{model(word)[-1]}▁"] == theirs.encode(word, out_type=str) for word in vocabulary]
    assert sum(same) >= len(vocabulary) - 3


def test_restricted_to_types() -> None:
    cut = Unigram({"ab": -1.0, "c</w>": -1.0, "abc</w>": -1.5, "a": -5.0, "b": -5.0})
    assert cut("abc") == ["abc"]
    assert cut.restricted({"ab@@", "c"})("abc") == ["ab", "c"]
    assert cut.restricted({"c"})("abc") == ["a", "b", "c"]


def test_missing_library_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(
        UserError, match=r"^--subwords unigram: sentencepiece must .*: pip install 'deepnmt\[subwords\]'$"
    ):
        learn_unigram(["a"], 5)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("#version: 0.2\na b\n", r"codes:1: must be '#unigram', but is '#version: 0.2'"),
        ("#unigram\na\t-1\nb\n", r"codes:3: must be a piece and a number, but is 'b'"),
        ("#unigram\n", r"codes: contains no pieces"),
    ],
)
def test_faulty_codes(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "codes").write_text(text)
    with pytest.raises(UserError, match=fault):
        Unigram.read(tmp_path / "codes")
