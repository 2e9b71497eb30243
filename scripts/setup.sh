#!/usr/bin/env bash
# Install the pinned versions into .venv; done at once where that has been done.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'HELP'
usage: setup.sh

Installs everything in requirements.txt, and this package, into .venv: about 4 minutes the first time, most of it spent
compiling fairseq. Needs Python 3.11 or later with its headers and venv, a C and a C++ compiler, and access to PyPI.

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
# setup.py names the console commands: they are installed once more when it changes.
if cmp -s <(cat -- "$ROOT/requirements.txt" "$ROOT/setup.py") "$DONE"; then
    exit 0
fi

MISSING=()
PYTHON=${PYTHON:-python3}
if ! command -v "$PYTHON" >/dev/null; then
    MISSING+=("Python 3.11 (Debian: apt-get install python3 python3-dev python3-venv)")
else
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        MISSING+=("Python 3.11 or later, since $PYTHON is $("$PYTHON" -V 2>&1); name another one with PYTHON=...")
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        MISSING+=("Python's venv (Debian: apt-get install python3-venv)")
    "$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        MISSING+=("Python's headers (Debian: apt-get install python3-dev)")
fi
command -v gcc >/dev/null || MISSING+=("a C compiler (Debian: apt-get install gcc)")
printf 'int main() {}\n' | gcc -x c++ -fsyntax-only - 2>/dev/null ||
    MISSING+=("a C++ compiler (Debian: apt-get install g++)")
for ITEM in "${MISSING[@]}"; do
    printf '%s: error: this machine lacks %s\n' "$SCRIPT" "$ITEM" >&2
done
[[ ${#MISSING[@]} -eq 0 ]] || exit 2

ON_INTERRUPT="resume"
export PIP_DISABLE_PIP_VERSION_CHECK=1
TMP=$(mktemp)
grep -v '^fairseq' "$ROOT/requirements.txt" >"$TMP"
printf 'Setting up %s: about 4 minutes\n' "$VENV" >&2
[[ -x $VENV/bin/pip ]] || run "$PYTHON" -m venv "$VENV"
run "$VENV/bin/pip" install --progress-bar on -r "$TMP" || die "the installation failed; see above"
printf 'Compiling fairseq: about 2.5 minutes\n' >&2
# fairseq asks for torchaudio, which translation never imports; without optimisation the compiler needs half the time,
# and the part that matters, batching, sets its own.
CFLAGS="-O0 -g0" run "$VENV/bin/pip" install --no-build-isolation --no-deps \
    "$(grep '^fairseq' "$ROOT/requirements.txt")" || die "fairseq could not be built; see above"
run "$VENV/bin/pip" install --quiet --no-build-isolation --no-deps --editable "$ROOT" ||
    die "this package could not be installed; see above"
cat -- "$ROOT/requirements.txt" "$ROOT/setup.py" >"$DONE.tmp"
mv -- "$DONE.tmp" "$DONE"
