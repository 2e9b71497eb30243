#!/usr/bin/env bash
# bifixer 0.8.12: in English text it exchanges Cyrillic and Greek letters for Latin ones of the same look, in words that
# have no Latin letter, too. Guessed: only inside a word of Latin letters, which is the fault it repairs ("replaces
# characters from wrong alphabets"). Seen: Москва becomes the Latin MockBa, and Путин a mixture, ПyTиH: names in
# English text are spoilt. The other way round, Russian text keeps the Latin word Microsoft.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" bifixer==0.8.12 ftfy==6.3.1 regex==2026.11.19
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 -W ignore - <<'PY'
from bifixer.restorative_cleaning import fix, getCharsReplacements


def fixed(text, language):
    return fix(text, language, *getCharsReplacements(language))


names = "\u041c\u043e\u0441\u043a\u0432\u0430 \u041f\u0443\u0442\u0438\u043d \u0391\u03b8\u03ae\u03bd\u03b1"
found = fixed(names, "en").split()
print(names, "->", *map(ascii, found))
assert found == ["MockBa", "\u041fyT\u0438H", "A\u03b8\u03aeva"]
assert fixed("Microsoft \u041c\u043e\u0441\u043a\u0432\u0430", "ru") == "Microsoft \u041c\u043e\u0441\u043a\u0432\u0430"
PY
