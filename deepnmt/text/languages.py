"""What the code of a language says about its writing."""

from __future__ import annotations

CHINESE = ("zh", "yue")
# Written without spaces between words.
UNSPACED = (*CHINESE, "ja", "th", "lo", "km", "my")


def language_fault(language: str) -> str:
    """Return what is wrong with the name of a language, a part of file names between dots; empty if nothing is."""
    if language and not any(sign in "./\x00" or sign.isspace() for sign in language):
        return ""
    return f"must be a language such as de, but is '{language}'"


def main_language(language: str) -> str:
    """Return a language without its region: zh of zh-TW or zh_TW."""
    return language.lower().replace("_", "-").split("-")[0]


def is_chinese(language: str) -> bool:
    """Return whether a language such as zh-TW is Chinese."""
    return main_language(language) in CHINESE


def is_unspaced(language: str) -> bool:
    """Return whether a language has no spaces between words."""
    return main_language(language) in UNSPACED


def bleu_tokenizer(language: str) -> str:
    """Return the name of sacrebleu's tokenisation of a language's text.

    Chinese has one of its own; of other text without spaces BLEU compares characters, which needs no further package.
    """
    if is_chinese(language):
        return "zh"
    return "char" if is_unspaced(language) else "13a"
