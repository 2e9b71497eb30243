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

RESUMED=$SAVE
NODES=${NODES:-1} NODE=${NODE:-${SLURM_NODEID:-}} WHERE=()
if [[ -n ${PROCESSES:-} ]]; then
    number_from PROCESSES 1 1024 "$PROCESSES"
    WHERE+=(--processes "$PROCESSES")
fi
number_from NODES 1 65536 "$NODES"
if [[ $NODES -gt 1 ]]; then
    [[ ${MASTER:-} =~ ^.+:[0-9]+$ ]] || die "MASTER must be HOST:PORT of machine 0, but is '${MASTER:-}'"
    [[ $NODE =~ ^[0-9]+$ && $NODE -lt $NODES ]] || die "NODE must be a number from 0 to $((NODES - 1)), but is '$NODE'"
    WHERE+=(--nodes "$NODES" --node "$NODE" --master "$MASTER")
fi

STATUS=0
# Not with a package of that name in the folder where it is called.
PYTHONSAFEPATH=1 run_unshown python3 -m deepnmt.commands.train "$RECIPE" "$DATA" "$SAVE" "${WHERE[@]}" "$@" || STATUS=$?
if [[ $STATUS -gt 128 ]]; then
    printf '%s: error: the training ended early; run the same command again to %s\n' "$SCRIPT" "$(what_next)" >&2
fi
exit "$STATUS"
