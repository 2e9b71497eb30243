#!/usr/bin/env bash
# `deepnmt finetune`: train a model further on other data.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt finetune "$@"
