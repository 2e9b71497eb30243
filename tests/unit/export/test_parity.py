"""The check of an export, on engines whose differences are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from deepnmt.engines.engine import Hypothesis, SearchSettings
from deepnmt.errors import UserError
from deepnmt.export.parity import Pairs, compare, read_pairs
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.settings import TextSettings

WORDS = ["a", "b", "c", "d", "e"]
SENTENCES = [[*WORDS, f"w{number}"] for number in range(200)]


@dataclass
class Repeater:
    """Translates a sentence into itself but for the last word of some, and has scores that are off by something."""

    off: float = 0.0
    wrong: int = 0
    longest: int = 9

    def check(self, settings: SearchSettings) -> None:
        """Everything goes."""

    def search(self, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
        assert settings.beam == 3
        wrong = [int(sentence[-1][1:]) < self.wrong for sentence in sentences]
        return [
            [Hypothesis([*sentence[:-1], "x"] if bad else list(sentence), 0.0)]
            for sentence, bad in zip(sentences, wrong)
        ]

    def score(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        return [
            [-1.0 + self.off * (source[-1] == "w7" and place == 2) for place in range(len(target) + 1)]
            for source, target in zip(sources, targets)
        ]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> TextPipeline:
    path = tmp_path_factory.mktemp("parity") / "codes"
    path.write_text("#version: 0.2\na b\n")
    return TextPipeline.of(TextSettings("xx", "xx", pretokenized=True), path)


@pytest.mark.parametrize(
    ("off", "wrong", "fault"),
    [
        (9e-5, 2, ""),
        (-9e-5, 0, ""),
        (2e-4, 0, r"log-probabilities must agree .* within 0\.0001, but differ by up to 0\.0002"),
        (-2e-4, 0, r"log-probabilities must agree .* within 0\.0001, but differ by up to 0\.0002"),
        (math.nan, 0, r"log-probabilities must agree .*, but differ by up to inf"),
        (-math.inf, 0, r"log-probabilities must agree .*, but differ by up to inf"),
        (0.0, 3, r"at most 1% of translations may differ, but 1\.5% do"),
    ],
)
def test_float32_must_be_the_same(pipeline: TextPipeline, off: float, wrong: int, fault: str) -> None:
    pairs = Pairs(SENTENCES, SENTENCES)
    result = compare(Repeater(), Repeater(off, wrong), pairs, pipeline, SearchSettings(beam=3))
    assert result.differing == wrong / 200
    faults = list(result.faults(exact=True, allow_loss=True))
    assert len(faults) == bool(fault)
    if fault:
        with pytest.raises(UserError, match=fault):
            raise UserError(*faults)
    assert not list(result.faults(exact=False))


def test_other_weights_may_lose_a_point_of_bleu(pipeline: TextPipeline) -> None:
    def result(wrong: int, before: int = 0) -> tuple[list[str], list[str]]:
        engines = Repeater(0.5, before), Repeater(0.0, wrong)
        found = compare(*engines, Pairs(SENTENCES, SENTENCES), pipeline, SearchSettings(beam=3))
        assert found.as_record()["largest_difference"] == 0.5
        # Of the n-grams of a sentence with n = 1 to 4, one each has the last word: of 6, 5, 4 and 3.
        right = [1 - wrong / 200 / size for size in (6, 5, 4, 3)]
        assert found.bleu == pytest.approx(100 * math.prod(right) ** 0.25, abs=1e-6)
        return list(found.faults(exact=False)), list(found.faults(exact=False, allow_loss=True))

    assert result(8) == ([], [])
    assert result(9) == ([result(9)[0][0]], [])
    assert result(9)[0][0].startswith("at most 1.0 BLEU may be lost, but 98.93 is left of 100.00 (--allow-loss")
    # What the checkpoints have lost already does not count.
    assert result(9, before=9) == ([], [])


def test_pairs_are_spread_over_the_validation_set(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    for language in ("de", "en"):
        lines = [f"{language} {number}" + " x" * (number == 4) * 9 + "\n" for number in range(10)]
        (tmp_path / "text" / f"valid.bpe.{language}").write_text("".join(lines))
    pairs = read_pairs(tmp_path, ("en", "de")).chosen(3, longest=(9, 10))
    assert pairs == Pairs([["en", n] for n in "037"], [["de", n] for n in "037"])
    # A model may have fewer positions on either side.
    for longest, number in (((11, 11), 10), ((10, 11), 9), ((11, 10), 9)):
        assert len(read_pairs(tmp_path, ("de", "en")).chosen(200, longest).sources) == number
    with pytest.raises(UserError, match=r"valid\.bpe\.\*: no pair of at most 2 and 1 subwords found"):
        read_pairs(tmp_path, ("de", "en")).chosen(3, longest=(2, 1))
    (tmp_path / "text" / "valid.bpe.en").write_text("one\n")
    with pytest.raises(UserError, match=r"valid\.bpe\.de has 10 lines, but .*valid\.bpe\.en has 1: line n of both"):
        read_pairs(tmp_path, ("de", "en"))
    (tmp_path / "text" / "valid.bpe.en").unlink()
    with pytest.raises(UserError, match=r"valid\.bpe\.en: no such file, but --check needs it \(--check 0 exports"):
        read_pairs(tmp_path, ("de", "en"))
