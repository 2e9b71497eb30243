# shellcheck shell=bash
# The functions of best.sh, which sources them after common.sh: data, trainings, translations and choices.
set -euo pipefail

HELPER=$ROOT/examples/multi30k/choices.py
# Seeds of the models that translate the training text for both_diverse.
TRANSLATORS=(1 2)
MERGES=${MERGES:-10000}
WAY=() REVERSE=()

# Set HERE, THERE (of the other direction), BASE, BOTH, and the options of a direction: places DIRECTION LIMIT
# shellcheck disable=SC2034  # THERE is best.sh's.
places() {
    number_from MERGES 100 100000 "$MERGES"
    BASE=$OUT/best LIMIT=$2
    [[ $MERGES == 10000 ]] || BASE=$OUT/best-$MERGES
    [[ -z $2 ]] || BASE=$BASE/limit-$2
    HERE=$BASE THERE=$BASE/de-en
    if [[ $1 == de-en ]]; then
        HERE=$BASE/de-en THERE=$BASE WAY=(--source-lang de --target-lang en) REVERSE=(--reverse)
    fi
    BOTH=$BASE/data-both
    mkdir -p -- "$HERE"
}

# Binarise the text with another number of merges: preprocess MERGES FOLDER
preprocess() {
    local text=$OUT/text
    [[ -z $LIMIT ]] || text=$BASE/text
    run "$ROOT/scripts/preprocess.sh" --source-lang en --target-lang de --bpe-merges "$1" --dest "$2" \
        --lowercase --pretokenized --max-len 0 --train "$text/train.lc.norm.tok" \
        --valid "$text/val.lc.norm.tok" --raw-valid "$text/val" \
        --test "$text/test_2016_flickr.lc.norm.tok" --raw-test "$text/test_2016_flickr"
}

# Take the text, or the first LIMIT pairs of it.
take_text() {
    local prefix lang
    run python3 "$ROOT/examples/multi30k/fetch.py" "$OUT/text"
    if [[ -n $LIMIT ]]; then
        mkdir -p -- "$BASE/text"
        for prefix in train val test_2016_flickr; do
            for lang in en de lc.norm.tok.en lc.norm.tok.de; do
                head -n "$LIMIT" "$OUT/text/$prefix.$lang" >"$BASE/text/$prefix.$lang"
            done
        done
    fi
}

# Make BOTH, whose pairs are those of a data folder in both directions: join_directions DATA
join_directions() {
    local text=$OUT/text both=$BASE/text-bi
    [[ -z $LIMIT ]] || text=$BASE/text
    mkdir -p -- "$both"
    cat "$text"/train.lc.norm.tok.{en,de} >"$both/train.en"
    cat "$text"/train.lc.norm.tok.{de,en} >"$both/train.de"
    run "$ROOT/scripts/binarise.sh" --like "$1" --train "$both/train" --dest "$BOTH"
}

# Set TEXT to the data of a recipe: text_of RECIPE
text_of() {
    TEXT=$PLAIN
    case $1 in
        both) TEXT=$BOTH ;;
        both_diverse) TEXT=$HERE/diverse/pairs ;;
    esac
}

# Lock a folder into the caller's variable lock; wait for another command that has it: wait_for FOLDER DOING. Some machines have
# no flock.
wait_for() {
    exec {lock}>"$1/flow.lock"
    if command -v flock >/dev/null && ! flock --nonblock "$lock"; then
        echo "$1 is being $2: waiting"
        flock "$lock"
    fi
}

# Train or resume by a recipe, unless the same has been done; a training that was begun with another recipe, other data or
# other options is refused. Larger ends, such as --max-update, train it further: train RECIPE SAVE DATA [options of fairseq-train]
train() {
    local recipe=$1 save=$2 data=$3 lock now command
    shift 3
    command=("$ROOT/configs/multi30k/$recipe.yaml" "$data" "$save" "${WAY[@]}" "$@")
    now="$recipe $data $* $(python3 "$HELPER" digest "${command[0]}")"
    mkdir -p -- "$save"
    # Several members may begin with it, of which one trains it.
    wait_for "$save" trained
    # Also where it is done: what it began with may have been trained again since.
    PYTHONSAFEPATH=1 python3 -m deepnmt.runs.begun "${command[@]}"
    if [[ -f $save/done && $(<"$save/done") == "$now" ]]; then
        echo "$save is trained"
    else
        run "$ROOT/scripts/train.sh" "${command[@]}"
        printf '%s\n' "$now" >"$save/done"
    fi
    exec {lock}>&-
}

# Set BEFORE to the recipe whose last checkpoint another one begins with, if it does: begins_with RECIPE
begins_with() {
    BEFORE=''
    case $1 in
        r_drop | r_drop_recut) BEFORE=control ;;
        short_recut) BEFORE=control_56 ;;
        both_r_drop) BEFORE=both ;;
        both_diverse) BEFORE=both_r_drop ;;
        r_drop_settled) BEFORE=r_drop_recut ;;
        short_settled) BEFORE=short_recut ;;
    esac
}

# Train a member, and first what it begins with, the member of this seed when there is one:
# train_member RECIPE NAME SEED [options of fairseq-train]
train_member() {
    local recipe=$1 name=$2 seed=$3 start=() BEFORE
    shift 3
    begins_with "$recipe"
    if [[ $BEFORE == both ]]; then
        start=(--finetune-from-model "$BASE/checkpoints/both-$seed/trained/checkpoint_last.pt")
        for_both train_member both "both-$seed" "$seed" "$@"
    elif [[ -n $BEFORE ]]; then
        start=(--finetune-from-model "$HERE/checkpoints/$BEFORE-$seed/trained/checkpoint_last.pt")
        train_member "$BEFORE" "$BEFORE-$seed" "$seed" "$@"
    fi
    [[ $recipe != both_diverse ]] || diversify "$@"
    text_of "$recipe"
    train "$recipe" "$HERE/checkpoints/$name/trained" "$TEXT" --seed "$seed" "${start[@]}" "$@"
}

