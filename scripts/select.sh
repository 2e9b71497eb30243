#!/usr/bin/env bash
# `deepnmt select`: choose the training pairs that are most like a text.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt select "$@"
