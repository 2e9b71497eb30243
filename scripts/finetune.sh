#!/usr/bin/env bash
# Train a model further on other data, such as pairs that are like what it is to translate.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: finetune.sh CHECKPOINT DATA SAVE [--old DATA0] [fairseq-train options]

Trains the model of CHECKPOINT further on DATA: its sizes, rules and label smoothing are those of the checkpoint, the
rate is fixed and small (--lr 0.0001), and so are the batches (--max-tokens 1024), for at most 5 epochs. Adam begins
anew. It can be stopped at any moment; run the same command again to resume from the last checkpoint in SAVE. A SAVE
that was begun with another CHECKPOINT, with this one before it was replaced, or without any, is refused.

  CHECKPOINT     the model, such as average.sh makes it
  DATA           data folder with the dictionaries of the model, such as select.sh makes it; its validation set, which is
                 then still that of the whole text, chooses the best checkpoint
  SAVE           folder for the checkpoints, train.log, recipe.yaml, and finetune.json, which says what it began with
  --old DATA0    validate on DATA0's validation set as well, as 'old', where DATA has one of its own: how much of what the
                 model could do before is lost
  options        of fairseq-train, such as --lr 0.00005, --max-epoch 3 or --pair-weights FILE; they win over the recipe's

example:
  scripts/finetune.sh checkpoints/de-en/average.pt data/de-en-news checkpoints/de-en-news
HELP
}

OLD='' POSITIONAL=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --old) OLD=$(value "$@"); shift ;;
        --finetune-from-model | --finetune-from-model=*) die "$1 cannot be used here: CHECKPOINT is what it names" ;;
        -h | --help) usage; exit 0 ;;
        *) sort_argument "$1" ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -eq 3 ]] || die "CHECKPOINT, DATA and SAVE must be given, before any option (see --help)"
CHECKPOINT=${POSITIONAL[0]} DATA=${POSITIONAL[1]%/} SAVE=${POSITIONAL[2]%/}
need python3 fairseq-train

RESUMED=$SAVE
mkdir -p -- "$SAVE"
# Before the recipe is written.
hold "$SAVE" SAVE
python3 "$ROOT/scripts/finetune.py" recipe "$CHECKPOINT" "$DATA" "$SAVE/recipe.yaml"
VALIDATED=()
if [[ -n $OLD ]]; then
    python3 "$ROOT/scripts/finetune.py" data "$DATA" "${OLD%/}" "$SAVE/data"
    DATA=$SAVE/data VALIDATED=(--valid-subset 'valid,old')
fi
# fairseq starts from CHECKPOINT where SAVE has no checkpoint yet.
run "$ROOT/scripts/train.sh" "$SAVE/recipe.yaml" "$DATA" "$SAVE" --finetune-from-model "$CHECKPOINT" \
    "${VALIDATED[@]}" "${OPTIONS[@]}"
