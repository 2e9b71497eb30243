#!/usr/bin/env bash
# `deepnmt score`: score translations.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt score "$@"
