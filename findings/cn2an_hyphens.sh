#!/usr/bin/env bash
# cn2an 0.5.24: transform in the direction an2cn reads a hyphen inside text as a minus sign, and drops thousands.
# Guessed: only numbers change, and a hyphen stays or becomes "to", as in 3-5天, which is 三到五天.
# Seen: COVID-19 becomes COVID minus nineteen, pages 3-5 three minus five, and a result of 2-1 two minus one.
# The price 1,000元 becomes 一,零元, "one, zero": the part after the comma is read alone. No warning is given.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" cn2an==0.5.24
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 -W error - <<'PY'
from cn2an import transform

for text, wanted in {
    "3-5天": "三到五天",
    "第3-5页": "第三负五页",
    "比分2-1": "比分二负一",
    "COVID-19": "COVID负十九",
    "2021-01-01": "二千零二十一负一负一",
    "1000元": "一千元",
    "1,000元": "一,零元",
}.items():
    found = transform(text, "an2cn")
    print(text, found)
    assert found == wanted
PY
