#!/usr/bin/env bash
# subword-nmt 0.3.8: a glossary that is a regular expression with a group doubles text: the group's match is written a
# second time. Guessed: the amount in "EUR50," is kept whole, as the help says of words and expressions.
# Seen with (USD|EUR)\d+: "EUR50@@ EUR@@ ,", which is "EUR50EUR," when joined again. (?:USD|EUR)\d+ is right, and so is
# the amount alone, so that a look at a few lines shows nothing.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --no-deps --target "$WORK" subword-nmt==0.3.8
cd "$WORK"
PYTHONPATH=$WORK python3 -W ignore - <<'PY'
import io

from subword_nmt.apply_bpe import BPE

found = []
for glossary in (r"(USD|EUR)\d+", r"(?:USD|EUR)\d+"):
    bpe = BPE(io.StringIO("#version: 0.2\nE U\nEU R\nEU R</w>\n"), glossaries=[glossary])
    found.append([bpe.process_line(text).replace("@@ ", "") for text in ("EUR50", "EUR50,", "notEUR50")])
    print(glossary, *found[-1])
assert found == [["EUR50", "EUR50EUR,", "notEUR50EUR"], ["EUR50", "EUR50,", "notEUR50"]]
PY
