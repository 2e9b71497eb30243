#!/usr/bin/env bash
# Which settings train with 48 + 48 layers: the loss curves of docs/depth.md.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

usage() {
    cat <<'HELP'
usage: run.sh [RECIPE...]
       run.sh --data

Trains each recipe of configs/depth for 300 updates and writes its loss curve to OUT/curves/RECIPE.txt. The task is to
read a German sentence of Multi30k and to write it again: unlike translation, it shows within 300 updates whether
anything gets through 48 encoder and 48 decoder layers. About 5 minutes a recipe on one CPU core. It can be stopped
at any moment; run the same command again to resume.

  RECIPE     name under configs/depth, such as dlcl (default: all of them)
  --data     prepare the data, and train nothing

environment:
  MULTI30K_DIR   folder with Multi30k, as examples/multi30k/best.sh reads it (default: downloaded)
  OUT            folder for everything that is made (default: output/depth)
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage
    exit 0
fi
DATA_ALONE=''
if [[ ${1:-} == --data ]]; then
    DATA_ALONE=true
    shift
fi
OUT=${OUT:-$ROOT/output/depth}
ON_INTERRUPT="resume"
RECIPES=("$@")
if [[ ${#RECIPES[@]} -eq 0 ]]; then
    for FILE in "$ROOT"/configs/depth/*.yaml; do
        ! grep -q "^arch:" "$FILE" || RECIPES+=("$(basename "$FILE" .yaml)")
    done
fi
for RECIPE in "${RECIPES[@]}"; do
    [[ -f $ROOT/configs/depth/$RECIPE.yaml ]] || die "RECIPE must be a name under configs/depth, but is '$RECIPE'"
done
need python3 fairseq-train

run python3 "$ROOT/examples/multi30k/fetch.py" "$OUT/text"
for PART in train val; do
    ln -sf "$PART.lc.norm.tok.de" "$OUT/text/$PART.lc.norm.tok.copy"
done
run "$ROOT/scripts/preprocess.sh" --source-lang de --target-lang copy --dest "$OUT/data" --bpe-merges 10000 \
    --lowercase --pretokenized --max-len 0 --train "$OUT/text/train.lc.norm.tok" --valid "$OUT/text/val.lc.norm.tok"

if [[ -n $DATA_ALONE ]]; then
    exit 0
fi
mkdir -p -- "$OUT/curves"
for RECIPE in "${RECIPES[@]}"; do
    SAVE=$OUT/checkpoints/$RECIPE
    run "$ROOT/scripts/train.sh" "$ROOT/configs/depth/$RECIPE.yaml" "$OUT/data" "$SAVE"
    TMP=$(mktemp)
    python3 "$ROOT/examples/depth/curve.py" "$SAVE/train.log" >"$TMP"
    mv -- "$TMP" "$OUT/curves/$RECIPE.txt"
    printf '%s: %s\n' "$RECIPE" "$(tail -n 1 "$OUT/curves/$RECIPE.txt")"
done
