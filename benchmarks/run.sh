#!/usr/bin/env bash
# All benchmarks, in one table.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

usage() {
    cat <<'HELP'
usage: run.sh [BENCHMARK ...] [--repetitions N] [--threads N]

Runs the benchmarks of this folder and prints one table: what is compared, the ratio of the medians of interleaved
repetitions, the target, and the medians with their quartiles. Figures are worth something on a machine that does
nothing else.

  BENCHMARK        such as history or tiny_step (default: all but corpus_tools, text_to_data and gpu,
                   which have options of their own)
  --repetitions N  how often each case is timed (default: 7)
  --threads N      of torch (default: 2)

environment:
  DATA             folder of binarised Multi30k (default: output/multi30k/data, made if it is not there)
  MULTI30K_DIR     as for examples/multi30k/best.sh

example:
  benchmarks/run.sh | tee benchmarks.md
HELP
}

NAMES=() REPETITIONS=7 THREADS=2
while [[ $# -gt 0 ]]; do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --repetitions) REPETITIONS=$(value "$@") && shift 2 ;;
        --threads) THREADS=$(value "$@") && shift 2 ;;
        -*) die "unknown option $1 (see --help)" ;;
        *) NAMES+=("$1") && shift ;;
    esac
done
whole_number --repetitions "$REPETITIONS"
whole_number --threads "$THREADS"
need python3 fairseq-train

FOLDER=$ROOT/benchmarks
# Whether a script's rows are of the common table: is_table NAME
is_table() {
    [[ -f $FOLDER/$1.py ]] && grep -q '^from common import .*main' "$FOLDER/$1.py"
}
if [[ ${#NAMES[@]} -eq 0 ]]; then
    for FILE in "$FOLDER"/*.py; do
        NAME=$(basename "$FILE" .py)
        ! is_table "$NAME" || NAMES+=("$NAME")
    done
fi
for NAME in "${NAMES[@]}"; do
    is_table "$NAME" || die "BENCHMARK must be the name of a script in benchmarks/ with --rows, but is '$NAME'"
done

# OUT and DATA of the example, by which it makes the data, are the benchmarks' own.
FOLDER_OF_DATA=${DATA:-$ROOT/output/multi30k/data}
OUT=$(dirname "$FOLDER_OF_DATA")
# shellcheck source=examples/multi30k/common.sh
source "$ROOT/examples/multi30k/common.sh"
export DATA=$FOLDER_OF_DATA
if [[ ! -f $DATA/dict.en.txt ]]; then
    prepare_data >&2
fi

export OMP_NUM_THREADS=$THREADS
# As train.sh does on the CPU: freed memory is kept. fairseq-generate is run by itself.
KEEP=(MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 MALLOC_TOP_PAD_=100000000)
run python3 "$FOLDER/common.py" "$THREADS"
for NAME in "${NAMES[@]}"; do
    SETTINGS=("${KEEP[@]}")
    [[ $NAME != decoding ]] || SETTINGS=()
    run env "${SETTINGS[@]}" python3 "$FOLDER/$NAME.py" --rows --repetitions "$REPETITIONS" --threads "$THREADS"
done
