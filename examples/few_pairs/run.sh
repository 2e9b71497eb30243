#!/usr/bin/env bash
# Few pairs and much text of one language: what each method gains, and what it costs.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

usage() {
    cat <<'HELP'
usage: run.sh multi30k|help GROUP... [--updates N] [--subset valid|test]

Trains a small model on few pairs, by each method of the GROUPs, and adds its line to OUT/TEXT/SUBSET.md: BLEU, gain
over the pairs alone, its p, and core hours. Every model has the same size and number of updates. The command can be
stopped at any moment; run it again to resume.

  multi30k         5,000 pairs of Multi30k, English to German, and 24,000 further sentences of each language
  help             half of LibreOffice's German help into English, and the other half's sentences of each language
  GROUP            plain        the pairs alone, with three seeds; all other groups need it
                   order        competence curriculum, dynamic sampling, random batches, L2, L1, transparent attention
                   growth       progressive training, of all layers or of the new ones alone
                   units        a unigram model's subwords, and sampling from it
                   back         back-translation, also with half the weight
                   dual         dual supervised learning, back-translation on the fly, policy gradient, and a language
                                model inside the decoder; the first three need the group back
                   pretraining  embeddings, smaller vectors for rare words, a masked language model, the same frozen
                                beside the model, MASS
                   together     the masked language model, then back-translation; needs back and pretraining
                   all          all of them
  --updates N      of each training (default: 1500 for multi30k, 2000 for help)
  --subset SUBSET  valid, or test, once all choices are made (default: valid)

environment:
  MULTI30K_DIR     folder with the text, as for examples/multi30k/best.sh
  OUT              folder for everything that is made (default: output/few_pairs)
  OMP_NUM_THREADS  threads (default: 1)

example:
  examples/few_pairs/run.sh multi30k all
HELP
}

UPDATES='' SUBSET=valid POSITIONAL=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --updates) UPDATES=$(value "$@"); shift ;;
        --subset) SUBSET=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        -*) die "unknown option $1 (see --help)" ;;
        *) POSITIONAL+=("$1") ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -ge 2 ]] || die "TEXT and GROUP must be given (see --help)"
TEXT=${POSITIONAL[0]} NAMES=("${POSITIONAL[@]:1}")
[[ $TEXT == multi30k || $TEXT == help ]] || die "TEXT must be multi30k or help, but is '$TEXT'"
[[ $SUBSET == valid || $SUBSET == test ]] || die "--subset must be valid or test, but is '$SUBSET'"
[[ $TEXT == multi30k ]] && DEFAULT=1500 || DEFAULT=2000
UPDATES=${UPDATES:-$DEFAULT}
number_from --updates 20 1000000 "$UPDATES"
ALL=(plain order growth units back dual pretraining together)
[[ ${NAMES[*]} != all ]] || NAMES=("${ALL[@]}")
for GROUP in "${NAMES[@]}"; do
    [[ " ${ALL[*]} " == *" $GROUP "* ]] || die "there is no GROUP '$GROUP' (see --help)"
done
need python3 fairseq-train awk
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} CUDA_VISIBLE_DEVICES=''
BASE=$(realpath -m -- "${OUT:-$ROOT/output/few_pairs}")
OUT=$BASE/$TEXT
RAW=$OUT/raw DATA=$OUT/data RUNS=$OUT/runs
FURTHER=$((2 * UPDATES / 5))
ON_INTERRUPT=resume

# The lines of FILE whose number fulfils an awk CONDITION, to STDOUT.
lines() {
    awk "$1" "$2"
}

# Set S, T, MODEL and PREPARE, and write RAW/pairs and RAW/mono.
prepare_text() {
    local side
    mkdir -p -- "$RAW" "$RUNS"
    if [[ $TEXT == multi30k ]]; then
        S=en T=de MODEL=()
        run python3 "$ROOT/examples/multi30k/fetch.py" "$BASE/text"
        for side in en de; do
            lines 'NR <= 5000' "$BASE/text/train.lc.norm.tok.$side" >"$RAW/pairs.$side"
            lines 'NR > 5000' "$BASE/text/train.lc.norm.tok.$side" >"$RAW/mono.$side"
        done
        PREPARE=(--lowercase --pretokenized --max-len 0 --valid "$BASE/text/val.lc.norm.tok" --raw-valid "$BASE/text/val"
            --test "$BASE/text/test_2016_flickr.lc.norm.tok" --raw-test "$BASE/text/test_2016_flickr")
    else
        # Of two seeds with post-norm, one learned nothing in 1,500 updates.
        S=de T=en MODEL=("encoder-norm: pre" "decoder-norm: pre" "dropout: 0.1")
        OUT=$BASE/corpus run "$ROOT/examples/libreoffice/run.sh" de --text
        for side in de en; do
            lines 'NR % 2 == 1' "$BASE/corpus/de/clean.$side" >"$RAW/pairs.$side"
            lines 'NR % 2 == 0' "$BASE/corpus/de/clean.$side" >"$RAW/mono.$side"
        done
        PREPARE=(--valid "$BASE/corpus/de/text/valid" --test "$BASE/corpus/de/text/test")
    fi
    preprocess "$DATA" --bpe-merges 4000
    for side in "$S" "$T"; do
        run deepnmt binarise --like "$DATA" --mono "$RAW/mono" --lang "$side" --drop-overlap --dest "$OUT/mono-$side"
    done
}

