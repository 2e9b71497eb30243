#!/usr/bin/env bash
# sacrebleu 2.6.0: the tokeniser zh leaves ideographs of Unicode's extension B whole, and cuts at curly quotation marks:
# it writes U+20000 as "\u20000", which is U+2000 and a zero. Guessed: each ideograph is a word, and don’t is one word.
# Seen: 𠀀𠀁好 has the words 𠀀𠀁 and 好; don’t has don, ’ and t, where 13a keeps it.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" sacrebleu==2.6.0
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

found = [TokenizerZh()("\U00020000\U00020001\u597d"), TokenizerZh()("don\u2019t"), Tokenizer13a()("don\u2019t")]
print(*found, sep="\n")
assert found == ["\U00020000\U00020001 \u597d", "don \u2019 t", "don\u2019t"]
PY
