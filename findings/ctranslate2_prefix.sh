#!/usr/bin/env bash
# ctranslate2 4.8.5: the tokens of a target prefix add nothing to the score, but count in the length that divides it.
# Guessed: the score of the whole translation, as in fairseq. Seen with p(</s>) = 1/2 at each step: log(1/2) / (n + 1)
# after n tokens of prefix, so that a longer prefix always scores better. Guessed also that a translation begins with
# its prefix: replace_unknowns puts a word of the source there. An empty source "translates" to the prefix, score 0.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" ctranslate2==4.8.5 numpy==2.4.6
cd "$WORK"
mkdir model
PYTHONPATH=$WORK python3 - <<'PY'
import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

words, probabilities = ["<unk>", "<s>", "</s>", "a"], [1e-9, 1e-9, 0.5, 0.5]
spec = TransformerSpec.from_config((1, 1), 1)
for name, value in list(spec.variables().items()):
    if value is None:
        where, *path = spec, *name.split("/")
        for step in path[:-1]:
            base, _, number = step.rpartition("_")
            where = getattr(where, step) if hasattr(where, step) else getattr(where, base)[int(number)]
        rows = 12 if "self_attention/linear_0" in name else 8 if "/attention/linear_1" in name else 4
        setattr(where, path[-1], np.zeros(4 if "layer_norm" in name else (rows, 4), np.float32))
spec.decoder.projection.bias = np.log(np.array(probabilities, np.float32))  # the same at each step
spec.register_source_vocabulary([*words[:3], "house"])
spec.register_target_vocabulary(words)
spec.validate()
spec.save("model")
translator = ctranslate2.Translator("model", intra_threads=1)


def translate(source, prefix, **options):
    found = translator.translate_batch([source], [prefix], return_scores=True, min_decoding_length=0, **options)[0]
    return found.hypotheses[0], found.scores[0]


for size in (1, 3, 7):
    tokens, score = translate(["house"], ["a"] * size)
    print("prefix of", size, "score", round(score, 4))
    assert tokens[:size] == ["a"] * size and abs(score - np.log(0.5) / (size + 1)) < 1e-5
unknown, empty = translate(["house"], ["Haus", "a"], replace_unknowns=True)[0], translate([], ["a", "a"])
print("prefix Haus a:", unknown, "prefix of an empty source:", *empty)
assert unknown[:2] == ["house", "a"] and empty == (["a", "a"], 0.0)
PY
