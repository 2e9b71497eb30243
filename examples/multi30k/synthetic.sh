#!/usr/bin/env bash
# English to German on Multi30k with few real pairs and synthetic ones: text, all trainings, and scores.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: synthetic.sh [ROW...] [fairseq-train options]

Takes the first 5,000 pairs of Multi30k task 1 as bitext and the rest as monolingual text, trains a model on each ROW and
scores it on validation and test 2016. Codes and dictionary are those of all 29,000 pairs in every row, so that the rows
differ by their pairs alone. It can be stopped at any moment; run the same command again to resume.

  ROW        what is trained on (default: bitext back full):
    bitext     the 5,000 pairs
    back       with the other 24,000 German sentences, translated back with a beam of 5 by a model of the 5,000 pairs
    sampling, top10, greedy   ... by sampling, from the 10 most probable subwords, by greedy search
    tagged     ... with <BT> before each synthetic source
    noise      ... with words of the synthetic source left out, blanked and moved
    copy       with the 24,000 German sentences on both sides
    forward    with the other 24,000 English sentences, translated by the model of the 5,000 pairs
    full       all 29,000 pairs, the upper bound
  options    of fairseq-train, which win over the recipe's and over --max-tokens 2048 --update-freq 1 --max-update 2500; a
             training that was begun with others is refused, but for a larger end, and so are pairs of another model

environment:
  MULTI30K_DIR   as for run.sh
  OUT            folder for everything that is made (default: output/multi30k)
  RECIPE         recipe of all models (default: configs/multi30k/transformer_tiny.yaml)
  SEED           of the models of the rows, each seed in folders of its own (default: 1)

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/synthetic.sh bitext back tagged full
HELP
}

read_rows 'bitext back sampling top10 greedy tagged noise copy forward full' 'bitext back full' "$@"
need column
ON_INTERRUPT="resume"
HERE=$OUT/synthetic REAL=5000

prepare_data
mkdir -p -- "$HERE/text"
for lang in en de; do
    head -n "$REAL" "$OUT/text/train.lc.norm.tok.$lang" >"$HERE/text/first.$lang"
    tail -n "+$((REAL + 1))" "$OUT/text/train.lc.norm.tok.$lang" >"$HERE/text/rest.$lang"
done
run "$ROOT/scripts/binarise.sh" --like "$DATA" --train "$HERE/text/first" --dest "$HERE/bitext"

# mono LANG FOLDER [options of binarise.sh]
mono() {
    run "$ROOT/scripts/binarise.sh" --like "$DATA" --mono "$HERE/text/rest" --lang "$1" --drop-overlap --dest "$HERE/$2" "${@:3}"
}

# Train the model that translates for the rows, once, and set CHOSEN to it: teacher back|forward
teacher() {
    local save=$HERE/checkpoints/$1 way=() reverse=()
    if [[ $1 == back ]]; then way=(--source-lang de --target-lang en) reverse=(--reverse); fi
    train_noted "$RECIPE" "$HERE/bitext" "$save" "${OPTIONS[@]}" --seed 1 "${way[@]}"
    choose "$save" "$HERE/bitext" "$HERE/results/$1" "${reverse[@]}"
}

# Make the pairs of a row, or see that they are of the teacher that is now: pairs ROW KIND MONO [options of synthesise.sh]
pairs() {
    local models=() start made=''
    if [[ $2 != copy ]]; then
        teacher "$2"
        models=("$CHOSEN")
    fi
    [[ ! -f $HERE/pairs/$1/preprocess.json ]] || made=yes
    start=$SECONDS
    run "$ROOT/scripts/synthesise.sh" "$2" "${models[@]}" "$HERE/bitext" "$HERE/$3" "$HERE/pairs/$1" "${@:4}"
    [[ -n $made ]] || printf '%s\t%s\n' "$1" "$((SECONDS - start))" >>"$HERE/seconds.tsv"
    run "$ROOT/scripts/mix.sh" "$HERE/mixed/$1" "$HERE/bitext" "$HERE/pairs/$1"
}

mkdir -p -- "$HERE/pairs" "$HERE/mixed"
for row in "${ROWS[@]}"; do
    TEXT=$HERE/mixed/$row
    case $row in
        bitext) TEXT=$HERE/bitext ;;
        full) TEXT=$DATA ;;
        tagged | noise) mono de mono-de-symbols --symbols '<BT>' --symbols '<BLANK>' ;;
        forward) mono en mono-en ;;
        *) mono de mono-de ;;
    esac
    case $row in
        back) pairs "$row" back mono-de ;;
        sampling | greedy) pairs "$row" back mono-de --method "$row" ;;
        top10) pairs "$row" back mono-de --method top-k 10 ;;
        tagged) pairs "$row" back mono-de-symbols --tag '<BT>' ;;
        noise) pairs "$row" back mono-de-symbols --noise delete=0.1,blank=0.1,shuffle=3 ;;
        copy) pairs "$row" copy mono-de ;;
        forward) pairs "$row" forward mono-en ;;
    esac
    train_row "$row" "$TEXT"
done
python3 "$ROOT/examples/multi30k/rows.py" "$HERE/results" | column -t -s "$(printf '\t')"
