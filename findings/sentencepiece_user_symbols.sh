#!/usr/bin/env bash
# sentencepiece 0.2.3: a unigram model cuts its user-defined symbols, although its documentation guarantees one piece,
# whatever the scores. Sampling can cut any of them; pieces that overlap a symbol beat it even without sampling.
# Guessed: always whole. Seen: samples with "< 2 d e >" for <2de>, and "estate" as est, at, e although sta is a symbol.
# BPE keeps both whole. A training with subword regularisation sees some sentences without their language tags.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" sentencepiece==0.2.3
cd "$WORK"
PYTHONPATH=$WORK python3 - <<'PY'
import io

import sentencepiece

text = ["best west rest nest", "cat hat mat bat fat", "a < b > c 2 d e"] * 40
found = {}
for kind in ("unigram", "bpe"):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, model_type=kind, vocab_size=45, hard_vocab_limit=False,
        user_defined_symbols=["<2de>", "sta"], minloglevel=2,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    draws = [processor.encode("<2de> best", out_type=str, enable_sampling=True, alpha=0.1, nbest_size=-1)
             for _ in range(2000)]  # fmt: skip
    lost = sum("<2de>" not in pieces for pieces in draws)
    found[kind] = lost > 0, processor.encode("estate", out_type=str)
    print(kind, "lost <2de> in", lost, "of", len(draws), "samples; estate is", found[kind][1])
assert found["unigram"] == (True, ["\u2581", "est", "at", "e"])
assert found["bpe"] == (False, ["\u2581e", "sta", "t", "e"])
PY
