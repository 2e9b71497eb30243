#!/usr/bin/env bash
# translate-toolkit 3.20.4: a backslash doubles on the way from PO to CSV and back, by po2csv and csv2po.
# Guessed: csv2po reads what po2csv writes, and the PO file has the same texts. Seen: C:\temp comes back as C:\\temp, in
# source and target. The source then matches no message of the program. The writer escapes a backslash by another
# one; the reader derives the rules of the file from its text, and finds no escape. Quotation marks come back right.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" translate-toolkit==3.20.4
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
from translate.convert import csv2po, po2csv
from translate.storage.pypo import pofile

texts = [("Open C:\\temp", "C:\\temp \u00f6ffnen"), ('Say "yes"', 'Sag "ja"'), ("a, b", "a; b")]
catalogue = pofile()
for source, target in texts:
    catalogue.addsourceunit(source).target = target
catalogue.savefile("first.po")
po2csv.main(["--progress=none", "first.po", "texts.csv"])
csv2po.main(["--progress=none", "texts.csv", "second.po"])
found = [(unit.source, unit.target) for unit in pofile.parsefile("second.po").units if not unit.isheader()]
print(*found, sep="\n")
assert found == [(source.replace("\\", "\\\\"), target.replace("\\", "\\\\")) for source, target in texts]
assert found[0][0] == r"Open C:\\temp"
PY
