# shellcheck shell=bash
# Sourced by the scripts beside it: how the Python of the study is run.
set -euo pipefail
# shellcheck source=examples/options.sh
source "$ROOT/examples/options.sh"

# Found in Python's path: the Python of scripts/, the study, and the grammar of the demo.
export PYTHONPATH=$ROOT/scripts:$ROOT/examples/iwslt14:$ROOT/examples/demo${PYTHONPATH:+:$PYTHONPATH}

study() {
    run python3 -m "study.$1" "${@:2}"
}

study_quietly() {
    python3 -m "study.$1" "${@:2}"
}
