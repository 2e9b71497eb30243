#!/usr/bin/env bash
# `deepnmt average`: the mean of several checkpoints of one training, as one checkpoint.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
deepnmt average "$@"
