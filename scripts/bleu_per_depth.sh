#!/usr/bin/env bash
# `deepnmt bleu-per-depth`: score a model with ever fewer of its layers.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt bleu-per-depth "$@"
