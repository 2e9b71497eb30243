#!/usr/bin/env bash
# indic-nlp-library 0.92: its tokeniser keeps a number with a point, comma or colon whole, but not at the beginning of a
# sentence, and never in Devanagari digits. Guessed: whole everywhere, in the digits of its own languages above all.
# Seen: "10:30 बजे" has the tokens 10, : and 30, but "सुबह 10:30 बजे" has 10:30; ३.५ is always three tokens. The
# detokeniser writes "10: 30" and "३. ५" for them. Its issue 40 is open.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --no-deps --target "$WORK" indic-nlp-library==0.92
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 -W ignore - <<'PY'
from indicnlp.tokenize.indic_detokenize import trivial_detokenize
from indicnlp.tokenize.indic_tokenize import trivial_tokenize

o_clock, morning, value = "\u092c\u091c\u0947", "\u0938\u0941\u092c\u0939", "\u0969.\u096b"
found = {}
for text in (f"10:30 {o_clock}", f"{morning} 10:30 {o_clock}", f"{morning} {value}"):
    tokens = trivial_tokenize(text, "hi")
    found[text] = tokens, trivial_detokenize(" ".join(tokens), "hi")
    print(text, "->", tokens, "->", found[text][1])
assert list(found.values()) == [
    (["10", ":", "30", o_clock], f"10: 30 {o_clock}"),
    ([morning, "10:30", o_clock], f"{morning} 10:30 {o_clock}"),
    ([morning, "\u0969", ".", "\u096b"], f"{morning} \u0969. \u096b"),
]
PY
