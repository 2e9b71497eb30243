#!/usr/bin/env bash
# hebrew-tokenizer 2.3.0: the Hebrew marks geresh and gershayim cut a word in two and are lost; ASCII quotes are not.
# Guessed: Hebrew's own marks U+05F3 and U+05F4 stay in the word, as their substitutes ' and " do.
# Seen: of the acronym צה״ל with U+05F4, the tokens are צה and ל. With an ASCII quotation mark, it is one token.
# The name ג׳ירפה is cut after its first letter. Carefully written text has fewer letters in common with its words.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --no-deps --target "$WORK" hebrew-tokenizer==2.3.0
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 -W ignore - <<'PY'
from hebrew_tokenizer import tokenize

for text in ("צה״ל", "מנכ״ל", "תשפ״ד", "ג׳ירפה", "צ׳ק"):
    found = [part[1] for part in tokenize(text)]
    ascii_text = text.replace("\u05f4", '"').replace("\u05f3", "'")
    print(text, found, [part[1] for part in tokenize(ascii_text)])
    assert found == text.replace("\u05f4", " ").replace("\u05f3", " ").split() and len(found) == 2
    assert [part[1] for part in tokenize(ascii_text)] == [ascii_text]
PY