preprocess() {
    run deepnmt preprocess --source-lang "$S" --target-lang "$T" --train "$RAW/pairs" "${PREPARE[@]}" --dest "$@"
}

# NAME BASE [LINE...]: write the recipe NAME, which has BASE's method, the study's sizes, and further lines. These win;
# "-" leaves an option out.
recipe() {
    mkdir -p -- "$OUT/recipes"
    {
        cat <<YAML
extends: $ROOT/configs/$2.yaml
max-tokens: 2048
batches-per-update: 1
lr: 0.003
lr-scheduler: inverse_sqrt_reset
warmup-updates: $((UPDATES / 5))
max-update: $UPDATES
cooldown-updates: $((UPDATES / 3))
validate-interval-updates: $((UPDATES / 10))
save-interval-updates: $((UPDATES / 10))
keep-interval-updates: 1
keep-last-epochs: -1
no-epoch-checkpoints: true
validate-interval: 100000
patience: -1
eval-bleu: false
YAML
        printf '%s\n' "${MODEL[@]}" "${@:3}"
    } | tac | awk -F: '!known[$1]++ && !/: -$/' >"$OUT/recipes/$1.yaml"
}

# DATA NAME[,NAME...]: train these recipes, and translate and score the SUBSET.
measure() {
    local names=() each
    IFS=, read -ra names <<<"$2"
    for each in "${!names[@]}"; do names[each]=$OUT/recipes/${names[each]}.yaml; done
    run deepnmt seeds "$(IFS=,; printf '%s' "${names[*]}")" "$1" "$RUNS" --seeds "${3:-1}" --last 1 --subset "$SUBSET"
}

# NAME DATA [OPTION...]: train a recipe that is no translation model to the end, and set LAST to its last checkpoint.
train() {
    LAST=$RUNS/$1/seed1/checkpoints/checkpoint_last.pt
    run deepnmt train "$OUT/recipes/$1.yaml" "$2" "$(dirname "$LAST")" "${@:3}"
}

# FOLDER: translate the SUBSET by the FOLDER's average.pt, and score it.
translate() {
    [[ -f $1/$SUBSET/scores.json ]] || {
        run deepnmt generate "$1/average.pt" "$DATA" "$1/$SUBSET" --subset "$SUBSET"
        run deepnmt score "$1/$SUBSET"
    }
}

plain() {
    recipe plain multi30k/short
    measure "$DATA" plain 1,2,3
}

order() {
    recipe competence order/competence "competence-updates: $((UPDATES / 3))"
    recipe sample_share order/sample_share
    recipe random_batches order/random_batches
    recipe l2 order/penalty
    recipe l1 order/penalty "l2: 0" "l1: 0.000001"
    recipe transparent multi30k/short "encoder-groups: transparent"
    measure "$DATA" competence,sample_share,random_batches,l2,l1,transparent
}

# NAME [LINE...]: train two encoder layers, then four, each for half of the updates.
grow() {
    local folder=$RUNS/$1/seed1 half=$((UPDATES / 2))
    local place=$folder/update$UPDATES.last1
    recipe "$1" multi30k/short "max-update: -" \
        "stages: [{encoder-layers: 2, max-update: $half}, {encoder-layers: 4, max-update: $UPDATES}]" "${@:2}"
    run deepnmt train-progressive "$OUT/recipes/$1.yaml" "$DATA" "$folder/stages"
    mkdir -p -- "$place"
    ln -sfn stages/stage-2-4 "$folder/checkpoints"
    [[ -f $place/average.pt ]] || run deepnmt average "$folder/checkpoints" "$place/average.pt" --last 1
    translate "$place"
}

growth() {
    grow grown
    grow frozen "freeze: old"
}

units() {
    preprocess "$OUT/unigram" --subwords unigram --vocabulary 4000
    recipe unigram multi30k/short
    recipe unigram_sampling order/unigram_sampling
    measure "$OUT/unigram" unigram,unigram_sampling
}

