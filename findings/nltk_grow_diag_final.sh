#!/usr/bin/env bash
# nltk 3.10.4: grow_diag_final_and always returns the union of its two word alignments.
# Guessed: grow-diag-final-and, as its documentation and Koehn et al. (2005) describe: a point outside the intersection
# needs a word that is free. Seen: 0-2 and 2-0 join words that are taken, and are kept. The code looks the number of a
# word up in a table with the keys "e" and "f", and never finds it. Phrase tables become those of the union.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" nltk==3.10.4
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import random

from nltk.translate import grow_diag_final_and

found = grow_diag_final_and(3, 3, "0-0 2-2", "0-0 2-2 0-2 2-0")
print(*found)
assert found == [(0, 0), (0, 2), (2, 0), (2, 2)]
draw = random.Random(1)
for _ in range(300):
    sides = [{(draw.randrange(8), draw.randrange(8)) for _ in range(8)} for _ in range(2)]
    found = grow_diag_final_and(8, 8, *(" ".join(f"{i}-{j}" for i, j in side) for side in sides))
    assert found == sorted(sides[0] | sides[1])
print("the union in 300 of 300 random pairs of alignments")
PY
