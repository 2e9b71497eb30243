#!/usr/bin/env bash
# Train a language model on one side of a data folder, for --lm-path.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: train_lm.sh DATA SAVE --lang LANG [--recipe RECIPE] [--train SUBSET] [--valid SUBSET] [--text DATA2]
                   [fairseq-train options]

Trains fairseq's transformer_lm on one language of DATA, a folder made by preprocess.sh or binarise.sh, and validates
it on that language's side of the validation set. It can be stopped at any moment; run the same command again to resume.

  --lang LANG       the language to model: the target language of the translations that it is to help with
  --recipe RECIPE   YAML file, one fairseq option a key (default: configs/language_model.yaml)
  --train SUBSET    the subset to train on (default: train), such as the 'mono' of binarise.sh --mono
  --valid SUBSET    the subset to validate on (default: valid)
  --text DATA2      the folder that has the subset of --train, if it is not DATA; its dictionary must be the same

All other options go to fairseq-train and win over the recipe's. SAVE gets the checkpoints, train.log, data/ (links to
DATA under the names that fairseq wants), and dict.txt, the dictionary of the language, beside the checkpoints.

example:
  scripts/train_lm.sh data/de-en checkpoints/lm --lang en
  scripts/generate.sh checkpoints/de-en/average.pt data/de-en results/fused \
      --lm-path checkpoints/lm/checkpoint_best.pt --lm-weight 0.2
HELP
}

LANGUAGE='' RECIPE=$ROOT/configs/language_model.yaml TRAIN=train VALID=valid TEXT='' POSITIONAL=() OPTIONS=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --lang) LANGUAGE=$(value "$@"); shift ;;
        --recipe) RECIPE=$(value "$@"); shift ;;
        --train) TRAIN=$(value "$@"); shift ;;
        --valid) VALID=$(value "$@"); shift ;;
        --text) TEXT=$(value "$@"); shift ;;
        -h | --help) usage; exit 0 ;;
        *)
            if [[ $1 != -* && ${#POSITIONAL[@]} -lt 2 && ${#OPTIONS[@]} -eq 0 ]]; then
                POSITIONAL+=("$1")
            else
                OPTIONS+=("$1")
            fi
            ;;
    esac
    shift
done
[[ ${#POSITIONAL[@]} -eq 2 ]] || die "DATA and SAVE must be given, before any option of fairseq-train (see --help)"
[[ -n $LANGUAGE ]] || die "--lang must be given"
DATA=${POSITIONAL[0]%/} SAVE=${POSITIONAL[1]%/}
[[ -f $RECIPE ]] || die "--recipe must be a file, but there is no '$RECIPE'"
need python3 fairseq-train

RESUMED=$SAVE
run python3 "$ROOT/scripts/language_model_data.py" "$DATA" "$SAVE" --lang "$LANGUAGE" \
    --train "$TRAIN" --valid "$VALID" --text "${TEXT:-$DATA}"
run "$ROOT/scripts/train.sh" "$RECIPE" "$SAVE/data" "$SAVE" "${OPTIONS[@]}"
