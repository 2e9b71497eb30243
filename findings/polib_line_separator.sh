#!/usr/bin/env bash
# polib 1.2.0: a catalogue that is read from a string, not from a file, loses letters before U+2028, U+2029 and U+0085.
# Guessed: any text survives a round trip. Seen: polib.pofile(str(catalogue)) makes GuteTag of Guten, U+2028, Tag: the
# separator and the letter before it are gone, without an error. If all stands on one line of the catalogue, as other
# tools write it, polib finds a syntax error. The same text in a file is read as it is. Its open issue 170 names only
# the difference in line ends.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" polib==1.2.0
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import polib

for mark in ("\u2028", "\u2029", "\u0085"):
    catalogue = polib.POFile()
    catalogue.append(polib.POEntry(msgid="hello", msgstr=f"Guten{mark}Tag"))
    catalogue.append(polib.POEntry(msgid="bye", msgstr="Ade"))
    catalogue.save("text.po")
    found = [[entry.msgstr for entry in polib.pofile(where, encoding="utf-8")] for where in (str(catalogue), "text.po")]
    print(f"U+{ord(mark):04X} from the string:", found[0], "from the file:", found[1])
    assert found == [["GuteTag", "Ade"], [f"Guten{mark}Tag", "Ade"]]
line = 'msgid "hello"\nmsgstr "Guten\u2028Tag"\n'
with open("line.po", "w", encoding="utf-8") as file:
    file.write(line)
assert polib.pofile("line.po", encoding="utf-8")[0].msgstr == "Guten\u2028Tag"
try:
    polib.pofile(line)
except OSError as error:
    print("on one line:", error)
else:
    raise SystemExit("no syntax error")
PY
