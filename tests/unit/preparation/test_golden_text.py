"""Folders of `deepnmt preprocess` for every option, byte for byte as before texts were prepared by distinct words.

`tests/golden/preprocess.json` holds the first digits of each file's SHA-256, written at commit be7dd976 by
`python tests/unit/preparation/test_golden_text.py`.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from pathlib import Path

import pytest
from support.flow import contents, in_process

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "preprocess.json"
WORDS = {
    "de": "der die das und Haus Häuser Straße Donaudampfschiff E-Mail z.B. Dr. Nr. usw. geht's Ob wohl dreißig",
    "en": "the a and house houses street steamship e-mail e.g. Mr. No. etc. it's don't If well thirty dogs'",
    "fr": "le la l'homme qu’il aujourd'hui maison maisons vapeur M. etc. c'est Où bien trente École",
    "zh": "房子 蒸汽船 電子郵件 如果 三十 Ａ１ 街道和房子 的 是 中文abc 不要 ， 。",
}
# Text of two words each, some of it changed by `clean`, some of it by another rule.
SIGNS = [
    "{0} {1}", "{0} {1}", "{0} {1}", "{0}, {1}", "{0}; {1}!", "„{0} {1}“", '"{0}" {1}', "«{0} {1}»", "‘{0}’ {1}",
    "({0} {1})", "[{0}] {1}", "{0} - {1}", "{0} – {1}", "{0}–{1}", "{0}: {1}?", "{0}… {1}", "{0}... {1}", "{0}/{1}",
    "{0} & {1}", "{0}&{1}", "{0} 3,5 {1}", "{0} 1.000.000 {1}", "{0} 2020-12-31 {1}", "5 € {0} {1}", "$5 {0} {1}",
    "{0} 50 % {1}", "{0} 50% {1}", "https://a.org/{0}_(x)?b=1. {1}", "www.b.org/{0}, {1}", "{0}@{1}.org", "{0}@@ {1}",
    "<{0}> {1}", "{0}\u00a0{1}", "{0}\t{1} ", "\ufeff{0}  {1}", "{0}\u00ad{1}", "e\u0301 {0} \U0001f642 {1}",
    "{0}\u200d{1}", "|{0}| {1}", "{0}‿{1} ␣", "{0}' {1}", "'{0} {1}'", "`{0}` {1}", "* {0} {1}", "1) {0} {1}",
    "{0}. {1}.", "{0}。{1}",
    "١٢٣ {0} {1}", "３，０００ {0} {1}", "„{0}, ‚{1}‘“", "AB-1:2 {0} AB-2 {1}", "{0}_{1}", "¿{0} {1}?", "<0xC3>{0} {1}",
]  # fmt: skip
LANGUAGES = {"zh": ("zh", "en"), "fr": ("fr", "de")}
BPE = ("--bpe-merges", "150")
CASES: dict[str, tuple[str, ...]] = {
    "joint": BPE,
    "separate": (*BPE, "--separate"),
    "separate-dictionaries": (*BPE, "--separate-dictionaries"),
    "truecase": (*BPE, "--truecase"),
    "lowercase": (*BPE, "--lowercase"),
    "placeholders": (*BPE, "--placeholders", "numbers,urls"),
    "placeholders-lowercase": (*BPE, "--placeholders", "urls", "--lowercase"),
    "placeholders-truecase": (*BPE, "--placeholders", "numbers", "--truecase", "--separate"),
    "protect": (*BPE, "--protect", "patterns"),
    "copies": (*BPE, "--bpe-dropout", "0.2", "--copies", "2"),
    "threshold": (*BPE, "--vocabulary-threshold", "4"),
    "threshold-protect": (*BPE, "--vocabulary-threshold", "4", "--protect", "patterns", "--separate"),
    "spelt": (*BPE, "--spell-unknown"),
    "bytes": (*BPE, "--byte-fallback", "--vocabulary-threshold", "3", "--separate-dictionaries"),
    "vocabulary": ("--vocabulary", "400"),
    "wordpiece": ("--subwords", "wordpiece", "--vocabulary", "400", "--min-pair-count", "3"),
    "wordpiece-copies": ("--subwords", "wordpiece", "--vocabulary", "300", "--min-pair-count", "3",
                         "--bpe-dropout", "0.5", "--copies", "1"),
    "char": ("--subwords", "char", "--byte-fallback"),
    "unigram": ("--subwords", "unigram", "--vocabulary", "400"),
    "pretokenized": (*BPE, "--pretokenized", "--raw-valid", "valid"),
    "limits": (*BPE, "--max-len", "14", "--max-ratio", "1.5"),
    "normalised": (*BPE, "--normalise", "width,nfkc,punctuation"),
    "kept-punctuation": (*BPE, "--keep-punctuation", "--normalise", "width"),
    "glossary": (*BPE, "--glossary-training", "0.5"),
    "zh": BPE,
    "zh-jieba": (*BPE, "--segment", "jieba", "--truecase"),
    "zh-simplified": (*BPE, "--normalise", "simplified,width", "--placeholders", "numbers"),
    "fr": (*BPE, "--truecase"),
}  # fmt: skip
NEEDED = {"unigram": "sentencepiece", "zh-jieba": "jieba", "glossary": "scipy"}


def lines(language: str, number: int, seed: int) -> list[str]:
    """Return lines of text; `random` alone is the same in all versions of Python."""
    rng, words = random.Random(seed).random, WORDS[language].split()

    def word() -> str:
        # Rare words differ all the time.
        found = words[int(len(words) * rng() ** 2)]
        return found if rng() < 0.7 else found + words[int(len(words) * rng())].lower().strip(".")

    made = []
    for _ in range(number):
        parts = [SIGNS[int(len(SIGNS) * rng() ** 2)].format(word(), word()) for _ in range(1 + int(6 * rng()))]
        text = " ".join(parts)
        made.append("" if rng() < 0.01 else (text[:1].upper() + text[1:] + (" ." if rng() < 0.1 else ".")))
    return made


def make(case: str, folder: Path) -> dict[str, str]:
    """Make a folder, and return the digits of its files by their names."""
    languages = LANGUAGES.get(case.partition("-")[0], ("de", "en"))
    for split, number in (("train", 240), ("valid", 20), ("test", 20)):
        for side, language in enumerate(languages):
            text = "".join(f"{line}\n" for line in lines(language, number, seed=number + side))
            (folder / f"{split}.{language}").write_bytes(text.encode())
    (folder / "patterns").write_text("[A-Z]{2}-\\d(?::\\d)?\nz\\.B\\.\n", encoding="utf-8")
    held_out = ["--valid", folder / "valid"] if "pretokenized" in case else ["--valid-every", 9]
    options = [str(folder / word) if word in ("patterns", "valid") else word for word in CASES[case]]
    sides = ["--source-lang", languages[0], "--target-lang", languages[1]]
    text = ["--train", folder / "train", *held_out, "--test", folder / "test", "--dest", folder / "data"]
    done = in_process("preprocess", *sides, *text, *options, "--workers", 2)
    assert done.returncode == 0, done.stderr
    files = contents(folder / "data")
    counts = json.loads(files["preprocess.json"])["counts"]
    files["preprocess.json"] = json.dumps(counts, sort_keys=True).encode()
    return {name: hashlib.sha256(text).hexdigest()[:12] for name, text in sorted(files.items())}


@pytest.mark.parametrize("case", CASES)
def test_files_are_as_before(case: str, tmp_path: Path) -> None:
    if case in NEEDED:
        pytest.importorskip(NEEDED[case])
    assert make(case, tmp_path) == json.loads(GOLDEN.read_text(encoding="utf-8"))[case]


if __name__ == "__main__":
    found = {}
    for name in CASES:
        place = Path(sys.argv[1]) / name
        place.mkdir(parents=True)
        found[name] = make(name, place)
    GOLDEN.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
