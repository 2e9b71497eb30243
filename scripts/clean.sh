#!/usr/bin/env bash
# `deepnmt clean`: keep the pairs of a corpus that are worth training on.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt clean "$@"
