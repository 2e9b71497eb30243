#!/usr/bin/env bash
# pykakasi 2.3.0: a line feed or tab repeats the text before it: convert returns it once more, before what follows.
# Guessed: white space stays or is dropped, as U+2003 and the ideographic space stay, and each word has one reading.
# Seen: of "東京<tab>大阪", the readings are toukyou, nothing, toukyou and oosaka. Of three lines ABC, DEF and GHI, ABC is
# there three times. U+00A0 does the same. Its closed issue 150 names only the multiplication sign, which is right now.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" pykakasi==2.3.0
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
from pykakasi import kakasi

convert = kakasi().convert
for mark in ("\t", "\n", "\u00a0", "\u2003", "\u3000", "×"):
    found = [part["hepburn"] for part in convert(f"東京{mark}大阪")]
    print(f"{mark!a}:", *found, sep=" | ")
    repeated = ["", "toukyou"] if mark in "\t\n\u00a0" else [{"\u3000": " ", "×": "x"}.get(mark, mark)]
    assert found == ["toukyou", *repeated, "oosaka"]
found = [part["orig"] for part in convert("ABC\nDEF\nGHI")]
print(found)
assert found == ["ABC", "\n", "ABCDEF", "\n", "ABCDEFGHI"]
PY
