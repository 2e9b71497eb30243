#!/usr/bin/env bash
# pythainlp 5.4.0: word_tokenize with engine="longest" lower-cases words of ASCII letters inside Thai text.
# Guessed: each engine cuts the same text, so that its words joined give the text again, as newmm, mm and newmm-safe do.
# Seen: iPhone becomes iphone and USA becomes usa. Letters with accents keep their case: ÉCOLE becomes École.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" pythainlp==5.4.0
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 PYTHAINLP_DATA=$WORK/data python3 - <<'PY'
from pythainlp.tokenize import word_tokenize

text = "\u0e09\u0e31\u0e19\u0e43\u0e0a\u0e49 iPhone \u0e43\u0e19 USA, \u00c9COLE"
joined = {engine: "".join(word_tokenize(text, engine=engine)) for engine in ("newmm", "mm", "newmm-safe", "longest")}
for engine, result in joined.items():
    print(engine, ascii(result))
assert joined["newmm"] == joined["mm"] == joined["newmm-safe"] == text
assert joined["longest"] == text.replace("iPhone", "iphone").replace("USA", "usa").replace("COLE", "cole")
PY
