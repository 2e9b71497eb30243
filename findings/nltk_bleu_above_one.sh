#!/usr/bin/env bash
# nltk 3.10.4: BLEU with smoothing method 5 or 7 is above 1, for a perfect translation and for one with an error.
# Guessed: at most 1, as of the other methods: a smoothing changes precisions that are 0, and a perfect one stays.
# Seen: 1.117 for a sentence that equals its reference, and 1.026 with one wrong word of twelve, where BLEU is 0.912.
# Both sentences together have 1.066. The average of three precisions begins with that of words plus one.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" nltk==3.10.4
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
from nltk.translate.bleu_score import SmoothingFunction, corpus_bleu, sentence_bleu

reference = "the cat sat on the mat near the door of the old house".split()
wrong = [*reference[:-1], "home"]
for number in (0, 1, 2, 3, 4, 5, 7):
    smooth = getattr(SmoothingFunction(), f"method{number}")
    perfect, other = (sentence_bleu([reference], each, smoothing_function=smooth) for each in (reference, wrong))
    both = corpus_bleu([[reference]] * 2, [reference, wrong], smoothing_function=smooth)
    print(number, *(round(score, 3) for score in (perfect, other, both)))
    if number in (5, 7):
        assert (round(perfect, 3), round(other, 3)) == (1.117, 1.026) and both > 1
    else:
        assert perfect == 1 and 0.91 < other < both < 1
PY
