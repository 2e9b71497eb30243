#!/usr/bin/env bash
# nltk 3.10.4: one empty sentence on both sides can make gale_church.align_blocks lose the whole alignment of two texts.
# Guessed: the empty sentence stays alone or joins a neighbour, and the other sentences stay aligned.
# Seen: no pair at all for lengths 50, 60, 0, 70, 80 on both sides; without the empty one, all four pairs. Text of no
# length costs minus infinity instead of nothing, and the way back from the end is lost. No error is raised.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" nltk==3.10.4
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
from nltk.translate.gale_church import align_blocks

texts = {
    "no empty sentence": ([50, 60, 70, 80], [50, 60, 70, 80]),
    "both have one": ([50, 60, 0, 70, 80], [50, 60, 0, 70, 80]),
    "only the source has one": ([50, 0, 60, 70], [50, 60, 70]),
    "only the target has one": ([10, 30, 20], [10, 0, 30, 20]),
}
found = {name: align_blocks(*sides) for name, sides in texts.items()}
print(*found.items(), sep="\n")
assert found == {
    "no empty sentence": [(0, 0), (1, 1), (2, 2), (3, 3)],
    "both have one": [],
    "only the source has one": [(0, 1), (0, 2)],
    "only the target has one": [],
}
PY
