#!/usr/bin/env bash
# ctranslate2 4.8.5: return_alternatives never offers to end the translation, and scores the rest as if nothing else
# were possible. Guessed: the next tokens, in order of probability. Seen with p(</s>) = 0.9 and p(c) = 0.01
# after the prefix "b": a search ends there, the alternatives are a, b, c, and then <s>. The score of c counts
# probability 0.1, ten times its own, and min_alternative_expansion_prob is compared with this one.
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

words, probabilities = ["<unk>", "<s>", "</s>", "a", "b", "c"], [1e-9, 1e-9, 0.9, 0.06, 0.03, 0.01]
spec = TransformerSpec.from_config((1, 1), 1)
for name, value in list(spec.variables().items()):
    if value is None:
        where, *path = spec, *name.split("/")
        for step in path[:-1]:
            base, _, number = step.rpartition("_")
            where = getattr(where, step) if hasattr(where, step) else getattr(where, base)[int(number)]
        rows = 12 if "self_attention/linear_0" in name else 8 if "/attention/linear_1" in name else 4
        rows = len(words) if name in ("decoder/embeddings/weight", "decoder/projection/weight") else rows
        setattr(where, path[-1], np.zeros(4 if "layer_norm" in name else (rows, 4), np.float32))
spec.decoder.projection.bias = np.log(np.array(probabilities, np.float32))  # the same at each step
spec.register_source_vocabulary([*words[:3], "house"])
spec.register_target_vocabulary(words)
spec.validate()
spec.save("model")
translator = ctranslate2.Translator("model", intra_threads=1)


def translate(**options):
    options = {"length_penalty": 0, "min_decoding_length": 0, "return_scores": True, **options}
    found = translator.translate_batch([["house"]], [["b"]], **options)[0]
    return [(" ".join(tokens), round(float(np.exp(score)), 4)) for tokens, score in zip(found.hypotheses, found.scores)]


alternatives = {"num_hypotheses": 4, "return_alternatives": True}
assert translate() == [("b", 0.9)]
for width in (1, 3):
    found = translate(beam_size=width, **alternatives)
    print("beam", width, *found)
    assert found == [("b a", 0.54), ("b b", 0.27), ("b c", 0.09), ("b <s>", 0.0)]  # 0.6, 0.3 and 0.1 times 0.9
for least, size in ((0.095, 3), (0.15, 2)):
    assert len(translate(min_alternative_expansion_prob=least, **alternatives)) == size
PY
