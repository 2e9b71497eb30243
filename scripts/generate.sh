#!/usr/bin/env bash
# `deepnmt generate`: translations of a subset of a data folder, beside their references.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt generate "$@"
