#!/usr/bin/env bash
# What should I deploy? Students of a teacher, and one table of their BLEU and speed.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

usage() {
    cat <<'HELP'
usage: run.sh TEACHER DATA [--recipes NAME,NAME,...] [--last N] [--engine torch|onnx] [--check N] [--repetitions N]
              [--test] [fairseq-train options]

Makes distilled text from a teacher and trains students on it. Each is exported in float32 and int8, with and without
shortlists; the check of each export compares its BLEU on validation with the checkpoint's. OUT/table.md then has BLEU
and sentences per second of all of them, by greedy search and with a beam of 5, and OUT/speed.svg is its picture. The
command can be stopped at any moment; run it again to resume.

  TEACHER          checkpoint, several with colons between them, or a folder of examples/multi30k/best.sh, such as
                   output/multi30k/best, for its best result on validation
  DATA             folder of the teacher's training, made by deepnmt preprocess, such as output/multi30k/data
  --recipes NAME,NAME,...  students, of configs/synthetic; the first one is what speed is compared with (default:
                   full_4_4,ssru_4_1,ssru_6_1,ssru_12_1,ssru_12_2,ssru_24_2). For the text of the depth study, the same
                   names with help_ before them
  --last N         checkpoints of a student's average (default: 10)
  --engine ENGINE  of the exported models (default: torch)
  --check N        validation pairs of the check of an export (default: 1014)
  --repetitions N  measurements of each speed (default: 3)
  --test           at the end, also translate the test set with the models that no other one beats in both BLEU and
                   speed on validation, and keep these scores: once
  options          of fairseq-train, which win over the recipes'

On a CPU with AVX-512 BF16, expect about 7 core hours for Multi30k, by the speed of earlier trainings: 0.3 for the
distilled text, 0.5 to 1.7 for each student, and 0.5 for exports and speed. With --max-update 2000 --cooldown-updates 700
the students take two thirds of that. Speed is measured with one thread; the machine should be idle.

environment:
  OUT              folder for everything that is made (default: output/small_models)

example:
  examples/small_models/run.sh output/multi30k/best output/multi30k/data --test
HELP
}

RECIPES=full_4_4,ssru_4_1,ssru_6_1,ssru_12_1,ssru_12_2,ssru_24_2
LAST=10 ENGINE=torch CHECK=1014 REPETITIONS=3 TEST=() OPTIONS=() POSITIONAL=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --recipes) RECIPES=$(value "$@"); shift ;;
        --last) LAST=$(value "$@"); shift ;;
        --engine) ENGINE=$(value "$@"); shift ;;
        --check) CHECK=$(value "$@"); shift ;;
        --repetitions) REPETITIONS=$(value "$@"); shift ;;
        --test) TEST=(--test) ;;
        -h | --help) usage; exit 0 ;;
        -*) OPTIONS=("$@"); break ;;
        *) POSITIONAL+=("$1") ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -eq 2 ]] || die "TEACHER and DATA must be given (see --help)"
TEACHER=${POSITIONAL[0]} DATA=${POSITIONAL[1]}
[[ $ENGINE == torch || $ENGINE == onnx ]] || die "--engine must be torch or onnx, but is '$ENGINE'"
number_from --last 1 1000 "$LAST"
number_from --check 1 1000000 "$CHECK"
number_from --repetitions 1 100 "$REPETITIONS"
IFS=, read -ra NAMES <<<"$RECIPES"
for NAME in "${NAMES[@]}"; do
    [[ -f $ROOT/configs/synthetic/$NAME.yaml ]] || die "--recipes must be names under configs/synthetic, but has '$NAME'"
done
need python3 fairseq-train
OUT=${OUT:-$ROOT/output/small_models}
ON_INTERRUPT=resume
if [[ -d $TEACHER ]]; then
    TEACHER=$(python3 "$ROOT/examples/multi30k/choices.py" best checkpoint "$TEACHER"/results/*)
fi

# What is done already is not done again for other options.
BEGUN="--last $LAST --engine $ENGINE --check $CHECK --repetitions $REPETITIONS"
[[ ! -f $OUT/options || $(<"$OUT/options") == "$BEGUN" ]] || die "OUT, $OUT, was begun with $(<"$OUT/options")"
mkdir -p -- "$OUT/models"
printf '%s\n' "$BEGUN" >"$OUT/options"
run deepnmt synthesise distil "$TEACHER" "$DATA" "$OUT/distilled" --nbest 5 --closest
run deepnmt align "$DATA" "$OUT/aligned" --subwords --lexicon
for NAME in "${NAMES[@]}"; do
    SAVE=$OUT/checkpoints/$NAME
    run deepnmt train "$ROOT/configs/synthetic/$NAME.yaml" "$OUT/distilled" "$SAVE" "${OPTIONS[@]}"
    [[ $SAVE/average.pt -nt $SAVE/checkpoint_last.pt ]] || run deepnmt average "$SAVE" "$SAVE/average.pt" --last "$LAST"
    for WEIGHTS in float32 int8; do
        for LIST in '' .list; do
            MODEL=$OUT/models/$NAME.$WEIGHTS$LIST LISTED=()
            [[ -z $LIST ]] || LISTED=(--shortlist 1000 --lexicon "$OUT/aligned/lexicon.forward.tsv")
            [[ $MODEL/model.json -nt $SAVE/average.pt ]] || run deepnmt export "$SAVE/average.pt" "$DATA" "$MODEL" \
                --engine "$ENGINE" --weights "$WEIGHTS" --check "$CHECK" --allow-loss "${LISTED[@]}"
        done
    done
done
PYTHONPATH=$ROOT/benchmarks:$PYTHONPATH run python3 "$ROOT/examples/small_models/speed_table.py" "$OUT" "$DATA" \
    --models "$RECIPES" --repetitions "$REPETITIONS" "${TEST[@]}"
