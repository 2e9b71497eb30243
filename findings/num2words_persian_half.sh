#!/usr/bin/env bash
# num2words 0.5.14, Persian: each fraction whose only digit other than zero is a last 5 is read as "half".
# Guessed: different numbers have different words. Seen: 0.5, 0.05 and 0.005 are all "half", and 1.005, 1.05 and 1.5 are
# all "one and a half"; 0.04 and 0.25 are right. A rate of 0.05 becomes ten times as large in spoken or training text.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" num2words==0.5.14
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
from num2words import num2words

half, one, hundredths = "\u0646\u06cc\u0645", "\u06cc\u06a9", "\u0635\u062f\u0645"
for number in (0.5, 0.05, 0.005, 1.5, 1.05, 1.005, 0.04, 0.25):
    words = num2words(number, lang="fa")
    print(number, ascii(words))
    if number in (0.04, 0.25):
        assert words.endswith(hundredths) and half not in words
    else:
        assert words == (half if number < 1 else f"{one} \u0648 {half}")
PY
