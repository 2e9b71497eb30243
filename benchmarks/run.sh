#!/usr/bin/env bash
# All benchmarks, in one table.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

usage() {
    cat <<'HELP'
usage: run.sh [BENCHMARK ...] [--quick] [--repetitions N] [--threads N]

Runs the benchmarks of this folder and prints one table: what is compared, the ratio of the medians of interleaved
repetitions, the target, and the medians with their quartiles. Models and sentences are random: nothing has to be
trained or fetched first. Figures are worth something on a machine that does nothing else.

  BENCHMARK        such as history or tiny_step (default: all but corpus_tools, text_to_data, gpu and plan,
                   which have options of their own)
  --quick          cross_entropy, engines and tiny_step with the smallest model of each: less than five minutes
  --repetitions N  how often each case is timed (default: 3)
  --threads N      of torch (default: 2)

example:
  benchmarks/run.sh | tee benchmarks.md
HELP
}

NAMES=() OPTIONS=() THREADS=2
while [[ $# -gt 0 ]]; do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --quick) OPTIONS+=(--quick) && shift ;;
        --repetitions)
            REPETITIONS=$(value "$@")
            whole_number --repetitions "$REPETITIONS"
            OPTIONS+=(--repetitions "$REPETITIONS")
            shift 2
            ;;
        --threads) THREADS=$(value "$@") && shift 2 ;;
        -*) die "unknown option $1 (see --help)" ;;
        *) NAMES+=("$1") && shift ;;
    esac
done
whole_number --threads "$THREADS"
need python3

FOLDER=$ROOT/benchmarks
# Whether a script's rows are of the common table: is_table NAME
is_table() {
    [[ -f $FOLDER/$1.py ]] && grep -q '^from common import .*main' "$FOLDER/$1.py"
}
if [[ ${#NAMES[@]} -eq 0 && ${OPTIONS[*]} == *--quick* ]]; then
    NAMES=(cross_entropy engines tiny_step)
elif [[ ${#NAMES[@]} -eq 0 ]]; then
    for FILE in "$FOLDER"/*.py; do
        NAME=$(basename "$FILE" .py)
        ! is_table "$NAME" || NAMES+=("$NAME")
    done
fi
for NAME in "${NAMES[@]}"; do
    is_table "$NAME" || die "BENCHMARK must be the name of a script in benchmarks/ with --rows, but is '$NAME'"
done

export OMP_NUM_THREADS=$THREADS
# As train.sh does on the CPU: freed memory is kept.
KEEP=(MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 MALLOC_TOP_PAD_=100000000)
run python3 "$FOLDER/common.py" "$THREADS"
for NAME in "${NAMES[@]}"; do
    run env "${KEEP[@]}" python3 "$FOLDER/$NAME.py" --rows --threads "$THREADS" "${OPTIONS[@]}"
done
