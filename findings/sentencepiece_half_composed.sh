#!/usr/bin/env bash
# sentencepiece 0.2.3: nfkc and nmt_nfkc, the default, do not compose a composed letter with one more mark; NFKC does.
# Guessed: all canonical spellings of a letter become one. Seen: of five spellings of "ệ", ê with a dot below and two
# others stay two characters. So do all 60 Vietnamese letters with two marks in the spelling of Windows-1258: the same
# word then has other pieces, or unknown ones.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" sentencepiece==0.2.3
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
from unicodedata import normalize

import sentencepiece

spellings = ["\u1ec7", "e\u0323\u0302", "\u1eb9\u0302", "\u00ea\u0323", "e\u0302\u0323"]
assert {normalize("NFKC", each) for each in spellings} == {"\u1ec7"}
vowels = "\u00e2\u0103\u00ea\u00f4\u01a1\u01b0"
windows = [vowel + tone for vowel in vowels + vowels.upper() for tone in "\u0300\u0301\u0303\u0309\u0323"]
assert all(len(normalize("NFKC", each)) == 1 for each in windows)
for rule in ("nfkc", "nmt_nfkc"):
    rules = sentencepiece.SentencePieceNormalizer(rule_name=rule, add_dummy_prefix=False)
    found = [rules.normalize(each) for each in spellings]
    kept = sum(rules.normalize(each) == each for each in windows)
    print(rule, *map(ascii, found), "and", kept, "of", len(windows), "letters of Windows-1258 in two characters")
    assert found == ["\u1ec7", "\u1ec7", "\u1eb9\u0302", "\u00ea\u0323", "\u00ea\u0323"] and kept == 60
PY
