#!/usr/bin/env bash
# Install the pinned versions into .venv; done at once where that has been done.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: setup.sh

Installs everything in requirements.txt, and this package, into .venv: a few minutes the first time. Needs Python 3.11 or
later with venv, and access to PyPI. On x86-64 Linux, fairseq is a wheel for Python 3.11 and 3.12; elsewhere it is compiled,
which takes about 2.5 minutes, Python's headers, and a C and a C++ compiler.

environment:
  PYTHON                 the Python to use (default: python3)
  PIP_EXTRA_INDEX_URL    where to look for packages beside PyPI, as pip reads it; without a GPU,
                         https://download.pytorch.org/whl/cpu has a torch of 0.2 GB instead of 3 GB
HELP
}

if [[ $# -gt 0 ]]; then
    usage
    [[ $1 == -h || $1 == --help ]] && exit 0
    die "unknown argument '$1'"
fi

VENV=$ROOT/.venv
DONE=$VENV/installed.txt
FAIRSEQ='^(ve-)?fairseq'
# setup.py names the console commands: they are installed once more when it changes.
if cmp -s <(cat -- "$ROOT/requirements.txt" "$ROOT/setup.py") "$DONE"; then
    exit 0
fi

MISSING=()
PYTHON=${PYTHON:-python3}
# As requirements.txt chooses: ve-fairseq has no wheel here.
compiles() {
    ! "$PYTHON" -c 'import platform, sys
sys.exit(sys.version_info >= (3, 13) or sys.platform != "linux" or platform.machine() != "x86_64")' 2>/dev/null
}
if ! command -v "$PYTHON" >/dev/null; then
    MISSING+=("Python 3.11 (Debian: apt-get install python3 python3-dev python3-venv)")
else
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        MISSING+=("Python 3.11 or later, since $PYTHON is $("$PYTHON" -V 2>&1); name another one with PYTHON=...")
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        MISSING+=("Python's venv (Debian: apt-get install python3-venv)")
    compiles && ! "$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' &&
        MISSING+=("Python's headers (Debian: apt-get install python3-dev)")
fi
if compiles; then
    command -v gcc >/dev/null || MISSING+=("a C compiler (Debian: apt-get install gcc)")
    printf 'int main() {}\n' | gcc -x c++ -fsyntax-only - 2>/dev/null ||
        MISSING+=("a C++ compiler (Debian: apt-get install g++)")
fi
for ITEM in "${MISSING[@]}"; do
    printf '%s: error: this machine lacks %s\n' "$SCRIPT" "$ITEM" >&2
done
[[ ${#MISSING[@]} -eq 0 ]] || exit 2

ON_INTERRUPT="resume"
export PIP_DISABLE_PIP_VERSION_CHECK=1
TMP=$(mktemp)
grep -vE "$FAIRSEQ" "$ROOT/requirements.txt" >"$TMP"
printf 'Setting up %s: a few minutes\n' "$VENV" >&2
[[ -x $VENV/bin/pip ]] || run "$PYTHON" -m venv "$VENV"
run "$VENV/bin/pip" install --progress-bar on -r "$TMP" || die "the installation failed; see above"
if compiles; then printf 'Compiling fairseq: about 2.5 minutes\n' >&2; fi
grep -E "$FAIRSEQ" "$ROOT/requirements.txt" >"$TMP"
# Both have the same files, so that one that is removed later would take the other's with it.
run "$VENV/bin/pip" uninstall -qq --yes fairseq fairseq-fixed ve-fairseq
# fairseq asks for torchaudio, which translation never imports; without optimisation the compiler needs half the time,
# and the part that matters, batching, sets its own.
CFLAGS="-O0 -g0" run "$VENV/bin/pip" install --no-build-isolation --no-deps -r "$TMP" ||
    die "fairseq could not be installed; see above"
run "$VENV/bin/pip" install --quiet --no-build-isolation --no-deps --editable "$ROOT" ||
    die "this package could not be installed; see above"
cat -- "$ROOT/requirements.txt" "$ROOT/setup.py" >"$DONE.tmp"
mv -- "$DONE.tmp" "$DONE"