back() {
    recipe reverse multi30k/short "source-lang: $T" "target-lang: $S"
    train reverse "$DATA"
    run deepnmt synthesise back "$LAST" "$DATA" "$OUT/mono-$T" "$OUT/back" --max-ratio 3
    run deepnmt mix "$OUT/mixed" "$DATA" "$OUT/back"
    recipe back multi30k/short
    recipe set_weights order/set_weights
    measure "$OUT/mixed" back,set_weights
}

# Set FORWARD to the model of the pairs alone.
forward() {
    FORWARD=("$RUNS"/plain/seed1/update*/average.pt)
    [[ -f ${FORWARD[0]} ]] || die "the group plain has not been run"
}

# NAME [OPTION...]: train two models from those of both directions, and translate with the forward one.
both() {
    local place
    recipe "$1" "dual/$1" "lr: 0.0005" "lr-scheduler: fixed" "warmup-updates: 0" "cooldown-updates: -" \
        "max-update: $FURTHER"
    train "$1" "$DATA" --fwd-from "${FORWARD[0]}" \
        --bwd-from "$RUNS/reverse/seed1/checkpoints/checkpoint_last.pt" "${@:2}"
    place=$RUNS/$1/seed1/update$FURTHER.last1
    mkdir -p -- "$place"
    [[ -f $place/average.pt ]] || run deepnmt split "$LAST" "$place/average.pt" "$place/reverse.pt"
    translate "$place"
}

dual() {
    local side
    forward
    for side in "$S" "$T"; do
        run deepnmt ngram train "$DATA/text/train.bpe.$side" "$OUT/$side.arpa"
    done
    [[ -f $OUT/marginals.tsv ]] ||
        run deepnmt marginals "$DATA" "$OUT/marginals.tsv" --source-lm "$OUT/$S.arpa" --target-lm "$OUT/$T.arpa"
    LM=$RUNS/source_lm/seed1/checkpoints
    run deepnmt train-lm "$DATA" "$LM" --lang "$S" --train mono --text "$OUT/mono-$S" --max-update "$UPDATES" \
        --warmup-updates $((UPDATES / 5)) --max-tokens 2048 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256
    both supervised --marginals "$OUT/marginals.tsv"
    both on_the_fly --mono "$OUT/mono-$T"
    both policy_gradient --mono "$OUT/mono-$T" --source-lm "$LM/checkpoint_last.pt"
    # What the same number of further updates gives alone.
    recipe continued tiny "finetune-from-model: ${FORWARD[0]}" "lr: 0.0005" \
        "lr-scheduler: fixed" "warmup-updates: 0" "cooldown-updates: -" "max-update: $FURTHER"
    recipe language_model dual/language_model "mono: $OUT/mono-$T"
    measure "$DATA" continued,language_model
}

# NAME PART...: a start with these parts of the LAST training.
graft() {
    [[ $OUT/$1.pt -nt $LAST ]] || {
        rm -f -- "$OUT/$1.pt"
        run deepnmt graft "$LAST" "${@:2}" "$OUT/$1.pt"
    }
}

pretraining() {
    local side
    for side in "$S" "$T"; do
        [[ -f $OUT/$side.vec ]] ||
            run deepnmt embeddings "$DATA:$OUT/mono-$side" "$OUT/$side.vec" --lang "$side" --width 128
    done
    recipe untied multi30k/short "share-all-embeddings: false"
    recipe embeddings multi30k/short "share-all-embeddings: false" "encoder-embed-path: $OUT/$S.vec" \
        "decoder-embed-path: $OUT/$T.vec"
    recipe banded multi30k/short "share-all-embeddings: false" "encoder-embedding-cutoffs: 1000,2000"
    recipe masked_encoder pretraining/masked_encoder
    train masked_encoder "$DATA:$OUT/mono-$S"
    recipe fused pretraining/fused "fused-encoder: $LAST"
    graft masked encoder
    recipe masked multi30k/short "finetune-from-model: $OUT/masked.pt"
    recipe mass_text pretraining/mass
    train mass_text "$DATA:$OUT/mono-$S:$OUT/mono-$T"
    graft mass encoder decoder
    recipe mass multi30k/short "finetune-from-model: $OUT/mass.pt"
    measure "$DATA" untied,embeddings,banded,masked,fused,mass
}

together() {
    [[ -d $OUT/mixed && -f $OUT/masked.pt ]] || die "the groups back and pretraining have not been run"
    recipe together multi30k/short "finetune-from-model: $OUT/masked.pt"
    measure "$OUT/mixed" together
}

prepare_text
for GROUP in "${NAMES[@]}"; do
    "$GROUP"
done
run python3 "$ROOT/examples/few_pairs/gains.py" "$RUNS" "$SUBSET" "$OUT/$SUBSET.md"
