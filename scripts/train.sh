#!/usr/bin/env bash
# Train the model of a recipe.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: train.sh RECIPE DATA SAVE [fairseq-train options]

Trains the model of a recipe: on all visible GPUs with FP16, or on the CPU where there is none. It can be stopped
at any moment; the same command goes on from the last checkpoint in SAVE.

  RECIPE     YAML file under configs/, one fairseq option a key
  DATA       folder made by preprocess.sh
  SAVE       folder for the checkpoints and train.log
  options    of fairseq-train, which win over the recipe's, such as --max-update 1000 or --seed 2

environment:
  CUDA_VISIBLE_DEVICES   the GPUs to use, as in '0,1'; empty: none
  OMP_NUM_THREADS        threads on the CPU (default: one per core)

example:
  scripts/train.sh configs/demo.yaml data/demo checkpoints/demo --max-update 500
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage
    exit 0
fi
[[ $# -ge 3 ]] || die "RECIPE, DATA and SAVE must be given (see --help)"
RECIPE=$1 DATA=$2 SAVE=$3
shift 3
[[ -f $RECIPE ]] || die "RECIPE must be a file, but there is no '$RECIPE'"
[[ -d $DATA ]] || die "DATA must be a folder made by preprocess.sh, but there is no '$DATA'"
need python3 fairseq-train

ON_INTERRUPT="go on from the last checkpoint in $SAVE"
TMP=$(mktemp)
PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} python3 -m deepnmt.recipe "$RECIPE" "$@" >"$TMP"
mapfile -d '' -t OPTIONS <"$TMP"

if [[ $(python3 -c 'import torch; print(torch.cuda.is_available())') == True ]]; then
    case " $* " in
        *' --bf16 '* | *' --amp '* | *' --fp16 '* | *' --memory-efficient-'*) ;;
        *) OPTIONS+=(--fp16) ;;
    esac
else
    OPTIONS+=(--cpu)
    # Keep freed memory instead of returning it to the kernel with every large tensor: a fifth less time a step.
    export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 MALLOC_TOP_PAD_=100000000
fi

mkdir -p -- "$SAVE"
LOG=$SAVE/train.log
run fairseq-train "$DATA" --user-dir "$ROOT/deepnmt" --save-dir "$SAVE" --skip-invalid-size-inputs-valid-test \
    "${OPTIONS[@]}"
