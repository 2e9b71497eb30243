# shellcheck shell=bash
# The reference protocol's data, for best.sh and the benchmarks; they source it after scripts/common.sh.
set -euo pipefail
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

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
    got=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1], "rb"))["types"]["en"])' "$DATA/preprocess.json")
    [[ $got == "$TYPES" ]] || die "the dictionary must have $TYPES types by the reference protocol, but has $got"
}
