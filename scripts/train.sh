#!/usr/bin/env bash
# Train the model of a recipe.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: train.sh RECIPE DATA SAVE [fairseq-train options]

Trains the model of a recipe: on all visible GPUs with FP16, or on the CPU where there is none. It can be stopped
at any moment; run the same command again to resume from the last checkpoint in SAVE. A recipe's batches-per-update is
dealt out to all GPUs, so that an update sees the same sentences on 1, 2, 4 or 8 of them. See docs/distributed.md.

  RECIPE     YAML file under configs/, one fairseq option a key
  DATA       folder made by preprocess.sh; DATA0:DATA1:... are trained on in turn, an epoch each, where the first one
             has the dictionaries and the validation text of all
  SAVE       folder for the checkpoints and train.log
  options    of fairseq-train, which win over the recipe's, such as --max-update 1000 or --seed 2

environment:
  CUDA_VISIBLE_DEVICES   the GPUs to use, as in '0,1'; empty: none
  OMP_NUM_THREADS        threads on the CPU (default: one per core)
  PROCESSES              on this machine (default: one per visible GPU, or one); more than one on the CPU works too
  NODES                  machines that train together, each running this same command (default: 1)
  NODE                   number of this machine, from 0 (default: Slurm's)
  MASTER                 HOST:PORT of machine 0, where NODES is more than 1

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
need python3 fairseq-train

ON_INTERRUPT="resume from the last checkpoint in $SAVE"
TMP=$(mktemp)
GPUS=$(python3 -c 'import torch; print(torch.cuda.device_count())')
PROCESSES=${PROCESSES:-$((GPUS > 0 ? GPUS : 1))} NODES=${NODES:-1} NODE=${NODE:-${SLURM_NODEID:-}}
number_from PROCESSES 1 1024 "$PROCESSES"
number_from NODES 1 65536 "$NODES"
LAUNCH=(fairseq-train)
if [[ $NODES -gt 1 ]]; then
    [[ ${MASTER:-} =~ ^.+:[0-9]+$ ]] || die "MASTER must be HOST:PORT of machine 0, but is '${MASTER:-}'"
    [[ $NODE =~ ^[0-9]+$ && $NODE -lt $NODES ]] || die "NODE must be a number from 0 to $((NODES - 1)), but is '$NODE'"
    LAUNCH=(torchrun --nnodes "$NODES" --node-rank "$NODE" --master-addr "${MASTER%:*}" --master-port "${MASTER##*:}")
elif [[ $PROCESSES -gt 1 ]]; then
    LAUNCH=(torchrun --standalone)
fi
if [[ ${LAUNCH[0]} == torchrun ]]; then
    need torchrun
    LAUNCH+=(--nproc-per-node "$PROCESSES" "$(command -v fairseq-train)")
fi

# It also chooses --fp16 or --cpu where recipe and options leave that open.
python3 -m deepnmt.recipe "$RECIPE" --devices $((NODES * PROCESSES)) --gpus "$GPUS" "$@" >"$TMP"
mapfile -d '' -t OPTIONS <"$TMP"
python3 "$ROOT/scripts/check_data.py" "$DATA" "${OPTIONS[@]}"

mkdir -p -- "$SAVE"
LOG=$SAVE/train.log
if [[ $NODES -gt 1 && $NODE -gt 0 ]]; then
    LOG=$SAVE/train.node-$NODE.log
elif command -v flock >/dev/null; then
    # The training has the lock as long as it lives, which may be longer than this script.
    exec {LOCK}>"$SAVE/train.lock"
    flock --wait 10 "$LOCK" || die "SAVE must not be in use, but another training is still running in '$SAVE'"
fi
STATUS=0
run "${LAUNCH[@]}" "$DATA" --user-dir "$ROOT/deepnmt" --save-dir "$SAVE" --skip-invalid-size-inputs-valid-test \
    "${OPTIONS[@]}" || STATUS=$?
if [[ $STATUS -ne 0 && (${LAUNCH[0]} == torchrun || $STATUS -gt 128) ]]; then
    printf '%s: error: the training ended early; run the same command again to resume from the last checkpoint in %s\n' \
        "$SCRIPT" "$SAVE" >&2
fi
exit "$STATUS"
