# shellcheck shell=bash
# Sourced by the scripts beside it and by the examples. An example may set ON_INTERRUPT, the end of "interrupted; run the
# same command again to ...", and TMP, a file that is removed at the end.
set -euo pipefail
# A shell starts background commands with SIGINT ignored, which bash cannot reset: start once more with the signal heard.
if [[ $(trap -p INT) == "trap -- '' SIGINT" && -f $0 ]] && env --default-signal=INT true 2>/dev/null; then
    exec env --default-signal=INT "$BASH" "$0" "$@"
fi
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SCRIPT=$(basename "$0")
BIN=${DEEPNMT_PYTHON_BIN:-$ROOT/.venv/bin} ON_INTERRUPT="start over" TMP='' RUNNING=''
[[ ! -d $BIN ]] || PATH=$BIN:$PATH
# DEEPNMT_PYTHON_BIN need not have the package; in a log, progress bars are lines: fewer of them.
export DEEPNMT_SCRIPT=$SCRIPT PYTHONUTF8=1 PYTHONIOENCODING=utf-8 PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}
[[ -t 2 ]] || export TQDM_MININTERVAL=${TQDM_MININTERVAL:-5}
die() { printf '%s: error: %.5000s\n' "$SCRIPT" "$*" >&2; exit 2; }
[[ -z ${DEEPNMT_PYTHON_BIN:-} || -d $BIN ]] || die "DEEPNMT_PYTHON_BIN must be a folder, but is '$BIN'"
need() {
    for tool; do command -v "$tool" >/dev/null || die "$tool is not installed; run 'make setup' in $ROOT, or let" \
        "DEEPNMT_PYTHON_BIN name the bin folder that has it"; done
}
deepnmt() { need python3; PYTHONSAFEPATH=1 exec python3 -m deepnmt "$@"; }
# Show a command and run it in a group of its own, which ends as a whole on Ctrl-C.
run() {
    { printf '+'; printf ' %q' "$@"; printf '\n'; } >&2
    set -m; "$@" & RUNNING=$!; set +m
    local status=0; wait "$RUNNING" || status=$?; RUNNING=''; return "$status"
}
stop() { [[ -z $RUNNING ]] || { kill -TERM -- "-$RUNNING" 2>/dev/null; wait "$RUNNING" 2>/dev/null; } || true; }
on_signal() {
    trap '' INT TERM HUP; stop
    [[ $1 == INT ]] || exit 143
    printf '\n%s: interrupted; run the same command again to %s\n' "$SCRIPT" "$ON_INTERRUPT" >&2; exit 130
}
trap 'stop; rm -f -- ${TMP:+"$TMP"}' EXIT
trap 'on_signal INT' INT
trap 'on_signal TERM' TERM HUP
