#!/usr/bin/env bash
# English to German on Multi30k with glossaries: right translations of terms, wrong ones, and words that no text has.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: glossary.sh SUBSET [fairseq-train options]

Trains one model on pairs with inline targets for half of the training text, takes terms from the lexicons of that text,
and translates SUBSET, valid or test, without a glossary and with three: each term's usual translation, another term's,
and a made-up word. It can be stopped at any moment; run the same command again to resume.

  options    of fairseq-train, which win over those of configs/multi30k/short.yaml

environment:
  MULTI30K_DIR, OUT   as for run.sh
  LEAST               probability of a term's translation, in each direction (default: 0.8)

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/glossary.sh valid --max-update 2400 --cooldown-updates 800
HELP
}

help_first "$@"
[[ ${1:-} == valid || ${1:-} == test ]] || die "SUBSET must be valid or test, but is '${1:-}'"
SUBSET=$1
shift
need python3 fairseq-train
ON_INTERRUPT="resume"
HERE=$OUT/glossary SHORT=lc.norm.tok TERMS=$ROOT/examples/multi30k/glossaries.py

run python3 "$ROOT/examples/multi30k/fetch.py" "$OUT/text"
run "$ROOT/scripts/preprocess.sh" --source-lang en --target-lang de --dest "$HERE/data" --bpe-merges 10000 \
    --lowercase --pretokenized --max-len 0 --glossary-training 0.5 --train "$OUT/text/train.$SHORT" \
    --valid "$OUT/text/val.$SHORT" --raw-valid "$OUT/text/val" \
    --test "$OUT/text/test_2016_flickr.$SHORT" --raw-test "$OUT/text/test_2016_flickr"
run "$ROOT/scripts/align.sh" "$HERE/data" "$HERE/aligned" --lexicon
run python3 "$TERMS" make "$HERE/aligned" "$HERE/data/text/train.tok.en" "$HERE/right.tsv" --least "${LEAST:-0.8}"
run python3 "$TERMS" wrong "$HERE/right.tsv" "$HERE/wrong.tsv"
run python3 "$TERMS" unseen "$HERE/right.tsv" "$HERE/unseen.tsv"
train_noted "$ROOT/configs/multi30k/short.yaml" "$HERE/data" "$HERE/checkpoints" --validate-interval 4 "$@"
choose "$HERE/checkpoints" "$HERE/data" "$HERE/results"
score_subset "$CHOSEN" "$HERE/data" "$SUBSET" "$HERE/results/$SUBSET"
for name in right wrong unseen; do
    score_subset "$CHOSEN" "$HERE/data" "$SUBSET" "$HERE/results/$SUBSET.$name" --glossary "$HERE/$name.tsv"
done
run python3 "$TERMS" table "$HERE/results" "$SUBSET"
