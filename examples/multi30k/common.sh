# shellcheck shell=bash
# What the scripts of this folder share; they source it after scripts/common.sh.
set -euo pipefail
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

OUT=${OUT:-$ROOT/output/multi30k}
DATA=$OUT/data
TYPES=9712

# Print the help and end, wherever among the words it is asked for: help_first WORD...
help_first() {
    local word
    for word in "$@"; do
        if [[ $word == -h || $word == --help ]]; then
            usage
            exit 0
        fi
    done
}

# Train or resume by a recipe; a training that was begun with another one, other data or other options is refused. Larger
# ends, such as --max-update, train it further: train_noted RECIPE DATA SAVE [options of fairseq-train]
train_noted() {
    note_begun "$@"
    run "$ROOT/scripts/train.sh" "$@"
}

# The note and the refusal alone: note_begun RECIPE DATA SAVE [options of fairseq-train]
note_begun() {
    PYTHONSAFEPATH=1 python3 -m deepnmt.runs.begun "$@"
}

# Sort the words of a command that trains rows into ROWS and, from the first option on, REST; set SEED:
# sort_rows 'KNOWN ROWS' 'DEFAULT ROWS' WORD...
sort_rows() {
    local known=$1 default=$2 row
    shift 2
    help_first "$@"
    ROWS=()
    while [[ $# -gt 0 && $1 != -* ]]; do
        ROWS+=("$1")
        shift
    done
    [[ ${#ROWS[@]} -gt 0 ]] || read -r -a ROWS <<<"$default"
    for row in "${ROWS[@]}"; do
        [[ $row != *' '* && " $known " == *" $row "* ]] || die "ROW must be one of those of --help, but is '$row'"
    done
    for row in "$@"; do
        [[ $row != --seed && $row != --seed=* ]] || die "the variable SEED must be set in place of --seed"
    done
    SEED=${SEED:-1} REST=("$@")
    number_from SEED 1 1000000 "$SEED"
    need python3 fairseq-train
}

# The same for rows of a recipe's short trainings; set RECIPE, and OPTIONS, which win over those of all rows.
read_rows() {
    sort_rows "$@"
    RECIPE=${RECIPE:-$ROOT/configs/multi30k/transformer_tiny.yaml}
    [[ -f $RECIPE ]] || die "RECIPE must be a file, but there is no '$RECIPE'"
    OPTIONS=(--max-tokens 2048 --update-freq 1 --max-update 2500 "${REST[@]}")
}

# Train a row, choose on validation, and score test 2016 with the choice; RESULT is the folder of its scores:
# train_row ROW DATA [options of fairseq-train]
train_row() {
    local save=$HERE/checkpoints/seed-$SEED/$1
    RESULT=$HERE/results/seed-$SEED/$1
    train_noted "$RECIPE" "$2" "$save" "${OPTIONS[@]}" "${@:3}" --seed "$SEED"
    choose "$save" "$2" "$RESULT"
    score_subset "$CHOSEN" "$2" test "$RESULT/test"
    printf '%s\n' "$CHOSEN" >"$RESULT/chosen"
}

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

# Translate and score a subset: score_subset CHECKPOINT DATA SUBSET RESULT [options of generate.sh]; what has been scored
# since the checkpoint was written is left as it is.
score_subset() {
    local checkpoint=$1 data=$2 subset=$3 result=$4
    shift 4
    [[ -f ${checkpoint##*:} ]] ||
        die "${checkpoint##*:}: must be a checkpoint, but is not there; train without --no-save and --disable-validation"
    [[ ${checkpoint##*:} -nt $result/scores.json ]] || return 0
    run "$ROOT/scripts/generate.sh" "$checkpoint" "$data" "$result" --subset "$subset" "$@"
    run "$ROOT/scripts/score.sh" "$result"
}

# Translate and score the test set with one checkpoint: score_test CHECKPOINT RESULT
score_test() {
    run "$ROOT/scripts/generate.sh" "$1" "$DATA" "$2" --subset test
    run "$ROOT/scripts/score.sh" "$2" "$DATA"
}

# tokenised_bleu RESULT
tokenised_bleu() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1], "rb"))["tokenised BLEU"]["score"])' "$1/scores.json"
}

# Set CHOSEN to the averages of a training's last three and ten epochs, or to the checkpoint of the best validation loss,
# whichever has the best BLEU on validation: choose SAVE DATA RESULT [options of generate.sh]
choose() {
    local save=$1 data=$2 result=$3 best=-1 last bleu epochs candidate
    shift 3
    epochs=$(find "$save" -maxdepth 1 -name 'checkpoint[0-9]*.pt' | wc -l)
    # A training of less than an epoch has none, but its last state.
    epochs=$((epochs > 0 ? epochs : 1))
    for last in 3 10; do
        if [[ $save/checkpoint_last.pt -nt $save/average$last.pt ]]; then
            run "$ROOT/scripts/average.sh" "$save" "$save/average$last.pt" --last "$((epochs < last ? epochs : last))"
        fi
    done
    for candidate in average3 average10 checkpoint_best; do
        score_subset "$save/$candidate.pt" "$data" valid "$result/valid.$candidate" "$@"
        bleu=$(tokenised_bleu "$result/valid.$candidate")
        if python3 -c 'import sys; sys.exit(float(sys.argv[1]) <= float(sys.argv[2]))' "$bleu" "$best"; then
            best=$bleu CHOSEN=$save/$candidate.pt
        fi
    done
    printf 'Chosen on validation: %s (tokenised BLEU %s)\n' "$(basename "$CHOSEN")" "$best"
}
