#!/usr/bin/env bash
# pyarabic 0.6.15: ArNumbers reads each negative number, and each number with a thousands separator, as zero.
# Guessed: a word for minus, or an exception. Seen: -5, -100 and 1,000 are all صفر (zero), without an error.
# A fraction loses its leading zeros: 0.5, 0.05 and 0.005 have the same words, "zero point five".
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" pyarabic==0.6.15
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 -W ignore - <<'PY'
from pyarabic.number import ArNumbers

words = ArNumbers().int2str
found = {text: words(text) for text in ("0", "5", "100", "-5", "-100", "1,000", "0.5", "0.05", "0.005")}
for text, spoken in found.items():
    print(text, spoken)
assert found["0"] == found["-5"] == found["-100"] == found["1,000"] == "صفر"
assert len({found["0"], found["5"], found["100"], found["0.5"]}) == 4
assert found["0.5"] == found["0.05"] == found["0.005"] == f"{found['0']} فاصلة {found['5']}"
PY
