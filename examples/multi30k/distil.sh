#!/usr/bin/env bash
# English to German on Multi30k with a small student of a larger teacher: text, all trainings, scores and speed.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/multi30k/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=examples/multi30k/long.sh
source "$(dirname "${BASH_SOURCE[0]}")/long.sh"

usage() {
    cat <<'HELP'
usage: distil.sh [ROW]... [fairseq-train options]

Trains a teacher (configs/multi30k/short.yaml) on Multi30k task 1, and students with one decoder layer
(configs/synthetic/student.yaml). Average and length penalty are chosen by BLEU on validation, with a beam of 5; test
2016 is translated with the choice, and greedily. It can be stopped at any moment; run the same command again to resume.

  ROW        what students learn from (default: all):
    real       the real pairs
    distilled  the teacher's translations of the training text
    closest    of its five best translations, the closest to the reference
    both       the real pairs and the teacher's translations
  options    of fairseq-train, which win over the recipes'; a training that was begun with others is refused, but for a
             larger end

environment:
  MULTI30K_DIR, OUT   as for run.sh; results go to OUT/distilled, the text to OUT/best, as for best.sh
  TEACHER             checkpoint of a teacher to take instead, or several with colons between them as an ensemble, which
                      were trained on OUT/best/data-plain
  MERGES              of the BPE, as for best.sh; results with another number go to OUT/distilled-MERGES
  SEED                of the students, each seed in folders of its own (default: 1)

example:
  MULTI30K_DIR=~/multi30k examples/multi30k/distil.sh real distilled
HELP
}

sort_rows 'real distilled closest both' 'real distilled closest both' "$@"
OPTIONS=("${REST[@]}")
need column
ON_INTERRUPT="resume"

places en-de ''
HERE=$OUT/distilled${BASE#"$OUT/best"}
study_data
mkdir -p -- "$HERE/pairs"

# Translate the test set with the choice of a result, and greedily: score_both RESULT
score_both() {
    translate_test "$1"
    score_subset "${SETTING[0]}" "$PLAIN" test "$1/test.greedy" --beam 1
}

if [[ -n ${TEACHER:-} ]]; then
    translate "$TEACHER" "$PLAIN" "$HERE/results/teacher/given/test" --subset test
    translate "$TEACHER" "$PLAIN" "$HERE/results/teacher/given/test.greedy" --subset test --beam 1
else
    train short "$HERE/checkpoints/teacher/trained" "$PLAIN" --seed 1 "${OPTIONS[@]}"
    sweep teacher trained
    score_both "$HERE/results/teacher/trained"
    TEACHER=$(best checkpoint "$HERE/results/teacher/trained")
fi

for row in "${ROWS[@]}"; do
    TEXT=$HERE/pairs/$row
    case $row in
        real) TEXT=$PLAIN ;;
        distilled | both) run "$ROOT/scripts/synthesise.sh" distil "$TEACHER" "$PLAIN" "$HERE/pairs/distilled" ;;
        closest) run "$ROOT/scripts/synthesise.sh" distil "$TEACHER" "$PLAIN" "$TEXT" --nbest 5 --closest ;;
    esac
    [[ $row != both ]] || run "$ROOT/scripts/mix.sh" "$TEXT" "$PLAIN" "$HERE/pairs/distilled"
    train ../synthetic/student "$HERE/checkpoints/seed-$SEED/$row" "$TEXT" --seed "$SEED" "${OPTIONS[@]}"
    sweep "seed-$SEED" "$row"
    score_both "$HERE/results/seed-$SEED/$row"
done
python3 "$ROOT/examples/multi30k/rows.py" "$HERE/results" | column -t -s "$(printf '\t')"
