#!/usr/bin/env bash
# neologdn 0.5.6: normalize turns the yen sign U+00A5 into a backslash, and leaves the wide yen sign U+FFE5 alone.
# Guessed: wide signs become narrow ones, as with dollar and percent, and a price keeps its currency.
# Seen: ¥1,000 becomes \1,000, which JSON or a pattern reads as an escape. ￥1,000 stays as it is, although ＄ and ％
# become $ and %. The same price in its two spellings becomes two different words.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" neologdn==0.5.6
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
from neologdn import normalize

texts = ["\u4fa1\u683c\u306f\u00a51,000", "\uffe51,000", "\uff041,000", "\uff05"]
found = [normalize(text) for text in texts]
for text, result in zip(texts, found):
    print(ascii(text), "->", ascii(result))
assert found == ["\u4fa1\u683c\u306f\\1,000", "\uffe51,000", "$1,000", "%"]
PY
