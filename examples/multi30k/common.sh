# shellcheck shell=bash
# What the scripts of this folder share; they source it after scripts/common.sh.
set -euo pipefail

OUT=${OUT:-$ROOT/output/multi30k}
DATA=$OUT/data
TYPES=9712

# Make DATA from OUT/text by the reference protocol.
prepare_data() {
    run python3 "$ROOT/examples/multi30k/fetch.py" "$OUT/text"
    run "$ROOT/scripts/preprocess.sh" --source-lang en --target-lang de --dest "$DATA" --bpe-merges 10000 \
        --lowercase --pretokenized --max-len 0 \
        --train "$OUT/text/train.lc.norm.tok" \
        --valid "$OUT/text/val.lc.norm.tok" --raw-valid "$OUT/text/val" \
        --test "$OUT/text/test_2016_flickr.lc.norm.tok" --raw-test "$OUT/text/test_2016_flickr"
    local got
    got=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["types"]["en"])' "$DATA/preprocess.json")
    [[ $got == "$TYPES" ]] || die "the dictionary must have $TYPES types by the reference protocol, but has $got"
}

# Translate and score the test set with one checkpoint: score_test CHECKPOINT RESULT
score_test() {
    run "$ROOT/scripts/generate.sh" "$1" "$DATA" "$2" --subset test
    run "$ROOT/scripts/score.sh" "$2" "$DATA"
}
