#!/usr/bin/env bash
# Which configurations of configs/multi30k are worth a long training: short ones, compared on validation alone.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=examples/multi30k/long.sh
source "$(dirname "${BASH_SOURCE[0]}")/long.sh"

usage() {
    cat <<'HELP'
usage: study.sh [RUNG|ROW]... [--limit N] [fairseq-train options]

Trains rows of examples/multi30k/study.tsv with seed 1: those named by ROW, and all of a RUNG (1, 2, finish or short);
without a ROW or RUNG, all. Each is trained as far as its options say; its best average and length penalty are found on
validation (sweep.sh); and it is added to one table, OUT/best/study/study.tsv: BLEU, beam, length penalty, average, NLL,
updates, hours. A row that begins with another one's model trains that first. Differences below 0.4 BLEU are noise. It
can be stopped at any moment; run the same command again to resume.

  --limit N   the first N pairs (at least 40) of training and validation only, to try it; results go to
              OUT/best/limit-N/study
  options     of fairseq-train, which win over the rows'; a training that was begun with others is refused, but for a larger
              end

environment:
  MULTI30K_DIR, OUT, MERGES   as for best.sh; results go to its folder

example:
  examples/multi30k/study.sh 1
HELP
}

NAMES=() LIMIT='' OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --limit) LIMIT=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        *)
            if [[ $1 != -* && ${#OPTIONS[@]} -eq 0 ]]; then
                NAMES+=("$1")
            else
                OPTIONS+=("$1")
            fi
            ;;
    esac
    shift
done
[[ -z $LIMIT ]] || number_from --limit 40 29000 "$LIMIT"
need python3 fairseq-train
ON_INTERRUPT="resume"

declare -A LINE=()
ORDER=() WANTED=()
while IFS= read -r line; do
    [[ $line != '#'* && -n $line ]] || continue
    IFS=$'\t' read -r rung name _ <<<"$line"
    ORDER+=("$name") LINE[$name]=$line
    if [[ ${#NAMES[@]} -eq 0 || " ${NAMES[*]} " == *" $rung "* || " ${NAMES[*]} " == *" $name "* ]]; then
        WANTED+=("$name")
    fi
done <"$ROOT/examples/multi30k/study.tsv"
for name in "${NAMES[@]}"; do
    [[ -n ${LINE[$name]:-} ]] || cut -f 1 "$ROOT/examples/multi30k/study.tsv" | grep -qxF -- "$name" ||
        die "ROW must be a rung or row of examples/multi30k/study.tsv, but is '$name'"
done
places en-de "$LIMIT"
study_data
HERE=$BASE/study
mkdir -p -- "$HERE"

# Set TEXT, to train on, and PLAIN, to translate, to data of a kind: data_of KIND RECIPE
data_of() {
    PLAIN=$BASE/data-plain
    case $1 in
        -) TEXT=$PLAIN ;;
        bpedrop) text_of "$2" ;;
        *)
            PLAIN=$HERE/data-$1 TEXT=$HERE/data-$1
            preprocess "$1" "$PLAIN"
            ;;
    esac
}

# Train a row after the one that it begins with, and sweep: row NAME
row() {
    local name=$1 recipe data from options start=()
    # A tab is white space for `read`, which would skip empty fields; only the last may be empty.
    IFS=$'\t' read -r _ _ recipe data from options <<<"${LINE[$name]}"
    read -r -a options <<<"$options"
    if [[ $from != - ]]; then
        row "$from"
        start=(--finetune-from-model "$(best checkpoint "$HERE/results/$from/trained")")
    fi
    data_of "$data" "$recipe"
    train "$recipe" "$HERE/checkpoints/$name/trained" "$TEXT" "${start[@]}" "${options[@]}" "${OPTIONS[@]}"
    sweep "$name" trained
}

for name in "${WANTED[@]}"; do
    row "$name"
    run python3 "$ROOT/examples/multi30k/study_table.py" "$HERE" "${ORDER[@]}"
done
