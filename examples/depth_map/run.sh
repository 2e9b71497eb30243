#!/usr/bin/env bash
# The map of depth: one run, or all runs of a text in one table.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

usage() {
    cat <<'HELP'
usage: run.sh TEXT RECIPE[,RECIPE...] [--hours H] [--seeds N,N,...] [--subset SUBSET] [--debs FOLDER]
              [fairseq-train options]
       run.sh seconds
       run.sh report

Trains recipes of configs/depth_map for the same core hours, translates, and scores: the study of docs/depth-map.md.
The updates of a recipe follow from the hours and from examples/depth_map/seconds.tsv, the core seconds of an update as
deepnmt plan measured them. Dropout and sublayer skipping are of tuned.tsv beside it. The training can be stopped at any
moment; run the same command again to resume.

seconds measures that file, which needs a quiet machine for ten minutes, and is part of the protocol: before the first
run of a text. OUT/seconds.tsv has all measurements, of which the least counts, since other work only adds to them: run
it at different times. report makes the table and the
pictures from the folders of all runs, and of runs that docs/depth_map.tsv has of another machine. It adds the runs to
that file, and the results on the test sets, which deepnmt plan shows, to configs/depth_map/gains.tsv.

  TEXT             ten: ten languages of LibreOffice's help into English; quarter: every fourth of its pairs; de: German
  RECIPE           name under configs/depth_map, such as dlcl_24
  --hours H        core hours of a training (default: 1 for ten, and 0.25 for the others)
  --seeds N,N,...  a training for each (default: 1)
  --subset SUBSET  subset to translate: valid, or test, once all choices are made (default: valid)
  --debs FOLDER    .deb files, as for examples/libreoffice/run.sh
  options          of fairseq-train, such as --dropout 0.3. Runs with options have a folder of their own

environment:
  OUT              folder for everything that is made (default: output/depth_map)
  OMP_NUM_THREADS  threads (default: 1, for which seconds.tsv holds)

example:
  examples/depth_map/run.sh ten dlcl_24
HELP
}

HOURS='' SEEDS=1 SUBSET=valid DEBS=() OPTIONS=() POSITIONAL=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --hours) HOURS=$(value "$@"); shift ;;
        --seeds) SEEDS=$(value "$@"); shift ;;
        --subset) SUBSET=$(value "$@"); shift ;;
        --debs) DEBS=(--debs "$(value "$@")") || exit; shift ;;
        -h | --help) usage; exit 0 ;;
        -*) OPTIONS=("$@"); break ;;
        *) POSITIONAL+=("$1") ;;
    esac
    shift
