#!/usr/bin/env bash
# `deepnmt search-errors`: how often the beam search misses the best string, by exhaustive search.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt search-errors "$@"
