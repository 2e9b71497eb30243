#!/usr/bin/env bash
# `deepnmt align`: align the words of pairs, and score each pair.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt align "$@"