done
OUT=$(realpath -m -- "${OUT:-$ROOT/output/depth_map}")
TEXT=${POSITIONAL[0]:-}
HERE=$ROOT/examples/depth_map
if [[ $TEXT == report && ${#POSITIONAL[@]} -eq 1 ]]; then
    export PYTHONPATH=$ROOT/examples/multi30k:$PYTHONPATH
    run python3 "$HERE/depth_report.py" "$OUT" --seconds "$HERE/seconds.tsv" --pictures "$OUT" \
        --runs "$ROOT/docs/depth_map.tsv" --gains "$ROOT/configs/depth_map/gains.tsv"
    exit
fi
need python3 fairseq-train awk
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} CUDA_VISIBLE_DEVICES=''
ON_INTERRUPT=resume

# Set DATA to a text's folder: prepare TEXT. Validation, which a run repeats ten times, has every sixth pair of the ten.
prepare() {
    local corpus=$OUT/corpus text=$OUT/text side
    DATA=$OUT/data/$1
    mkdir -p -- "$text" "$OUT/data"
    if [[ $1 == de ]]; then
        OUT=$corpus run "$ROOT/examples/libreoffice/run.sh" de "${DEBS[@]}" --text
        run "$ROOT/scripts/preprocess.sh" --source-lang de --target-lang en --train "$corpus/de/clean" \
            --valid "$corpus/de/text/valid" --test "$corpus/de/text/test" --bpe-merges 8000 --separate-dictionaries \
            --dest "$DATA"
        return
    fi
    OUT=$corpus run "$ROOT/examples/libreoffice/run.sh" ten "${DEBS[@]}" --text
    for side in mul en; do
        awk 'NR % 6 == 1' "$corpus/ten/text/valid.$side" >"$text/valid.$side"
        awk 'NR % 4 == 1' "$corpus/ten/text/train.$side" >"$text/quarter.$side"
    done
    run "$ROOT/scripts/preprocess.sh" --source-lang mul --target-lang en --train "$corpus/ten/text/train" \
        --valid "$text/valid" --test "$corpus/ten/text/test" --protect "$corpus/ten/tags" --bpe-merges 12000 \
        --separate-dictionaries --dest "$OUT/data/ten"
    [[ $1 == ten ]] || run "$ROOT/scripts/binarise.sh" --like "$OUT/data/ten" --train "$text/quarter" --dest "$DATA"
}

if [[ $TEXT == seconds && ${#POSITIONAL[@]} -eq 1 ]]; then
    mkdir -p -- "$OUT"
    for TEXT in ten de; do
        prepare "$TEXT"
        for RECIPE in {pre,dlcl}_{4,12,24}; do
            run python3 -m deepnmt.runs.update_probe costs "$ROOT/configs/depth_map/$RECIPE.yaml" "$DATA" "$OUT/costs.json"
            sed -E "s/.*\"processor seconds\": ([0-9.]+).*/$TEXT $RECIPE \1/" "$OUT/costs.json" >>"$OUT/seconds.tsv"
        done
    done
    # Whole or not at all: all runs follow from it.
    {
        echo '# Core seconds of an update, by deepnmt plan: text, recipe, seconds; the least of several measurements.'
        sort -k1,1r -k2,2V -k3,3g "$OUT/seconds.tsv" | awk '!known[$1, $2]++'
    } >"$OUT/seconds.new"
    mv -- "$OUT/seconds.new" "$HERE/seconds.tsv"
    exit
fi
[[ ${#POSITIONAL[@]} -eq 2 ]] || die "TEXT and RECIPE must be given, or report (see --help)"
[[ $TEXT == ten || $TEXT == quarter || $TEXT == de ]] || die "TEXT must be ten, quarter or de, but is '$TEXT'"
[[ -n $HOURS || $TEXT != ten ]] || HOURS=1
HOURS=${HOURS:-0.25}
[[ $HOURS =~ ^[0-9]{1,3}(\.[0-9]{1,4})?$ ]] || die "--hours must be a number such as 0.25, but is '$HOURS'"
# 1.0 is 1: the report compares runs by their folders.
HOURS=$(awk -v "hours=$HOURS" 'BEGIN { print hours + 0 }')
IFS=, read -ra RECIPES <<<"${POSITIONAL[1]}"

prepare "$TEXT"
# A folder for each of these: a training is refused that was begun with other options.
FOLDER=$OUT/runs/$TEXT/$(printf '%s' "${HOURS}h" "${OPTIONS[@]}" | tr -c 'A-Za-z0-9.-' _)
mkdir -p -- "$FOLDER"
PATHS=()
for RECIPE in "${RECIPES[@]}"; do
    # Its tenth part warms up, its last quarter cools down, and each tenth part is validated.
    UPDATES=$(awk -v "text=${TEXT/quarter/ten}" -v "recipe=$RECIPE" -v "hours=$HOURS" \
        '$1 == text && $2 == recipe { print int(hours * 3600 / $3 / 20) * 20 }' "$HERE/seconds.tsv")
    [[ ${UPDATES:-0} -gt 0 ]] || die "seconds.tsv must have $TEXT and $RECIPE, and --hours time for 20 updates"
    read -r DROPOUT SKIP < <(awk -v "text=$TEXT" -v "layers=${RECIPE##*_}" \
        '$1 == text && $2 == layers { print $3, $4 }' "$HERE/tuned.tsv") || die "tuned.tsv must have $TEXT and ${RECIPE##*_}"
    cat >"$FOLDER/$RECIPE.yaml" <<YAML
extends: $ROOT/configs/depth_map/$RECIPE.yaml
dropout: $DROPOUT
encoder-skip: $SKIP
max-update: $UPDATES
warmup-updates: $((UPDATES / 10))
cooldown-updates: $((UPDATES / 4))
validate-interval-updates: $((UPDATES / 10))
save-interval-updates: $((UPDATES / 10))
keep-interval-updates: 1
no-epoch-checkpoints: true
validate-interval: 1000
YAML
    PATHS+=("$FOLDER/$RECIPE.yaml")
done
run python3 -m deepnmt seeds "$(IFS=,; printf '%s' "${PATHS[*]}")" "$DATA" "$FOLDER" --seeds "$SEEDS" --last 1 \
    --subset "$SUBSET" "${OPTIONS[@]}"
