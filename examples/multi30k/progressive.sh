#!/usr/bin/env bash
# English to German on Multi30k with a model that grows: text, all stages, and scores.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: progressive.sh [RECIPE] [fairseq-train options]

Takes a recipe with stages from text to scores on Multi30k task 1, English to German: data as run.sh makes it, all stages
by train_progressive.sh, each with its BLEU on validation, and test 2016 by the last one with beam 5. It can be stopped at
any moment; run the same command again to resume. Two cores take an hour or two.

  RECIPE     one of configs/progressive (default: multi30k, 6 -> 12 -> 24 layers), or a YAML file
  options    of fairseq-train, which win over the recipe's in every stage, such as --seed 2

environment:
  MULTI30K_DIR   as for run.sh
  OUT            folder for everything that is made (default: output/multi30k)

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/progressive.sh multi30k_plain
HELP
}

help_first "$@"
RECIPE=multi30k
if [[ $# -gt 0 && $1 != -* ]]; then
    RECIPE=$1
    shift
fi
[[ -f $RECIPE ]] || RECIPE=$ROOT/configs/progressive/$RECIPE.yaml
[[ -f $RECIPE ]] || die "RECIPE must be one of configs/progressive or a file, but is '$(basename "$RECIPE" .yaml)'"
need python3 fairseq-train

NAME=$(basename "$RECIPE" .yaml)
SAVE=$OUT/progressive/$NAME
ON_INTERRUPT="resume"

prepare_data
run "$ROOT/scripts/train_progressive.sh" "$RECIPE" "$DATA" "$SAVE" "$@"
# The last line of the table is the last stage, its number and depth first.
read -r NUMBER DEPTH _ < <(tail -n 1 "$SAVE/stages.tsv")
STAGE=$SAVE/stage-$NUMBER-$DEPTH
CHECKPOINT=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1], "rb"))["checkpoint"])' "$STAGE/stage.json")
score_test "$STAGE/$CHECKPOINT" "$OUT/results/progressive/$NAME/test"
