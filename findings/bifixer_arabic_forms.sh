#!/usr/bin/env bash
# bifixer 0.8.12: Arabic words in presentation forms, as many PDF files give them, are deleted from Arabic text.
# Guessed: normal letters, as it makes of the Latin ligature in "efficient". Seen: of three words only the second is
# left, without a warning. Normalisation removes U+E000 to U+FFFF from all but Chinese, Japanese and Korean text.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" bifixer==0.8.12 ftfy==6.3.1 regex==2026.11.19
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 -W ignore - <<'PY'
import unicodedata

from bifixer.restorative_cleaning import fix, getCharsReplacements, getNormalizedPunctReplacements, normalize


def clean(text, language):
    text = fix(text, language, *getCharsReplacements(language))
    return normalize(text, language, *getNormalizedPunctReplacements(language))


text = "\ufee3\ufea4\ufee4\ufeaa \u0641\u064a \ufea7\ufef4\ufea0"
assert len(unicodedata.normalize("NFKC", text).split()) == 3
found = clean(text, "ar"), clean("e\ufb03cient", "en")
print(ascii(text), "->", ascii(found[0]), "and the ligature ->", found[1])
assert found == ("\u0641\u064a", "efficient")
PY
