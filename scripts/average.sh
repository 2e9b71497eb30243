#!/usr/bin/env bash
# The mean of several checkpoints of one training run, as one checkpoint.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: average.sh SAVE_DIR OUT.pt (--last N | --until-best N | --around-best N)

Averages checkpoints of one training run (fairseq's --save-dir) into OUT.pt, which has the size of one model:
it holds no optimizer state. It serves wherever fairseq takes a checkpoint. No update is weighed twice:
checkpoint_best.pt and checkpoint_last.pt count only if their update has no checkpointE.pt or checkpoint_E_U.pt.

  --last N          the last N checkpoints
  --until-best N    the last N checkpoints up to the best by validation (checkpoint_best.pt): what --validate-average N
                    has validated
  --around-best N   N consecutive checkpoints with the best by validation (checkpoint_best.pt) in the middle;
                    if that is too near the start or the end of the training, the first or the last N

An OUT.pt that exists is replaced when the new one is complete.

example:
  scripts/average.sh checkpoints/de-en checkpoints/de-en/average.pt --last 5
HELP
}

SAVE_DIR='' OUT='' WHICH=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --last | --until-best | --around-best)
            [[ ${#WHICH[@]} -eq 0 ]] || die "one of --last, --until-best and --around-best must be given, but not two"
            number=$(value "$@")
            whole_number "$1" "$number"
            WHICH=("$1" "$number")
            shift
            ;;
        -h | --help) usage; exit 0 ;;
        -*) die "unknown option '$1' (see --help)" ;;
        *)
            if [[ -z $SAVE_DIR ]]; then
                SAVE_DIR=$1
            elif [[ -z $OUT ]]; then
                OUT=$1
            else
                die "unexpected argument '$1' (see --help)"
            fi
            ;;
    esac
    shift
done
[[ -n $SAVE_DIR && -n $OUT ]] || die "SAVE_DIR and OUT.pt must be given (see --help)"
[[ ${#WHICH[@]} -gt 0 ]] || die "one of --last, --until-best and --around-best must be given"

need python3
run python3 "$ROOT/scripts/average.py" "$SAVE_DIR" "$OUT" "${WHICH[@]}"
