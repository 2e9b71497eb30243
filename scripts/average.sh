#!/usr/bin/env bash
# `deepnmt average`: the mean of several checkpoints of one training, as one checkpoint.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt average "$@"
