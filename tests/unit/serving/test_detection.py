"""Detection of the language of a text."""

from __future__ import annotations

import pytest

from deepnmt.serving.detection import Detector


@pytest.mark.parametrize("languages", [["en", "de", "fr"], ["fr", "en", "de"], ["de", "fr"]])
def test_a_text_without_features_is_of_the_first_language(languages: list[str]) -> None:
    detector = Detector(languages)
    ranked = detector.ranked("OK.")
    assert [language for language, _ in ranked] == languages
    assert [probability for _, probability in ranked] == pytest.approx([1 / len(languages)] * len(languages))
    assert detector.ranked("Das ist ein deutscher Satz, und zwar ein längerer.")[0][0] == "de"


def test_of_two_variants_the_first_is_detected() -> None:
    assert Detector(["pt-BR", "en", "pt"]).ranked("O homem não está dormindo.")[0][0] == "pt-BR"
