#!/usr/bin/env bash
# ctranslate2 4.8.5: score_batch cuts the target, too, at max_input_length (1,024), and scores the end symbol there.
# Guessed: only the source is cut, as translate_batch does. Seen: of 3,000 tokens, 1,023 are scored and then </s>, as if
# the translation ended there. Documents that are scored in one piece get the score of another text.
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

words, probabilities = ["<unk>", "<s>", "</s>", "a"], [1e-9, 1e-9, 0.25, 0.75]
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
spec.register_source_vocabulary(words)
spec.register_target_vocabulary(words)
spec.validate()
spec.save("model")
translator = ctranslate2.Translator("model", intra_threads=1)
found = [translator.score_batch([["a"]], [["a"] * 3000], max_input_length=size)[0] for size in (1024, 2, 0)]
for each in found:
    print(len(each.tokens), "scores, the last two of", *each.tokens[-2:], *(round(x, 4) for x in each.log_probs[-2:]))
assert [len(each.log_probs) for each in found] == [1024, 2, 3001]
assert all(each.tokens[-2:] == ["a", "</s>"] and abs(each.log_probs[-1] - np.log(0.25)) < 1e-4 for each in found)
assert len(translator.score_batch([["a"]], [["a"] * 3000])[0].log_probs) == 1024
PY
