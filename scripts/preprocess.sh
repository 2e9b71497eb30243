#!/usr/bin/env bash
# `deepnmt preprocess`: raw parallel text to the binarised data that fairseq reads.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt preprocess "$@"
