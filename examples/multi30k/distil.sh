#!/usr/bin/env bash
# English to German on Multi30k with a small student of a larger teacher: text, all trainings, scores and speed.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: distil.sh [fairseq-train options]

Trains a teacher (configs/multi30k/short.yaml) on Multi30k task 1, and students with one decoder layer
(configs/synthetic/student.yaml) on the real pairs, on the teacher's translations, on those of its five best that are
closest to the references, and on the real pairs together with the translations; translates validation and test 2016
greedily and with a beam of 5. It can be stopped at any moment; run the same command again to resume.

  options    of fairseq-train, which win over the recipes'

environment:
  MULTI30K_DIR, OUT   as for run.sh
  TEACHER             checkpoint of a teacher to take instead, trained on OUT/data
  SEED                of the students, each seed in folders of its own (default: 1)

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/distil.sh
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage
    exit 0
fi
need python3 fairseq-train
ON_INTERRUPT="resume"
SEED=${SEED:-1}
number_from SEED 1 1000000 "$SEED"
OPTIONS=("$@")
HERE=$OUT/distilled

prepare_data
mkdir -p -- "$HERE/pairs"
CHOSEN=${TEACHER:-}
if [[ -z $CHOSEN ]]; then
    SAVE=$HERE/checkpoints/teacher
    run "$ROOT/scripts/train.sh" "$ROOT/configs/multi30k/short.yaml" "$DATA" "$SAVE" "${OPTIONS[@]}"
    choose "$SAVE" "$DATA" "$HERE/results/teacher"
fi
TEACHER=$CHOSEN
score_subset "$TEACHER" "$DATA" test "$HERE/results/teacher/test"
score_subset "$TEACHER" "$DATA" test "$HERE/results/teacher/test.greedy" --beam 1

for row in real distilled closest both; do
    TEXT=$HERE/pairs/$row
    case $row in
        real) TEXT=$DATA ;;
        distilled) run "$ROOT/scripts/synthesise.sh" distil "$TEACHER" "$DATA" "$TEXT" ;;
        closest) run "$ROOT/scripts/synthesise.sh" distil "$TEACHER" "$DATA" "$TEXT" --nbest 5 --closest ;;
        both) run "$ROOT/scripts/mix.sh" "$TEXT" "$DATA" "$HERE/pairs/distilled" ;;
    esac
    SAVE=$HERE/checkpoints/seed-$SEED/$row RESULT=$HERE/results/seed-$SEED/$row
    run "$ROOT/scripts/train.sh" "$ROOT/configs/synthetic/student.yaml" "$TEXT" "$SAVE" "${OPTIONS[@]}" --seed "$SEED"
    choose "$SAVE" "$DATA" "$RESULT"
    score_subset "$CHOSEN" "$DATA" test "$RESULT/test"
    score_subset "$CHOSEN" "$DATA" test "$RESULT/test.greedy" --beam 1
    printf '%s\n' "$CHOSEN" >"$RESULT/chosen"
done
python3 "$ROOT/examples/multi30k/rows.py" "$HERE/results" | column -t -s "$(printf '\t')"
