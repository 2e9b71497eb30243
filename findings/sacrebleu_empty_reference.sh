#!/usr/bin/env bash
# sacrebleu 2.6.0: an empty second reference is a reference of no words, and can be the closest in length; None is none.
# Guessed: both mean that a sentence has one reference. Seen: BLEU 36.79 with None, 100.00 with "".
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" sacrebleu==2.6.0
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
from sacrebleu.metrics import BLEU

scores = [BLEU().corpus_score(["a b c d"], [["a b c d e f g h"], [second]]) for second in (None, "")]
print(*scores, sep="\n")
assert [(round(each.score, 2), each.ref_len) for each in scores] == [(36.79, 8), (100.0, 0)]
PY