# Do something with a model of both directions, which members of either begin with: for_both COMMAND...
for_both() {
    local HERE=$BASE WAY=()
    "$@"
}

# Print how many checkpoints of a member are averaged: ten, as far as there are: averaged NAME
averaged() {
    local number
    number=$(find "$HERE/checkpoints/$1/trained" -maxdepth 1 \( -name 'checkpoint[0-9]*.pt' -o -name 'checkpoint_[0-9]*.pt' \) | wc -l)
    # A training of less than an epoch has none, but its last state.
    number=$((number > 0 ? number : 1))
    echo $((number < 10 ? number : 10))
}

# Set MODEL to a member's average, made beside the text that it translates: average_of NAME FOLDER
average_of() {
    local save=$HERE/checkpoints/$1/trained
    MODEL=$2/$1.pt
    if [[ ! -f $MODEL || $save/checkpoint_last.pt -nt $MODEL ]]; then
        run "$ROOT/scripts/average.sh" "$save" "$MODEL" --last "$(averaged "$1")"
    fi
}

# Make HERE/diverse/pairs: the pairs, the source translated by the members both_r_drop of TRANSLATORS, and the target by those
# that they begin with, which translate both ways: diversify [options of fairseq-train]
diversify() {
    local seed text=$OUT/text mono=$HERE/diverse/mono parts=() lang=de back lock MODEL
    [[ -z $LIMIT ]] || text=$BASE/text
    [[ ${#WAY[@]} -eq 0 ]] || lang=en
    for seed in "${TRANSLATORS[@]}"; do train_member both_r_drop "both_r_drop-$seed" "$seed" "$@"; done
    mkdir -p -- "$HERE/diverse"
    # Of several members that need it, one makes it.
    wait_for "$HERE/diverse" made
    run "$ROOT/scripts/binarise.sh" --like "$PLAIN" --mono "$text/train.lc.norm.tok" --lang "$lang" --dest "$mono"
    for seed in "${TRANSLATORS[@]}"; do
        average_of "both_r_drop-$seed" "$HERE/diverse"
        run "$ROOT/scripts/synthesise.sh" distil "$MODEL" "$PLAIN" "$HERE/diverse/forward-$seed" "${REVERSE[@]}"
        for_both average_of "both-$seed" "$HERE/diverse"
        back=${MODEL%.pt}-back.pt
        [[ -f $back && ! $MODEL -nt $back ]] || run python3 "$HELPER" turn "$MODEL" "$lang" "$back"
        # A line of the validation set is in the training text, too.
        run "$ROOT/scripts/synthesise.sh" back "$back" "$PLAIN" "$mono" "$HERE/diverse/back-$seed" --allow-overlap "${REVERSE[@]}"
        parts+=("$HERE/diverse/forward-$seed" "$HERE/diverse/back-$seed")
    done
    run "$ROOT/scripts/mix.sh" "$HERE/diverse/pairs" "$PLAIN" "${parts[@]}"
    exec {lock}>&-
}

# Compare averages, beams and length penalties of HERE/checkpoints/NAME/KIND on validation, unless that has been done with
# these checkpoints: sweep NAME KIND [options of sweep.sh]
sweep() {
    local save=$HERE/checkpoints/$1/$2 result=$HERE/results/$1/$2
    shift 2
    # sweep.sh refuses the results, also half-made ones, of checkpoints that have been trained further since.
    [[ ! -f $result/sweep.json || ! $save/checkpoint_last.pt -nt $result/sweep.json ]] || rm -rf -- "$result"
    if [[ ! -f $result/by || $(<"$result/by") != "$*" ]]; then
        run "$ROOT/scripts/sweep.sh" "$save" "$PLAIN" "$result" "$@" "${REVERSE[@]}"
        run python3 "$HELPER" swept "$result" "$PLAIN"
        printf '%s\n' "$*" >"$result/by"
    fi
}

# Print the checkpoint, beam or lenpen of the best of some results: best WHAT RESULT...
best() {
    python3 "$HELPER" best "$@"
}

# Translate, unless these very models have done so with these options: lists MODELS DATA FOLDER OPTIONS...
lists() {
    local models=$1 data=$2 folder=$3 model same=''
    shift 3
    [[ ! -f $folder/by || $(<"$folder/by") != "$models $data $*" ]] || same=yes
    while [[ -n $same ]] && read -r -d : model; do
        [[ ! $model -nt $folder/by ]] || same=''
    done <<<"$models:"
    [[ -z $same ]] || return 0
    run "$ROOT/scripts/generate.sh" "$models" "$data" "$folder" "$@" "${REVERSE[@]}"
    printf '%s\n' "$models $data $*" >"$folder/by"
}

# The same, and score: translate MODELS DATA FOLDER OPTIONS...
translate() {
    lists "$@"
    [[ -f $3/scores.json && ! $3/by -nt $3/scores.json ]] || run "$ROOT/scripts/score.sh" "$3" "${REVERSE[@]}"
}

# Set SETTING to a system's choice, its checkpoint, data, beam and length penalty: setting_of RESULT
setting_of() {
    local found
    # Not from a process substitution, whose failure would go unseen.
    found=$(python3 "$HELPER" settings "$1")
    mapfile -t SETTING <<<"$found"
}

# Translate and score the test set once by a system's choice: translate_test RESULT
translate_test() {
    setting_of "$1"
    translate "${SETTING[0]}" "${SETTING[1]}" "$1/test" --subset test --beam "${SETTING[2]}" --lenpen "${SETTING[3]}"
}
