#!/usr/bin/env bash
# English to German on Multi30k with other text and other subwords: faults and their cleaning, units, case, selection.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: text.sh [ROW...] [fairseq-train options]

Trains a model on each ROW of Multi30k task 1, all with one recipe and the same number of updates, and scores it on
validation, on test 2016, and on test 2016 with two letters swapped in a tenth of the source's words. It can be stopped at
any moment; run the same command again to resume.

  ROW            what is trained on (default: original dirty cleaned):
    original       the 29,000 pairs, lower-cased, with 10,000 BPE merges
    dirty          with a fifth of them broken: shuffled, half cut off, copied, of the other language, repeated words
    cleaned        what clean.sh keeps of these: filters, then the best 90 % by a classifier with word alignments
    merges-2k, merges-4k                   original with fewer merges
    dropout-2k, dropout-4k, dropout-10k    with BPE-dropout 0.1
    unigram        with a unigram model of 10,000 types
    separate       with 5,000 merges for each language by itself
    few            the first 5,000 pairs, with the codes and the dictionary of all
    few-dropout    these, with BPE-dropout 0.1
    selected       the 5,000 pairs that select.sh finds most like the half of the test set on one topic
    raw-case, truecase, lower-case         the text as people write it, its first words alone changed, or in lower case
  options        of fairseq-train, which win over the recipe's and over --max-tokens 2048 --update-freq 1 --max-update 2500;
                 a training that was begun with others is refused, but for a larger end

environment:
  MULTI30K_DIR   as for run.sh
  OUT            folder for everything that is made (default: output/multi30k)
  RECIPE         recipe of all models (default: configs/multi30k/transformer_tiny.yaml)
  SEED           of the models, each seed in folders of its own (default: 1)

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/text.sh original merges-4k dropout-4k
HELP
}

KNOWN='original dirty cleaned merges-2k merges-4k dropout-2k dropout-4k dropout-10k unigram separate few few-dropout selected'
read_rows "$KNOWN raw-case truecase lower-case" 'original dirty cleaned' "$@"
ON_INTERRUPT="resume"
HELPER=$ROOT/examples/multi30k/text_rows.py
HERE=$OUT/text-rows TEXTS=$OUT/text-rows/text SHORT=lc.norm.tok

run python3 "$ROOT/examples/multi30k/fetch.py" "$OUT/text"
mkdir -p -- "$TEXTS"
run python3 "$HELPER" misspell "$OUT/text/test_2016_flickr" "$TEXTS/misspelt" --kinds "$SHORT"
run python3 "$HELPER" topic "$OUT/text/test_2016_flickr.$SHORT.en" "$TEXTS/topic"

# Binarise a training text: data_of FOLDER PREFIX [options of preprocess.sh]
data_of() {
    run "$ROOT/scripts/preprocess.sh" --source-lang en --target-lang de --dest "$HERE/data/$1" --lowercase --pretokenized \
        --max-len 0 --train "$2" --valid "$OUT/text/val.$SHORT" --raw-valid "$OUT/text/val" \
        --test "$OUT/text/test_2016_flickr.$SHORT" --raw-test "$OUT/text/test_2016_flickr" \
        --test "$TEXTS/misspelt.$SHORT" --raw-test "$TEXTS/misspelt" "${@:3}"
}

# The same from untokenised text in its own case: cased_data FOLDER [options of preprocess.sh]
cased_data() {
    run "$ROOT/scripts/preprocess.sh" --source-lang en --target-lang de --dest "$HERE/data/$1" --max-len 0 \
        --train "$OUT/text/train" --valid "$OUT/text/val" --test "$OUT/text/test_2016_flickr" --test "$TEXTS/misspelt" \
        --bpe-merges 10000 "${@:2}"
}

# Put faults into a fifth of the pairs: TEXTS/dirty
dirty_text() {
    [[ -f $TEXTS/dirty.kinds ]] ||
        run python3 "$ROOT/examples/multi30k/faults.py" put "$OUT/text/train.$SHORT" "$TEXTS/dirty" --source-lang en \
            --target-lang de --replace 0.2 --kinds shuffled,cut,copied,language,repeated
}

# Clean them as docs/data.md does, without knowing how many are broken: TEXTS/cleaned
clean_text() {
    local languages=(--source-lang en --target-lang de)
    run "$ROOT/scripts/clean.sh" --input "$TEXTS/dirty" --output "$TEXTS/filtered" "${languages[@]}" \
        --recipe "$ROOT/configs/clean.txt"
    run "$ROOT/scripts/align.sh" "$TEXTS/filtered" "$TEXTS/aligned" "${languages[@]}" --raw --lexicon
    run "$ROOT/scripts/clean.sh" --input "$TEXTS/filtered" --output "$TEXTS/cleaned" "${languages[@]}" --length 1:100 \
        --lexicon "$TEXTS/aligned" --train-classifier --keep-best 0.9
}

TRAIN=$OUT/text/train.$SHORT
for row in "${ROWS[@]}"; do
    MORE=() TEXT=$HERE/data/$row
    case $row in
        dropout-* | few-dropout) MORE=(--task deep_translation --bpe-dropout 0.1) ;;
    esac
    case $row in
        original | *-10k) data_of original "$TRAIN" --bpe-merges 10000; TEXT=$HERE/data/original ;;
        *-2k) data_of merges-2k "$TRAIN" --bpe-merges 2000; TEXT=$HERE/data/merges-2k ;;
        *-4k) data_of merges-4k "$TRAIN" --bpe-merges 4000; TEXT=$HERE/data/merges-4k ;;
        dirty) dirty_text; data_of "$row" "$TEXTS/dirty" --bpe-merges 10000 ;;
        cleaned) dirty_text; clean_text; data_of "$row" "$TEXTS/cleaned" --bpe-merges 10000 ;;
        unigram) data_of "$row" "$TRAIN" --subwords unigram --vocabulary 10000 ;;
        separate) data_of "$row" "$TRAIN" --bpe-merges 5000 --separate ;;
        few | few-dropout)
            data_of original "$TRAIN" --bpe-merges 10000
            for lang in en de; do head -n 5000 "$TRAIN.$lang" >"$TEXTS/few.$lang"; done
            run "$ROOT/scripts/binarise.sh" --like "$HERE/data/original" --train "$TEXTS/few" --dest "$HERE/data/few"
            TEXT=$HERE/data/few
            ;;
        selected)
            data_of original "$TRAIN" --bpe-merges 10000
            run "$ROOT/scripts/select.sh" "$HERE/data/original" "$TEXT" --like "$TEXTS/topic.en" --number 5000
            ;;
        raw-case) cased_data "$row" ;;
        truecase) cased_data "$row" --truecase ;;
        lower-case) cased_data "$row" --lowercase ;;
    esac
    train_row "$row" "$TEXT" "${MORE[@]}"
    score_subset "$CHOSEN" "$TEXT" test1 "$RESULT/misspelt"
done
run python3 "$HELPER" table "$HERE/results" --lines "$TEXTS/topic.lines" --cased "$OUT/text/test_2016_flickr.de"
