#!/usr/bin/env bash
# sentencepiece 0.2.3: the rules with case folding, nmt_nfkc_cf and nfkc_cf, leave the Turkish İ a capital letter.
# Guessed: Unicode's full folding, as str.casefold: i with a dot for İ, and "ss" for ß. Seen: İ stays as it is, and so
# does ß. Such a model has other pieces for İSTANBUL than for istanbul, and for STRASSE than for Straße.
set -euo pipefail
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m pip install --quiet --target "$WORK" sentencepiece==0.2.3
cd "$WORK"
PYTHONPATH=$WORK PYTHONUTF8=1 python3 - <<'PY'
import sentencepiece

words = ["\u0130STANBUL", "Stra\u00dfe", "STRA\u1e9eE", "\u039f\u03b4\u03cc\u03c2"]
expected = ["\u0130stanbul", "stra\u00dfe", "stra\u00dfe", "\u03bf\u03b4\u03cc\u03c3"]
for rule in ("nmt_nfkc_cf", "nfkc_cf"):
    normaliser = sentencepiece.SentencePieceNormalizer(rule_name=rule, add_dummy_prefix=False)
    found = [normaliser.normalize(word) for word in words]
    print(rule, *found)
    assert found == expected and not found[0].islower()
assert [word.casefold() for word in words[:2]] == ["i\u0307stanbul", "strasse"]
PY
