#!/usr/bin/env bash
# `deepnmt train-lm`: train a language model on one side of a data folder.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt train-lm "$@"
