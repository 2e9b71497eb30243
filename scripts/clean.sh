#!/usr/bin/env bash
# `deepnmt clean`: keep the pairs of a corpus that are worth training on.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt clean "$@"
