#!/usr/bin/env bash
# `deepnmt train`: train the model of a recipe.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt train "$@"
