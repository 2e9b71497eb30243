"""The writing of a language, as its code tells it.

A code is one of ISO 639, of two or three letters, perhaps with a script and a region: zh, zho, zh-TW, zh_Hant_TW. A
script decides if there is one: zh-Latn has spaces between words, and nan-Hant has no spaces.
"""

from functools import lru_cache

CHINESE = frozenset({"zh", "zho", "chi", "cmn", "yue", "wuu", "gan", "hsn", "lzh", "cjy", "czh", "cpx", "mnp"})
# Written without spaces between words: Japanese, Thai and its neighbours, Lao, Khmer; languages in Burmese script; in
# Tibetan script.
UNSPACED = CHINESE | {"ja", "jpn", "th", "tha", "tts", "nod", "sou", "lo", "lao", "km", "khm"}
UNSPACED |= {"my", "mya", "bur", "rki", "shn", "mnw", "blk"}
UNSPACED |= {"bo", "bod", "tib", "dz", "dzo", "adx", "khg", "lbj", "sip"}
CHINESE_SCRIPTS = frozenset({"hans", "hant", "hani"})
UNSPACED_SCRIPTS = CHINESE_SCRIPTS | {"jpan", "hira", "kana", "hrkt", "thai", "laoo", "khmr", "mymr", "tibt"}
SCRIPT_LETTERS = 4


def language_fault(language: str) -> str:
    """Return the fault of a language's name, a part of file names between dots; empty if there is no fault."""
    if language and not any(sign in "./\x00" or sign.isspace() for sign in language):
        return ""
    return f"must be a language such as de, but is '{language}'"


def main_language(language: str) -> str:
    """Return a language without its script and region: zh of zh-TW or zh_Hant_TW."""
    return language.lower().replace("_", "-").split("-")[0]


def script_of(language: str) -> str:
    """Return the script in a language code, in lower case: hant of zh_Hant_TW; empty if it has no script."""
    _, *others = language.lower().replace("_", "-").split("-")
    return next((part for part in others if len(part) == SCRIPT_LETTERS and part.isalpha()), "")


@lru_cache(maxsize=1024)
def is_chinese(language: str) -> bool:
    """Return whether a language such as zh-TW is Chinese in Chinese characters."""
    script = script_of(language)
    return main_language(language) in CHINESE if not script else script in CHINESE_SCRIPTS


@lru_cache(maxsize=1024)
def is_unspaced(language: str) -> bool:
    """Return whether a language has no spaces between words."""
    script = script_of(language)
    return main_language(language) in UNSPACED if not script else script in UNSPACED_SCRIPTS


def bleu_tokenizer(language: str) -> str:
    """Return the name of sacrebleu's tokenisation of a language's text.

    Chinese has one of its own; of other text without spaces BLEU compares characters, which needs no further package.
    """
    if is_chinese(language):
        return "zh"
    return "char" if is_unspaced(language) else "13a"
