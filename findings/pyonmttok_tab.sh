#!/usr/bin/env bash
# pyonmttok 1.38.1: a tab or a line feed between two words is deleted, and the words become one token.
# Guessed: white space separates tokens, as U+00A0, U+2028 and U+3000 do. Seen: "house<tab>boat" becomes "houseboat" in
# the modes aggressive, conservative and char; space keeps the tab inside one token. Columns of a table run together.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" pyonmttok==1.38.1
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import pyonmttok

found = {}
for mode in ("aggressive", "conservative", "char", "space"):
    tokenise = pyonmttok.Tokenizer(mode, joiner_annotate=True)
    for mark in ("\t", "\n", "\r", " ", "\u00a0", "\u2028", "\u3000"):
        found[mode, mark] = tokenise.detokenize(tokenise(f"house{mark}boat"))
    print(mode, *(f"{mark!a}: {found[mode, mark]!r}" for mark in ("\t", "\n", "\u00a0", "\u3000")), sep="  ")
for (mode, mark), text in found.items():
    deleted = mark in "\t\n\r"
    assert text == (f"house{mark}boat" if deleted and mode == "space" else "houseboat" if deleted else "house boat")
PY
