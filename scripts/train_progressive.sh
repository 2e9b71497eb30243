#!/usr/bin/env bash
# Progressive training: train a shallow model first, then grow and train it, stage by stage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: train_progressive.sh RECIPE DATA SAVE [fairseq-train options]

Runs all the stages of a recipe: trains the first, and for each other one grows the last checkpoint of the stage before
into a deeper model, puts the learning rate back to its peak, and trains that. All stages are checked before the first one
starts. It can be stopped at any moment, in a stage or between two; run the same command again to resume, with the same
result. Neither another recipe nor data that was made anew with other text or subwords is taken for the same.

  RECIPE     YAML file with a list of stages, such as those under configs/progressive/
  DATA       folder made by preprocess.sh; DATA0:DATA1:... are trained on in turn, an epoch each, where the first one
             has the dictionaries and the validation text of all
  SAVE       folder for all that is made:
               stage-N-DEPTH/   checkpoints, train.log, translations of the validation set (valid/), stage.json
               stages.tsv       a line a stage: depth, updates, best validation by best-checkpoint-metric, BLEU
               tensorboard/     one curve over all stages
  options    of fairseq-train, which win over the recipe's in every stage, such as --seed 2

environment:
  CUDA_VISIBLE_DEVICES   the GPUs to use, as in '0,1'; empty: none
  OMP_NUM_THREADS        threads on the CPU (default: one per core)

example:
  scripts/train_progressive.sh configs/progressive/multi30k.yaml data/multi30k checkpoints/multi30k/progressive
HELP
}

for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        exit 0
    fi
done
[[ $# -ge 3 ]] || die "RECIPE, DATA and SAVE must be given (see --help)"
RECIPE=$1 DATA=$2 SAVE=${3%/}
shift 3
[[ -f $RECIPE ]] || die "RECIPE must be a file, but there is no '$RECIPE'"
# In a path of checkpoints, a colon begins the next one.
[[ $SAVE != *[,:]* ]] || die "SAVE must be without commas and colons, but is '$SAVE'"
IFS=: read -r -a FOLDERS <<<"$DATA"
for FOLDER in "${FOLDERS[@]}"; do
    [[ -d $FOLDER ]] || die "DATA must be a folder made by preprocess.sh, but there is no '$FOLDER'"
done
need python3 fairseq-train fairseq-generate flock column

ON_INTERRUPT="resume with the first stage that is not done"
# Before the recipes of the stages are written; what is refused makes no new folder.
hold "$SAVE" SAVE
TMP=$(mktemp)
PYTHONSAFEPATH=1 python3 -m deepnmt.progressive "$RECIPE" "$SAVE" --data="$DATA" "$@" >"$TMP"
mapfile -t STAGES <"$TMP"
hold "$SAVE" SAVE

N=0
for STAGE in "${STAGES[@]}"; do
    N=$((N + 1))
    read -r NAME AVERAGE SEARCH <<<"$STAGE"
    read -r -a SEARCH <<<"$SEARCH"
    FOLDER=$SAVE/$NAME
    if [[ -f $FOLDER/stage.json ]]; then
        echo "stage $N of ${#STAGES[@]} is done: $FOLDER"
        continue
    fi
    # Remove the half-written files of a killed command.
    rm -rf -- "$SAVE"/*.tmp* "$FOLDER"/*.tmp* "$FOLDER"/valid.*
    if [[ $N -gt 1 && ! -f $FOLDER/checkpoint_last.pt ]]; then
        LOG=$FOLDER/train.log
        PYTHONSAFEPATH=1 run python3 -m deepnmt.progressive "$RECIPE" "$SAVE" --grow-to "$N" "$@"
        LOG=
    fi
    run "$ROOT/scripts/train.sh" "$FOLDER/recipe.yaml" "$DATA" "$FOLDER" --tensorboard-logdir "$SAVE/tensorboard" "$@"

    SCORED=checkpoint_best.pt
    if [[ $AVERAGE -gt 0 ]]; then
        # A short stage may have fewer; at least the last one is there.
        FOUND=$(find "$FOLDER" -name 'checkpoint[0-9]*.pt' -o -name 'checkpoint_[0-9]*.pt' | wc -l)
        SCORED=average.pt
        run "$ROOT/scripts/average.sh" "$FOLDER" "$FOLDER/$SCORED" --last \
            "$((FOUND == 0 ? 1 : FOUND < AVERAGE ? FOUND : AVERAGE))"
    elif [[ ! -f $FOLDER/$SCORED ]]; then
        SCORED=checkpoint_last.pt
    fi
    run "$ROOT/scripts/generate.sh" "$FOLDER/$SCORED" "${FOLDERS[0]}" "$FOLDER/valid" --subset valid "${SEARCH[@]}"
    run "$ROOT/scripts/score.sh" "$FOLDER/valid" "${FOLDERS[0]}"
    run python3 "$ROOT/scripts/note_stage.py" "$FOLDER" "$SCORED"
done
column -t -s "$(printf '\t')" -- "$SAVE/stages.tsv"
echo "$SAVE is ready"
